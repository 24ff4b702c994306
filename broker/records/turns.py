"""
Turns and attempts, from the records alone.

Decided here: the first request of a conversation is turn 0, attempt 0. An answer that came whole
closes its turn; after one that failed, and while none has come, the next request is another
attempt at the same turn. Each branch counts for itself.

Rules a maintainer keeps: nothing but the order of the records is looked at, so that whoever reads
them counts the same; an answer closes the turn of its own request and no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.records.model import ProviderRequest, ProviderResponse, Record


@dataclass(slots=True)
class _Branch:
    turn: int = 0
    attempt: int = 0


@dataclass(slots=True)
class Turns:
    """
    The counts of one session.

    >>> turns = Turns()
    >>> turns.begin("a", "main"), turns.begin("b", "main")
    ((0, 0), (0, 1))
    >>> turns.end("b", whole=True)
    >>> turns.begin("c", "main")
    (1, 0)
    """

    _branches: dict[str, _Branch] = field(default_factory=dict)
    _open: dict[str, tuple[str, int]] = field(default_factory=dict)

    def next(self, branch: str) -> tuple[int, int]:
        """Return the turn and the attempt of the next request of a branch."""
        found = self._branches.get(branch) or _Branch()
        return found.turn, found.attempt

    def begin(self, request: str, branch: str) -> tuple[int, int]:
        """Count a request, and return its turn and attempt."""
        found = self._branches.setdefault(branch, _Branch())
        place = found.turn, found.attempt
        found.attempt += 1
        self._open[request] = (branch, found.turn)
        return place

    def end(self, request: str, *, whole: bool) -> None:
        """Count an answer; one to an unknown request, or a second one, counts nothing."""
        branch, turn = self._open.pop(request, ("", -1))
        found = self._branches.get(branch)
        if whole and found is not None and found.turn == turn:
            found.turn, found.attempt = turn + 1, 0


def derived(records: Iterable[Record]) -> dict[str, tuple[int, int]]:
    """Return the turn and attempt of every request that asked a model, by its id."""
    turns = Turns()
    found: dict[str, tuple[int, int]] = {}
    for record in records:
        count(turns, record, found)
    return found


def count(turns: Turns, record: Record, found: dict[str, tuple[int, int]] | None = None) -> None:
    """Count one record that was read."""
    if isinstance(record, ProviderRequest) and record.turn is not None:
        place = turns.begin(record.id, record.branch)
        if found is not None:
            found[record.id] = place
    elif isinstance(record, ProviderResponse):
        turns.end(record.id, whole=record.failure is None)
