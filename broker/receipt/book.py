"""
What the ledger says of every session: its rows, verified and read in order.

Decided here: what each row may hold, what the rows of one session amount to, and which
contradictions between rows are evidence. Not decided here: who signed them (``pages``), how rows
are written (``ledger``), and whether the receipts keep what the rows say (``audit``).

Rules a maintainer keeps:

- A row that is not understood is a break, never skipped.
- Rows only ever add demands. The two that lift some, ``adopt`` and ``retire``, hold a person's
  reason and stay visible for good.
- One row written twice says no more than once: two starters may mend the same crash.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from broker.errors import Break, InputError
from broker.receipt.entry import HEX64, check_sid
from broker.receipt.form import OPEN

_LISTS: Final = {"sid": str, "kid": str, "first": str, "level": str, "forward": bool}
_SHAPES: Final[dict[str, dict[str, type]]] = {
    "begin": _LISTS,
    "head": {"sid": str, "n": int, "last": str},
    "end": {"sid": str, "n": int, "last": str, "root": str, "reason": str},
    "adopt": {**_LISTS, "n": int, "last": str, "reason": str, "found": str},
    "retire": {"sid": str, "reason": str, "found": str},
    "redact": {"sid": str, "n": int, "field": str, "reason": str},
    "anchor": {"of": str, "size": int, "root": str, "anchor": str, "digest": str},
    "rotate": {"agreed": str, "kid_from": str, "kid_to": str, "vkey_from": str, "vkey_to": str},
}
# Canonical text is sorted by key, so names and types can be compared in one go.
_KEYS: Final = {kind: tuple(sorted(shape)) for kind, shape in _SHAPES.items()}
_TYPES: Final = {kind: [_SHAPES[kind][key] for key in keys] for kind, keys in _KEYS.items()}
_HASHES: Final = {
    kind: tuple(key for key in keys if key in ("agreed", "first", "last", "root"))
    for kind, keys in _KEYS.items()
}


class EndRow(NamedTuple):
    """What the ``end`` row says: lines, hash of the last, root of the tree, and the reason."""

    n: int
    last: str
    root: str
    reason: str


class Erased(NamedTuple):
    """A value that a person erased: of which line and field, and why."""

    n: int
    field: str
    reason: str


class Listed(NamedTuple):
    """
    What the ledger says of one session.

    ``under`` names the installation's key at the time. Instants are kept as the rows spell them.
    ``n`` and ``last`` are the furthest point that a row names: the receipt has at least ``n``
    lines, and line ``n - 1`` hashes to ``last``. ``clash`` holds a reason and a sentence where
    rows contradict each other. ``adopted`` and ``retired`` hold what a person said. ``erased``
    holds each value once that a person erased.
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
    erased: tuple[Erased, ...] = ()


class Rotation(NamedTuple):
    """
    One change of keys: the row's number, and what it names.

    The row is signed with the outgoing key; ``agreed`` is the incoming one's tag.
    """

    n: int
    kid_from: str
    kid_to: str
    vkey_from: str
    vkey_to: str
    agreed: str


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
        if kind == "anchor":
            return  # of no session alone; who verifies an anchor has its evidence
        sid = data["sid"]
        known = self.sessions.get(sid)
        if kind == "begin":
            if data["kid"] != kid:
                raise Break("kid_retired", f"session `{sid}` began under a key that was not in use")
            self.sessions[sid] = _begun(known, data, at, kid)
        elif kind == "adopt":
            erased = () if known is None else known.erased
            self.sessions[sid] = _adopted(data, at, kid)._replace(erased=erased)
        elif known is None:
            raise Break("order", f"a row speaks of session `{sid}`, which never began")
        elif kind == "retire":
            self.sessions[sid] = known._replace(retired=data["reason"], changed_at=at)
        elif kind == "redact":
            self.sessions[sid] = _erased(known, data)
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
    if data.get("n", 1) < 1 or data.get("size", 1) < 1:
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


def _erased(known: Listed, data: dict[str, Any]) -> Listed:
    found = Erased(data["n"], data["field"], data["reason"])
    if any((each.n, each.field) == (found.n, found.field) for each in known.erased):
        return known
    return known._replace(erased=(*known.erased, found))


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
