"""
A line key that moves on with every line, so that who steals it cannot reach back.

Decided here: the key of each line, made from the one before by a hash that nobody can undo; the
tag of a line; and the aggregate, one value over the tags of all lines so far. Not decided here:
where the start key comes from and who may have it (``sealing``), what is kept for a session
that goes on (``ratchetfile``), what a verifier makes of it (``forward``).

With ``k`` the key of line ``n`` and MAC the one of ``keys``, where every use has its label:

    tag(n)    = MAC(k, "receipt/1 line", sid) over the body: a line is signed as any other is
    agg(n+1)  = MAC(k, "receipt/1 aggregate", sid) over agg(n) and tag(n)
    k         = HMAC(k, "receipt/1 step" 0x00)

Rules a maintainer keeps:

- One step for each line, and none for anything else: a gap in the lines is a gap in the keys,
  so no line can be left out by stepping over it.
- Nothing here keeps a key or an aggregate after the step that replaced it. (Python frees their
  memory; it does not overwrite it.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from broker.receipt.form import RECEIPT
from broker.receipt.keys import Key, Mac

STEP_LABEL: Final = f"{RECEIPT.name} step"
AGGREGATE_LABEL: Final = f"{RECEIPT.name} aggregate"
_STEP: Final = STEP_LABEL.encode() + b"\0"
_LINE: Final = RECEIPT.line_label.encode() + b"\0"
_AGGREGATE: Final = AGGREGATE_LABEL.encode() + b"\0"


def first_aggregate(sid: str) -> str:
    """Return the aggregate over no line: public, and bound to the session's name."""
    return sha256(_AGGREGATE + sid.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Position:
    """Where a ratchet stands: the next line, its key, and the aggregate over those before."""

    n: int
    key: bytes = field(repr=False)
    aggregate: str = field(repr=False)


class Ratchet:
    """
    The tags of one session under a key that evolves; a ``LineTags``.

    Args:
        kid: the name of the start key, as every line gives it.
        sid: the session.
        position: where to go on.

    >>> from broker.receipt.keys import Key
    >>> ratchet = Ratchet.start(Key.of(bytes(range(32))), "s1")
    >>> before = ratchet.tag(b"{}")
    >>> ratchet.step()
    >>> ratchet.n, ratchet.tag(b"{}") == before
    (1, False)
    """

    __slots__ = ("_aggregate", "_hmac", "_key", "_line", "_made", "_sid", "kid", "n")

    def __init__(self, kid: str, sid: str, position: Position) -> None:
        self.kid = kid
        self.n = position.n
        self._sid = sid.encode()
        self._aggregate = position.aggregate
        self._line: Mac | None = None
        self._turn(position.key)

    @classmethod
    def start(cls, key: Key, sid: str) -> Ratchet:
        """Begin before line 0, with the start key."""
        return cls(key.kid, sid, Position(0, key.secret, first_aggregate(sid)))

    @property
    def position(self) -> Position:
        """Where it stands: everything that a session needs to go on, and a thief too."""
        return Position(self.n, self._key, self._aggregate)

    @property
    def aggregate(self) -> str:
        """The aggregate over the lines so far: 64 hex digits."""
        return self._aggregate

    def tag(self, body: bytes) -> str:
        """Return the tag of line ``n``, should ``body`` be what it holds."""
        if self._line is None:
            self._line = self._use(_LINE)
        self._made = self._line.tag(body)
        return self._made

    def step(self) -> None:
        """
        Move past line ``n``, whose tag is the last that was made.

        The key and the aggregate before it are gone after this.
        """
        over = self._aggregate + self._made
        self._aggregate = self._use(_AGGREGATE).tag(over.encode())
        self._turn(bytes.fromhex(self._hmac.tag(_STEP)))
        self.n += 1

    def _turn(self, key: bytes) -> None:
        """Take the key of the next line."""
        self._key = key
        self._hmac = Mac(key)
        self._line = None
        self._made = ""

    def _use(self, label: bytes) -> Mac:
        """Return the MAC of one use of this line's key; the same that ``Key.mac`` makes."""
        return Mac(bytes.fromhex(self._hmac.tag(label + self._sid)), label)
