"""What rows amount to, and which key must have signed which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.errors import Break
from broker.receipt.book import Book, EndRow, kid_of, last_line, read_book
from broker.receipt.chain import Chain
from broker.receipt.entry import canonical
from broker.receipt.form import LEDGER
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keys import Key
from tests.receiptkit import KEY, outcome

WHEN = "2026-11-30T08:00:00.000Z"
A, B, C = "a" * 64, "b" * 64, "c" * 64
OLD, NEW, FOREIGN = KEY, Key.of(bytes(range(1, 33))), Key.of(bytes(range(2, 34)))
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


FAULTY: dict[str, tuple[str, str, dict[str, Any]]] = {
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
        {"kid_from": NEW.kid, "kid_to": OLD.kid, "vkey_from": "", "vkey_to": ""},
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_row_that_is_not_understood_is_a_break(name: str) -> None:
    """Nothing in a row is skipped: it could lift a demand."""
    reason, kind, data = FAULTY[name]
    with pytest.raises(Break) as caught:
        book(("begin", BEGIN), (kind, data))
    assert caught.value.reason == reason


# ── which key signed which row ──


class Pages:
    """A ledger written by hand, each row with any key."""

    def __init__(self, place: Path, first: Key) -> None:
        self.path, self.head = place / "rows", place / "head"
        self.chain = Chain("ledger", first, form=LEDGER, tree=False)
        self.lines: list[bytes] = []
        self.add("open", {"format": LEDGER.name})

    def add(self, kind: str, data: dict[str, Any]) -> None:
        line = self.chain.compose(kind, canonical(data), WHEN)
        self.chain.push(kind, WHEN, line)
        self.lines.append(line)

    def rotate(self, outgoing: Key, incoming: Key, signed_by: Key | None = None) -> None:
        if signed_by is not None:
            self.chain.turn(signed_by)
        kids = {"kid_from": outgoing.kid, "kid_to": incoming.kid}
        self.add("rotate", {**kids, "vkey_from": "", "vkey_to": ""})
        self.chain.turn(incoming)

    def read(self, key: Key, *archive: Key, signed_by: Key | None = None) -> Book:
        """Sign the head, write both files, and read them with a key and an archive."""
        chain = self.chain
        self.path.write_bytes(b"".join(line + b"\n" for line in self.lines))
        form = HeadForm("ledger", signed_by or key, LEDGER)
        slot = form.slot(Head(chain.n, chain.last, chain.size))
        self.head.write_bytes(slot.ljust(HEAD_BYTES, b"\0"))
        self.path.chmod(0o600)
        self.head.chmod(0o600)
        kept = {each.kid: each for each in archive}
        return read_book(self.path, self.head, key, kept.get)


def begun(key: Key, sid: str = "s1") -> dict[str, Any]:
    return {**BEGIN, "kid": key.kid, "sid": sid}


def test_keys_change_at_a_row_of_the_outgoing_key(tmp_path: Path) -> None:
    """Rows before a rotation are read with the archived key, those after it with the next."""
    pages = Pages(tmp_path, OLD)
    pages.add("begin", begun(OLD))
    pages.rotate(OLD, NEW)
    pages.add("begin", begun(NEW, "s2"))
    found = pages.read(NEW, OLD)
    assert [listed.kid for listed in found.sessions.values()] == [OLD.kid, NEW.kid]
    assert [(each.kid_from, each.kid_to) for each in found.rotations] == [(OLD.kid, NEW.kid)]
    assert (found.n, found.beyond, found.rotating) == (4, 0, False)


def test_an_archived_key_that_is_gone_is_named(tmp_path: Path) -> None:
    """Without the key of the first rows there is a break that says which key is missing."""
    pages = Pages(tmp_path, OLD)
    pages.rotate(OLD, NEW)
    with pytest.raises(Break, match=OLD.kid):
        pages.read(NEW)


def test_a_head_of_the_outgoing_key_is_believed_right_after_the_rotation(tmp_path: Path) -> None:
    """It is what a crash leaves there; one row later it is a head that was put back."""
    pages = Pages(tmp_path, OLD)
    pages.rotate(OLD, NEW)
    assert pages.read(NEW, OLD, signed_by=OLD).rotating
    pages.add("begin", begun(NEW))
    assert outcome(lambda: pages.read(NEW, OLD, signed_by=OLD)) == "head_mac"


def test_small_readers(tmp_path: Path) -> None:
    """The last line and the key's name are found however long the file and its lines are."""
    path = tmp_path / "lines"
    for lines in ([b"a"], [b"a", b"b" * 9_000], [b"c" * 5_000] * 3):
        content = b"".join(line + b"\n" for line in lines)
        path.write_bytes(content + b"fragment")
        with path.open("rb") as file:
            assert last_line(file.fileno(), len(content)) == lines[-1]
    assert kid_of(b'{"data":{"kid":"1"},"kid":"0123456789abcdef","kind"') == "0123456789abcdef"
