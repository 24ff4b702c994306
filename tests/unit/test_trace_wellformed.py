"""Whether values of a file are what a format asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import TraceError
from broker.limits import MAX_SAFE_INT
from broker.trace import wellformed as room

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


@given(ANY)
def test_a_value_is_taken_as_it_is_or_refused_by_its_place(value: object) -> None:
    """No value is made another, and none makes a check fail otherwise."""
    for check in (room.an_object, room.a_list, room.a_text, room.an_instant, room.a_number):
        try:
            assert check(value, "/here") is value
        except TraceError as error:
            assert error.message.startswith("/here ")


@pytest.mark.parametrize("good", ["2027-01-15T08:00:00Z", "2027-01-15t08:00:00.123+01:00"])
def test_instants(good: str) -> None:
    """An instant has an offset, and nothing before or behind it."""
    assert room.an_instant(good, "/ts") == good
    for bad in (
        good + "\n",
        " " + good,
        good[:-1],
        good.replace("T", "").replace("t", ""),
        "٢" + good[1:],
    ):
        with pytest.raises(TraceError):
            room.an_instant(bad, "/ts")


def test_numbers() -> None:
    """A whole number is none that is true, below its least, or beyond what readers keep."""
    assert room.a_number(MAX_SAFE_INT, "/n") == MAX_SAFE_INT
    assert room.a_number(-5, "/n", None) == -5
    for bad in (True, 1.0, "1", None, -1, MAX_SAFE_INT + 1, 10**5_000):
        with pytest.raises(TraceError, match="/n"):
            room.a_number(bad, "/n")
    with pytest.raises(TraceError):
        room.a_number(-(10**5_000), "/n", None)


def test_keys() -> None:
    """A key that lacks and a key too many are named; a long one is cut."""
    room.needs({"a": 1}, ("a",), "/")
    with pytest.raises(TraceError, match="lacks `b`"):
        room.needs({"a": 1}, ("b",), "/")
    room.only({"a": 1}, frozenset("a"), "/")
    with pytest.raises(TraceError, match=r"`b{64}`"):
        room.only({"b" * 999: 1}, frozenset("a"), "/")
    assert room.texts(["a"], "/") == ("a",)
    with pytest.raises(TraceError, match="/argv/1"):
        room.texts(["a", 1], "/argv")
