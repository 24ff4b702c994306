"""Pieces of a parsed text, and errors about one place of it."""

from __future__ import annotations

import pytest

from broker.errors import InputError, PatternError, ScopeError
from broker.language.pieces import Piece, fault, json_value, moved, unquote


def test_an_error_about_a_part_becomes_one_about_the_whole() -> None:
    """The place inside a part is added to where the part begins; the hint is kept."""
    error = moved("tools=a*", PatternError("no", 1, "b"), 6)
    assert (error.offset, error.hint, error.text) == (7, "b", "tools=a*")
    assert moved("x", InputError("no"), 3).offset == 3
    assert fault("x", "no", 2).offset == 2


def test_values_are_read_as_json() -> None:
    """A piece that spells no JSON is an error with its place."""
    assert json_value("", Piece("STRING", '"a\\u0062"', 0)) == "ab"
    with pytest.raises(ScopeError) as caught:
        json_value('a="\\x"', Piece("STRING", '"\\x"', 2))
    assert caught.value.offset == 2


def test_quotes_come_off_and_every_character_keeps_its_place() -> None:
    """An escaped quote is a quote; every other escape stays as it is."""
    assert unquote('"a\\"b\\*"') == ('a"b\\*', [1, 3, 4, 5, 6, 7])
