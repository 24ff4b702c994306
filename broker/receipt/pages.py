"""
Reading the ledger's files: every row verified, and which key must have signed which.

Decided here: where the key changes, and which keys are believed. Not decided here: what rows amount
to (``book``), how they are written (``ledger``).

Rules a maintainer keeps:

- Only rows that ``chain`` accepted are read.
- The key changes only at a ``rotate`` row that the outgoing key signs and the incoming one
  agrees to, and the last key must be the one this installation has now. Archived keys are believed
  for no other reason, so a foreign ledger with its keys planted beside it does not verify.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.errors import Break, UnverifiableError
from broker.receipt import disk
from broker.receipt.book import Book, Rotation
from broker.receipt.chain import Chain
from broker.receipt.form import LEDGER
from broker.receipt.handover import check_agreed
from broker.receipt.head import HEAD_BYTES, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.scan import Walk

LEDGER_SID: Final = "ledger"
Archived = Callable[[str], Key | None]
_KID_MARK: Final = b',"kid":"'
_TAIL_BYTES: Final = 4_096  # holds any row but one with a very long reason


def read_book(path: Path, head_path: Path, key: Key, archived: Archived) -> Book:
    """
    Verify the ledger from its first row to its last, and return what it says.

    Args:
        path, head_path: its two files.
        key: the key this installation has now.
        archived: returns a key that was in use before, by its name.

    Raises:
        Break: ``no_ledger`` where a file is missing or covers nothing; else as a receipt's.
        UnverifiableError: a file is unsafe.
    """
    try:
        head = disk.open_checked(head_path, "ledger's head", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        if error.code == "unverifiable.missing":
            raise Break("no_ledger", f"the ledger's head `{head_path}` is missing") from error
        raise
    try:
        content = os.pread(head, HEAD_BYTES + 1, 0)
    finally:
        os.close(head)
    try:
        fd = disk.open_checked(path, "ledger", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        if error.code == "unverifiable.missing":
            raise Break("no_ledger", f"the ledger `{path}` is missing") from error
        raise
    try:
        return _Reader(fd, content, key, archived).book()
    except Break as error:
        message = f"in the ledger: {error.message}"
        raise Break(error.reason, message, line=error.line, offset=error.offset) from error
    except OSError as error:
        raise UnverifiableError(
            f"the ledger `{path}` cannot be read: {error}", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)


class _Reader:
    """One pass over an open ledger."""

    def __init__(self, fd: int, head: bytes, key: Key, archived: Archived) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._key = key
        self._archived = archived
        self._active = key
        self._retired: list[Key] = []
        self._book = Book()
        self._slots = self._read_head(head)

    def book(self) -> Book:
        """
        Walk every row.

        Raises:
            Break: as ``read_book``.
        """
        book = self._book
        first, newline, _ = os.pread(self._fd, _TAIL_BYTES, 0).partition(b"\n")
        if newline:
            self._active = self._named(kid_of(first))
        chain = Chain(LEDGER_SID, self._active, tree=False, form=LEDGER)
        walk = Walk(self._fd, self._size, chain, self._slots)
        try:
            for _ in walk:
                self._row(chain)
        except Break as error:
            raise self._explained(error, chain) from error
        if chain.n == 0:
            raise Break("no_ledger", "it has no row")
        if self._active.kid != self._key.kid:
            raise chain.broken(
                "kid",
                f"it ends at key `{self._active.kid}`, and this installation's key is "
                f"`{self._key.kid}`",
            )
        if book.rotating and chain.kind != "rotate":
            raise Break("head_mac", "its head was signed with a key that was rotated away")
        book.beyond = chain.n - self._slots.head.n
        book.torn = bool(walk.fragment)
        return book

    def _row(self, chain: Chain) -> None:
        book = self._book
        book.at = chain.at
        try:
            book.take(chain.kind, json.loads(chain.text), book.at, self._active.kid)
            if chain.kind == "rotate":
                self._turn(chain, book.rotations[-1])
        except Break as flaw:
            raise Break(flaw.reason, flaw.message, line=book.n, offset=book.size) from flaw
        book.n, book.last, book.size = chain.n, chain.last, chain.size
        book.first = book.first or chain.last

    def _turn(self, chain: Chain, row: Rotation) -> None:
        incoming = self._named(row.kid_to)
        check_agreed(incoming, row._asdict(), self._book.last)
        self._retired.append(self._active)
        self._active = incoming
        chain.turn(incoming)

    def _read_head(self, content: bytes) -> Slots:
        try:
            return HeadForm(LEDGER_SID, self._key, LEDGER).read(content)
        except Break:
            outgoing = outgoing_key(last_line(self._fd, self._size), self._key, self._archived)
            if outgoing is None:
                raise
            self._book.rotating = True
            return HeadForm(LEDGER_SID, outgoing, LEDGER).read(content)

    def _named(self, kid: str) -> Key:
        key = self._key if kid == self._key.kid else self._archived(kid)
        if key is None:
            raise Break("kid", f"there is no key `{kid}` here, neither in use nor archived")
        return key

    def _explained(self, error: Break, chain: Chain) -> Break:
        """Say of a row signed with a key that was rotated away that it is that."""
        if error.reason != "mac":
            return error
        row = os.pread(self._fd, _TAIL_BYTES, error.offset).partition(b"\n")[0]
        for key in self._retired:
            body, tag = row[:-74] + b"}", row[-66:-2]
            if key.mac(LEDGER.line_label, LEDGER_SID).tag(body).encode() == tag:
                why = f"the row was signed with key `{key.kid}`, which was rotated away"
                return chain.broken("kid_retired", why)
        return error


def kid_of(line: bytes) -> str:
    """Return the key's name in a line that nobody has verified yet: a hint of which to try."""
    start = line.rfind(_KID_MARK) + len(_KID_MARK)
    return line[start : start + 16].decode("ascii", "replace")


def last_line(fd: int, size: int) -> bytes:
    """Return the last whole line of a file's first ``size`` bytes, without its newline."""
    wanted = _TAIL_BYTES
    while True:
        start = max(0, size - wanted)
        lines = os.pread(fd, size - start, start).rsplit(b"\n", 2)
        if len(lines) == 3 or start == 0:
            return lines[-2] if len(lines) > 1 else b""
        wanted *= 4


def outgoing_key(line: bytes, key: Key, archived: Archived) -> Key | None:
    """Return the key that signed ``line``, if that looks like the rotation to ``key``."""
    if f'"kid_to":"{key.kid}"'.encode() not in line or b'"kind":"rotate"' not in line:
        return None
    return archived(kid_of(line))
