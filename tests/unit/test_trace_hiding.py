"""Attributes and payloads as they may be written."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError
from broker.trace.format import INLINE_BYTES
from broker.trace.hiding import ABSENT, MAX_PATHS, Hiding, inline, plain, spelled

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANY)
def test_every_value_is_written_on_one_line(value: object) -> None:
    """Whatever the value, it is one line of UTF-8, and JSON of the same."""
    text = spelled(plain(value))
    assert json.loads(text) == plain(value)
    assert text.encode().decode().splitlines() in ([text], [])


@given(ANY)
def test_any_payload_is_written(value: object) -> None:
    """Nothing that a model or a tool may send breaks the recording."""
    found, _ = Hiding().event({}, value)
    assert (found.inline is ABSENT) == (found.blob is not None)


def test_no_type_is_a_way_around() -> None:
    """Mappings and tuples of any kind are looked into."""
    hidden, counts = Hiding().event(
        MappingProxyType({"a": ({"password": "pw"},)}), MappingProxyType({"token": ("pw",)})
    )
    assert hidden.attrs == {"a": [{"password": "[hidden]"}]}
    assert hidden.inline == {"token": ["[hidden]"]}
    assert counts == {"name": 2}
    for strange in (b"x", {1, 2}, object()):
        with pytest.raises(InputError):
            Hiding().event({"a": strange})


def test_paths_have_a_limit() -> None:
    """An event of a thousand secrets names some places and counts them all."""
    hidden, counts = Hiding().event({}, [{"password": f"pw{n}"} for n in range(1_000)])
    assert len(hidden.paths) == MAX_PATHS
    assert counts == {"name": 1_000}
    assert hidden.paths[0] == "payload[0].password"


def test_a_remembered_text_is_still_searched_where_its_name_says_so() -> None:
    """A short text that was clean once is a secret under the name of one."""
    hiding = Hiding(b"salt")
    assert hiding.event({"a": "hunter2"})[0].attrs == {"a": "hunter2"}
    assert "hunter2" not in str(hiding.event({"password": "hunter2"})[0].attrs)
    for n in range(10_000):
        hiding.event({"a": f"text {n}"})
    assert "pw" not in str(hiding.event({"a": "PASSWORD=pw-9"})[0].attrs)


def test_what_stands_in_its_line() -> None:
    """The limit counts bytes of JSON; what looks like a reference never stands in a line."""
    for text, stands in (("x" * (INLINE_BYTES - 2), True), ("x" * (INLINE_BYTES - 1), False)):
        assert inline(text, spelled(text)) is stands
    assert not inline("ü" * 3_000, spelled("ü" * 3_000))
    assert not inline({"$blob": 1}, "{}")
    assert inline([{"$blob": 1}], "[{}]")
