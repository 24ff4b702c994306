"""Printing what was recorded without being deceived by it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.receipt.display import escaped, shown


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain text, café, 中文, 🙂", "plain text, café, 中文, 🙂"),
        ("\x1b[31m", "\\u001b[31m"),
        ("\x00\x7f\x9b", "\\u0000\\u007f\\u009b"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("a\u200bb\ufeffc\u00add", "a\\u200bb\\ufeffc\\u00add"),
        ("a\u2028b\u00a0c", "a\\u2028b\\u00a0c"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_not_visible_is_spelled(text: str, seen: str) -> None:
    """Letters stay; escapes, reversals, invisible marks and odd blanks are spelled out."""
    assert escaped(text) == seen


@given(st.text())
def test_nothing_invisible_is_left(text: str) -> None:
    """Every character of an escaped text prints as itself."""
    assert escaped(text).isprintable()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values)
def test_what_is_shown_is_still_json(value: object) -> None:
    """Escaping changes no meaning: what is shown reads back as what was recorded."""
    line = shown(value)
    assert json.loads(line) == value
    assert "\n" not in line
