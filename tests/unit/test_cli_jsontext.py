"""JSON that a caller supplied means one thing, or is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.jsontext import read_json
from broker.errors import InputError
from broker.limits import MAX_JSON_HOLDERS

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_reads_what_was_written(value: object) -> None:
    """Every JSON value is read as what it was written from."""
    assert read_json(json.dumps(value)) == value


def test_lone_surrogates_survive() -> None:
    """A half character is kept, so that whoever judges the value sees it."""
    assert read_json(r'"\ud800"') == "\ud800"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a":1,"b":{"c":1,"c":2}}', "`c` is given twice in one object"),
        ("", "not JSON: expecting value, at character 0"),
        ("[1,]", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5_000, "too many digits"),
        ("[1] 2", "not JSON: extra data, at character 4"),
    ],
)
def test_refuses(text: str, said: str) -> None:
    """What is no JSON, or means two things, is an error that says why."""
    with pytest.raises(InputError, match=said):
        read_json(text)


def test_what_holds_too_much_is_not_read() -> None:
    """Objects and lists are counted before they are built, and those inside a text are not."""
    crowd = "[" + ",".join(["{}"] * MAX_JSON_HOLDERS) + "]"
    with pytest.raises(InputError, match="objects and lists"):
        read_json(crowd)
    assert read_json(json.dumps([crowd, 'a\\"{'])) == [crowd, 'a\\"{']
    assert (
        len(str(read_json("[" + ",".join(["{}"] * (MAX_JSON_HOLDERS - 1)) + "]")))
        > MAX_JSON_HOLDERS
    )
