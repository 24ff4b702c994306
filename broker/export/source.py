"""
One pass over a receipt, for whatever is made from it.

Decided here: that an export reads a receipt once, through the verifier, and learns the verdict
from that same pass. Not decided here: what is written for a line.

Rule a maintainer keeps: nobody below this module opens a receipt. A second look at the file
could show other bytes than those that were verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from broker.receipt.entry import Entry
from broker.receipt.keys import Key
from broker.receipt.merkle import Frontier
from broker.receipt.verify import Verdict, read_lines


class Line(NamedTuple):
    """A verified line: what it says, and its bytes without the newline."""

    entry: Entry
    raw: bytes


class Source:
    """
    A receipt to export; iterate over it once, to the end.

    Args:
        path: the receipt.
        key: the secret that it is signed with.
        head: its head; without one a lost end is not seen.
        sid: the session.
        now: the instant; lines dated after it are warned of.

    Iterating raises ``Break`` where the receipt stops being what was signed, and
    ``UnverifiableError`` where that cannot be told.
    """

    __slots__ = ("_head", "_key", "_now", "_path", "_verdict", "sid")

    def __init__(
        self, path: Path, key: Key, head: Path | None, sid: str, now: int | None = None
    ) -> None:
        self._path = path
        self._key = key
        self._head = head
        self._now = now
        self._verdict: Verdict | None = None
        self.sid = sid

    def __iter__(self) -> Iterator[Line]:
        lines = read_lines(self._path, self._key, self._head, sid=self.sid, now=self._now)
        while True:
            try:
                entry, raw = next(lines)
            except StopIteration as end:
                self._verdict = end.value
                return
            yield Line(entry, raw)

    @property
    def verdict(self) -> Verdict:
        """The verdict, known after the last line."""
        assert self._verdict is not None, "read the source to its end first"  # noqa: S101
        return self._verdict


class Measure:
    """
    What a whole receipt comes to: its bytes, their digest, and the tree over its lines.

    >>> measure = Measure()
    >>> measure.add(b"a line")
    >>> measure.size, measure.sha256 == sha256(b"a line\\n").hexdigest()
    (7, True)
    """

    __slots__ = ("_digest", "_tree", "size")

    def __init__(self) -> None:
        self._digest = sha256()
        self._tree = Frontier()
        self.size = 0

    def add(self, raw: bytes) -> None:
        """Take in the next line."""
        self._digest.update(raw + b"\n")
        self._tree.append(raw)
        self.size += len(raw) + 1

    @property
    def sha256(self) -> str:
        """The digest of the lines as they stand in the file, in hex."""
        return self._digest.hexdigest()

    @property
    def lines(self) -> int:
        """How many lines were taken in."""
        return self._tree.size

    @property
    def root(self) -> str:
        """The RFC 6962 root over all of them, in hex."""
        return self._tree.root().hex()
