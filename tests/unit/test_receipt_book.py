"""What rows amount to."""

from __future__ import annotations

from typing import Any

import pytest

from broker.errors import Break
from broker.receipt.book import Book, EndRow, Erased
from broker.receipt.keys import Key
from tests.receiptkit import KEY

WHEN = "2026-11-30T08:00:00.000Z"
A, B, C = "a" * 64, "b" * 64, "c" * 64
OLD, NEW = KEY, Key.of(bytes(range(1, 33)))
BEGIN = {"first": A, "forward": False, "kid": KEY.kid, "level": "mac", "sid": "s1"}


def row(**fields: object) -> dict[str, Any]:
    """Return the data of a row as it is read: sorted by key."""
    return dict(sorted(fields.items()))


def book(*rows: tuple[str, dict[str, Any]]) -> Book:
    """Return a book of rows."""
    made = Book()
    for kind, data in rows:
        made.take(kind, row(**data), WHEN, KEY.kid)
    return made


def head(n: int, last: str) -> tuple[str, dict[str, Any]]:
    return "head", {"sid": "s1", "n": n, "last": last}


def end(n: int, last: str, reason: str = "complete") -> tuple[str, dict[str, Any]]:
    return "end", {"sid": "s1", "n": n, "last": last, "root": C, "reason": reason}


def test_a_session_from_begin_to_end() -> None:
    """The furthest point counts, and one that is told late changes nothing."""
    listed = book(("begin", BEGIN), head(5, B), head(3, C), end(7, C)).sessions["s1"]
    assert (listed.n, listed.last, listed.first) == (7, C, A)
    assert listed.end == EndRow(7, C, C, "complete")
    assert listed.clash is None
    assert (listed.under, listed.begun_at) == (KEY.kid, WHEN)


CLASHES: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "begun twice": ("reused", [("begin", BEGIN), ("begin", {**BEGIN, "first": B})]),
    "begun again after it was retired": (
        "reused",
        [
            ("begin", BEGIN),
            ("retire", {"sid": "s1", "reason": "x", "found": "y"}),
            ("begin", BEGIN),
        ],
    ),
    "two lines in one place": ("fork", [("begin", BEGIN), head(5, B), head(5, C)]),
    "ended in another line": ("fork", [("begin", BEGIN), head(5, B), end(5, C)]),
    "ended before it came so far": ("fork", [("begin", BEGIN), head(5, B), end(4, C)]),
    "ended twice": ("fork", [("begin", BEGIN), end(4, C), end(4, C, "abandoned")]),
    "gone on after its end": ("fork", [("begin", BEGIN), end(4, C), head(5, B)]),
}


@pytest.mark.parametrize("name", CLASHES)
def test_rows_that_contradict_each_other(name: str) -> None:
    """Rows that no one receipt can fit are evidence by themselves, and stay so."""
    reason, rows = CLASHES[name]
    listed = book(*rows, head(90, A)).sessions["s1"]
    assert listed.clash is not None
    assert listed.clash[0] == reason


def test_a_row_written_twice_says_no_more() -> None:
    """Two starters that mend the same crash write the same rows."""
    listed = book(("begin", BEGIN), ("begin", BEGIN), end(4, C), end(4, C)).sessions["s1"]
    assert listed.clash is None


def test_a_persons_word_lifts_what_was_demanded() -> None:
    """After `adopt`, what it names stands; what it lifted is forgotten, and its reason is not."""
    adopt = {**BEGIN, "n": 3, "last": B, "reason": "backup", "found": "truncated"}
    listed = book(("begin", BEGIN), end(9, C), ("adopt", adopt)).sessions["s1"]
    assert (listed.n, listed.last, listed.end, listed.adopted) == (3, B, None, "backup")


def test_values_that_were_erased() -> None:
    """Each is counted once, with its first reason, and stays on record when a state is adopted."""

    def redact(n: int, reason: str) -> tuple[str, dict[str, Any]]:
        return "redact", {"sid": "s1", "n": n, "field": "args", "reason": reason}

    adopt = {**BEGIN, "n": 3, "last": B, "reason": "backup", "found": "truncated"}
    rows = (("begin", BEGIN), redact(3, "asked"), redact(3, "again"), ("adopt", adopt))
    listed = book(*rows, redact(4, "law")).sessions["s1"]
    assert listed.erased == (Erased(3, "args", "asked"), Erased(4, "args", "law"))
    assert listed.clash is None


FAULTY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an erasure in no line": (
        "schema",
        "redact",
        {"sid": "s1", "n": 0, "field": "args", "reason": "x"},
    ),
    "an erasure in no session": (
        "order",
        "redact",
        {"sid": "s2", "n": 1, "field": "args", "reason": "x"},
    ),
    "an anchor of nothing": (
        "schema",
        "anchor",
        {"of": "s1", "size": 0, "root": A, "anchor": "git", "digest": "x"},
    ),
    "a forward-secure session under another key": (
        "kid_retired",
        "begin",
        {**BEGIN, "sid": "s3", "forward": True, "kid": NEW.kid},
    ),
    "a key too many": ("schema", "head", {"sid": "s1", "n": 1, "last": A, "x": 1}),
    "a key too few": ("schema", "head", {"sid": "s1", "n": 1}),
    "true for a number": ("schema", "head", {"sid": "s1", "n": True, "last": A}),
    "no line": ("schema", "head", {"sid": "s1", "n": 0, "last": A}),
    "no hash": ("schema", "head", {"sid": "s1", "n": 1, "last": "a" * 63}),
    "no name": ("schema", "begin", {**BEGIN, "sid": "../s1"}),
    "a session that never began": ("order", "head", {"sid": "s2", "n": 1, "last": A}),
    "a key that is not in use": ("kid_retired", "begin", {**BEGIN, "kid": NEW.kid, "sid": "s3"}),
    "a rotation from another key": (
        "kid",
        "rotate",
        {"agreed": A, "kid_from": NEW.kid, "kid_to": OLD.kid, "vkey_from": "", "vkey_to": ""},
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_row_that_is_not_understood_is_a_break(name: str) -> None:
    """Nothing in a row is skipped: it could lift a demand."""
    reason, kind, data = FAULTY[name]
    with pytest.raises(Break) as caught:
        book(("begin", BEGIN), (kind, data))
    assert caught.value.reason == reason
