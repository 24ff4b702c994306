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
from typing import NamedTuple

from broker.errors import UnverifiableError
from broker.receipt.audit import Expected
from broker.receipt.entry import Entry
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import inspecting
from broker.receipt.merkle import Frontier
from broker.receipt.verify import Verdict, judge


class Line(NamedTuple):
    """A verified line: what it says, and its bytes without the newline."""

    entry: Entry
    raw: bytes


class Source:
    """
    A receipt to export; iterate over it once, to the end.

    Args:
        evidence: the receipt, and what it is verified with.
        now: the instant; lines dated after it are warned of.
        expected: what the ledger expects of it, where it was asked.

    Iterating raises ``Break`` where the receipt stops being what was signed, or is less than
    it promised, and ``UnverifiableError`` where that cannot be told.
    """

    __slots__ = ("_evidence", "_expected", "_now", "_verdict")

    def __init__(
        self, evidence: Evidence, now: int | None = None, expected: Expected | None = None
    ) -> None:
        self._evidence = evidence
        self._expected = expected
        self._now = now
        self._verdict: Verdict | None = None

    @property
    def sid(self) -> str:
        """The session's name."""
        return self._evidence.sid

    def __iter__(self) -> Iterator[Line]:
        expected = self._expected
        try:
            with inspecting(self._evidence, expected.marks if expected else ()) as found:
                for entry, raw in found.lines():
                    yield Line(entry, raw)
                verdict = judge(found, now=self._now)
        except UnverifiableError as error:
            raise (error if expected is None else expected.absent(error)) from error
        self._verdict = verdict if expected is None else expected.settle(verdict)

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
