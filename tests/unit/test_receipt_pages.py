"""Which key must have signed which row of the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.errors import Break
from broker.receipt.book import Book
from broker.receipt.chain import Chain
from broker.receipt.entry import canonical
from broker.receipt.form import LEDGER
from broker.receipt.handover import agreement
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keys import Key
from broker.receipt.pages import kid_of, last_line, read_book
from tests.receiptkit import KEY, outcome

WHEN = "2026-11-30T08:00:00.000Z"
OLD, NEW, FOREIGN = KEY, Key.of(bytes(range(1, 33))), Key.of(bytes(range(2, 34)))
BEGIN = {"first": "a" * 64, "forward": False, "kid": KEY.kid, "level": "mac", "sid": "s1"}


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

    def rotate(
        self,
        outgoing: Key,
        incoming: Key,
        signed_by: Key | None = None,
        agreed_by: Key | None = None,
        before: str = "",
    ) -> None:
        if signed_by is not None:
            self.chain.turn(signed_by)
        kids = {"kid_from": outgoing.kid, "kid_to": incoming.kid}
        data = {**kids, "vkey_from": "", "vkey_to": ""}
        agreed = agreement(agreed_by or incoming, data, before or self.chain.last)
        self.add("rotate", {**data, "agreed": agreed})
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


def test_a_rotation_that_the_incoming_key_did_not_agree_to(tmp_path: Path) -> None:
    """Nobody hands a ledger over to a key that knows nothing of it."""
    pages = Pages(tmp_path, FOREIGN)
    pages.add("begin", begun(FOREIGN))
    pages.rotate(FOREIGN, KEY, agreed_by=FOREIGN)
    assert outcome(lambda: pages.read(KEY, FOREIGN, signed_by=FOREIGN)) == "kid"


def test_an_agreement_holds_for_the_rows_before_it_alone(tmp_path: Path) -> None:
    """Who has stolen the outgoing key cannot put the incoming one's agreement after other rows."""
    genuine = Pages(tmp_path, OLD)
    genuine.add("begin", begun(OLD))
    before = genuine.chain.last
    forged = Pages(tmp_path, OLD)
    forged.rotate(OLD, NEW, before=before)
    assert outcome(lambda: forged.read(NEW, OLD, signed_by=OLD)) == "kid"


def test_small_readers(tmp_path: Path) -> None:
    """The last line and the key's name are found however long the file and its lines are."""
    path = tmp_path / "lines"
    for lines in ([b"a"], [b"a", b"b" * 9_000], [b"c" * 5_000] * 3):
        content = b"".join(line + b"\n" for line in lines)
        path.write_bytes(content + b"fragment")
        with path.open("rb") as file:
            assert last_line(file.fileno(), len(content)) == lines[-1]
    assert kid_of(b'{"data":{"kid":"1"},"kid":"0123456789abcdef","kind"') == "0123456789abcdef"
