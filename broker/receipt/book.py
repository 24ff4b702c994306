"""
What the ledger says of every session: its rows, verified and read in order.

Decided here: what each row may hold, what the rows of one session amount to, which contradictions
between rows are evidence, and which key must have signed which row. Not decided here: how rows
are written (``ledger``), and whether the receipts keep what the rows say (``audit``).

Rules a maintainer keeps:

- Only rows that ``chain`` accepted are read, and a row that is not understood is a break.
- The key changes only at a ``rotate`` row signed by the outgoing key, and the last row must be
  signed by the key this installation has now. Archived keys are believed for no other reason,
  so a foreign ledger with its keys planted beside it does not verify.
- Rows only ever add demands. The two that lift some, ``adopt`` and ``retire``, hold a person's
  reason and stay visible for good.
- One row written twice says no more than once: two starters may mend the same crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker.errors import Break, InputError, UnverifiableError
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.entry import HEX64, check_sid
from broker.receipt.form import LEDGER, OPEN
from broker.receipt.head import HEAD_BYTES, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.scan import Walk

LEDGER_SID: Final = "ledger"
Archived = Callable[[str], Key | None]

_LISTS: Final = {"sid": str, "kid": str, "first": str, "level": str, "forward": bool}
_SHAPES: Final[dict[str, dict[str, type]]] = {
    "begin": _LISTS,
    "head": {"sid": str, "n": int, "last": str},
    "end": {"sid": str, "n": int, "last": str, "root": str, "reason": str},
    "adopt": {**_LISTS, "n": int, "last": str, "reason": str, "found": str},
    "retire": {"sid": str, "reason": str, "found": str},
    "rotate": {"kid_from": str, "kid_to": str, "vkey_from": str, "vkey_to": str},
}
# Canonical text is sorted by key, so names and types can be compared in one go.
_KEYS: Final = {kind: tuple(sorted(shape)) for kind, shape in _SHAPES.items()}
_TYPES: Final = {kind: [_SHAPES[kind][key] for key in keys] for kind, keys in _KEYS.items()}
_HASHES: Final = {
    kind: tuple(key for key in keys if key in ("first", "last", "root"))
    for kind, keys in _KEYS.items()
}
_KID_MARK: Final = b',"kid":"'
_TAIL_BYTES: Final = 4_096  # holds any row but one with a very long reason


class EndRow(NamedTuple):
    """What the ``end`` row says: lines, hash of the last, root of the tree, and the reason."""

    n: int
    last: str
    root: str
    reason: str


class Listed(NamedTuple):
    """
    What the ledger says of one session.

    ``under`` names the installation's key at the time. Instants are kept as the rows spell them.
    ``n`` and ``last`` are the furthest point that a row names: the receipt has at least ``n``
    lines, and line ``n - 1`` hashes to ``last``. ``clash`` holds a reason and a sentence where
    rows contradict each other. ``adopted`` and ``retired`` hold what a person said.
    """

    sid: str
    kid: str
    first: str
    level: str
    forward: bool
    under: str
    begun_at: str
    changed_at: str
    n: int = 1
    last: str = ""
    end: EndRow | None = None
    adopted: str = ""
    retired: str = ""
    clash: tuple[str, str] | None = None


class Rotation(NamedTuple):
    """One change of keys: the row's number, and what it names."""

    n: int
    kid_from: str
    kid_to: str
    vkey_from: str
    vkey_to: str


class Book:
    """
    All that a ledger says, gathered row by row.

    ``sessions`` keeps the order in which they began. ``rotating`` is true when the last row is a
    rotation whose head is still the outgoing key's: a crash came in between.
    """

    __slots__ = (
        "at",
        "beyond",
        "first",
        "last",
        "n",
        "opening",
        "rotating",
        "rotations",
        "sessions",
        "size",
        "torn",
    )

    def __init__(self) -> None:
        self.n = self.size = 0
        self.first = self.last = ""
        self.at = ""
        self.beyond = 0
        self.torn = False
        self.rotating = False
        self.opening: dict[str, Any] = {}
        self.sessions: dict[str, Listed] = {}
        self.rotations: list[Rotation] = []

    def take(self, kind: str, data: dict[str, Any], at: str, kid: str) -> None:
        """
        Take the next row, signed with the key ``kid``.

        Raises:
            Break: ``schema``, ``kid``, ``kid_retired`` or ``order``; the caller adds the place.
        """
        if kind == OPEN:
            self.opening = data
        if kind not in _SHAPES:
            return
        _check(kind, data)
        if kind == "rotate":
            if data["kid_from"] != kid:
                raise Break("kid", "a rotation names another outgoing key than the one signing")
            self.rotations.append(Rotation(self.n, **data))
            return
        sid = data["sid"]
        known = self.sessions.get(sid)
        if kind == "begin":
            if data["kid"] != kid and not data["forward"]:
                raise Break("kid_retired", f"session `{sid}` began under a key that was not in use")
            self.sessions[sid] = _begun(known, data, at, kid)
        elif kind == "adopt":
            self.sessions[sid] = _adopted(data, at, kid)
        elif known is None:
            raise Break("order", f"a row speaks of session `{sid}`, which never began")
        elif kind == "retire":
            self.sessions[sid] = known._replace(retired=data["reason"], changed_at=at)
        else:
            n, last = data["n"], data["last"]
            end = EndRow(n, last, data["root"], data["reason"]) if kind == "end" else None
            self.sessions[sid] = _reached(known, n, last, end, at)


def _check(kind: str, data: dict[str, Any]) -> None:
    if tuple(data) != _KEYS[kind] or [*map(type, data.values())] != _TYPES[kind]:
        raise Break("schema", f"a row of kind `{kind}` does not have its keys and their types")
    for key in _HASHES[kind]:
        if HEX64.fullmatch(data[key]) is None:
            raise Break("schema", f"`{key}` of a row is not 64 lower-case hex digits")
    if data.get("n", 1) < 1:
        raise Break("schema", "a row counts less than one line")
    if "sid" in data:
        try:
            check_sid(data["sid"])
        except InputError as error:
            raise Break("schema", str(error)) from error


def _begun(known: Listed | None, data: dict[str, Any], at: str, kid: str) -> Listed:
    if known is None:
        return Listed(**data, under=kid, begun_at=at, changed_at=at, last=data["first"])
    if known.first == data["first"] and not known.retired:
        return known
    sid = data["sid"]
    return known._replace(clash=("reused", f"session `{sid}` began twice, with another first line"))


def _adopted(data: dict[str, Any], at: str, kid: str) -> Listed:
    """A person's word: what rows before it demanded is lifted, and this stands instead."""
    listed = {key: data[key] for key in _LISTS}
    return Listed(
        **listed,
        under=kid,
        begun_at=at,
        changed_at=at,
        n=data["n"],
        last=data["last"],
        adopted=data["reason"],
    )


def _reached(known: Listed, n: int, last: str, end: EndRow | None, at: str) -> Listed:
    """Move a session to a further point; see whether it is one that can follow."""
    same = last == known.last
    if known.end is not None:
        clashes = end not in (None, known.end) or n > known.end.n or (n == known.end.n and not same)
    elif end is not None:
        clashes = n < known.n or (n == known.n and not same)
    else:
        clashes = n == known.n and not same
    if clashes:
        why = f"rows name two different receipts of session `{known.sid}`"
        return known._replace(clash=known.clash or ("fork", why), changed_at=at)
    if n < known.n:  # told late by another process; the later point covers it
        return known
    return known._replace(n=n, last=last, end=end or known.end, changed_at=at)


# ── reading the files ──


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
                self._retired.append(self._active)
                self._active = self._named(book.rotations[-1].kid_to)
                chain.turn(self._active)
        except Break as flaw:
            raise Break(flaw.reason, flaw.message, line=book.n, offset=book.size) from flaw
        book.n, book.last, book.size = chain.n, chain.last, chain.size
        book.first = book.first or chain.last

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
