"""Frozen arguments: one text, one hash, and every difference told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError
from broker.harness.snapshot import changed_paths, freeze, spelled
from broker.resolve import canonical_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=4)


@given(OBJECTS, st.booleans())
def test_what_is_thawed_is_what_was_frozen(arguments: dict[str, object], plain: bool) -> None:
    """Thawing gives an equal value each time, a copy of one's own, with the receipt's hash."""
    frozen = freeze(arguments, plain=spelled(arguments) if plain else None)
    assert frozen.thaw() == arguments
    assert frozen.thaw() is not frozen.thaw()
    assert frozen.digest == canonical_digest(arguments)


@given(OBJECTS)
def test_a_thawed_copy_changes_nothing(arguments: dict[str, object]) -> None:
    """Whoever changes a copy changes no other."""
    frozen = freeze(arguments)
    frozen.thaw()["new"] = 1
    assert frozen.thaw() == arguments


@pytest.mark.parametrize(
    "value",
    [
        None, [], "a", {"a": {1, 2}}, {"a": object()}, {"a": float("nan")}, {"a": float("inf")},
        {1: "a"}, {"a": {None: 1}}, {"a": (1, 2)}, {"a": b"x"}, {"a": [{2: 1}]},
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_not_frozen(value: object) -> None:
    """A value that JSON has no word for, or would quietly change, is an error."""
    with pytest.raises(InputError):
        freeze(value)


def test_what_contains_itself_is_not_frozen() -> None:
    """A value without end is an error, not a hang."""
    endless: dict[str, object] = {}
    endless["me"] = endless
    with pytest.raises(InputError):
        freeze(endless)


def test_half_a_character_survives() -> None:
    """A text that is not well-formed is frozen as it is, so that what is judged is what runs."""
    assert freeze({"a": "\ud800"}).thaw() == {"a": "\ud800"}


@given(OBJECTS, OBJECTS)
def test_differences_are_exactly_told(one: dict[str, object], two: dict[str, object]) -> None:
    """There is a difference exactly where the values differ, whichever way one looks."""
    places = changed_paths(one, two)
    assert (places == ()) == (json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True))
    assert places == changed_paths(two, one)
    for place in places:
        assert at(one, place) != at(two, place)


MISSING = object()


def at(value: Any, pointer: str) -> str:
    """Return what stands at a JSON pointer, as text that tells types apart."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else MISSING
    return "missing" if value is MISSING else json.dumps(value, sort_keys=True)


@pytest.mark.parametrize(
    ("one", "two", "places"),
    [
        ({"a/b": 1}, {"a/b": 2}, ("/a~1b",)),
        ({"a~": 1}, {}, ("/a~0",)),
        ({"a": 1}, {"a": True}, ("/a",)),
        ({"a": 1}, {"a": 1.0}, ("/a",)),
        ({"a": []}, {"a": {}}, ("/a",)),
        ([1, [2]], [1, [2, 3]], ("/1/1",)),
        (1, 2, ("",)),
    ],
)
def test_places_are_json_pointers(one: object, two: object, places: tuple[str, ...]) -> None:
    """Names are escaped as RFC 6901 says, and values of another type differ."""
    assert changed_paths(one, two) == places
