"""
A store for the threads of one process; what others agree with in tests.

Decided here: nothing but how it is kept: tables, and one lock around each request.
"""

from __future__ import annotations

import threading

from broker.budgets import ruling
from broker.budgets.ruling import Facts, Growth, HolderPlace, Reservation, StoreAnswer
from broker.budgets.store import Revoked


class MemoryStore:
    """
    Counts and revocations in memory.

    >>> store = MemoryStore()
    >>> store.begin("a", "s"), store.begin("a", "other")
    (True, False)
    """

    def __init__(self) -> None:
        self.name = "memory"
        self._trees: dict[str, str] = {}
        self._begun: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._places: dict[str, HolderPlace] = {}
        self._revoked: dict[str, Revoked] = {}
        self._lock = threading.Lock()

    def begin(self, tree: str, holder: str) -> bool:
        """Make a tree; see ``Store``."""
        with self._lock:
            if tree in self._trees:
                return self._begun[tree] == holder
            self._trees[tree], self._begun[tree], self._counts[tree] = "", holder, 0
            return True

    def join(self, holder: str, at_least: int, trees: tuple[str, ...]) -> tuple[StoreAnswer, int]:
        """Begin or go on as a holder; see ``Store``."""
        with self._lock:
            known = self._known(holder, ())
            (answer, change), base = ruling.join(holder, at_least, trees, known)
            self._write(holder, change)
            return answer, base

    def reserve(self, asked: Reservation) -> StoreAnswer:
        """Count a call; see ``Store``."""
        with self._lock:
            answer, change = ruling.reserve(asked, self._known(asked.holder, asked.line))
            self._write(asked.holder, change)
            return answer

    def refund(self, holder: str, number: int) -> StoreAnswer:
        """Take a call back; see ``Store``."""
        with self._lock:
            answer, change = ruling.refund(number, self._known(holder, ()))
            self._write(holder, change)
            return answer

    def counts(self, line: tuple[str, ...]) -> tuple[int, ...] | None:
        """Return the counts of links; see ``Store``."""
        with self._lock:
            if not any(link in self._counts for link in line):
                return None
            return tuple(self._counts.get(link, 0) for link in line)

    def revoke(self, revoked: Revoked) -> bool:
        """Revoke a ticket; see ``Store``."""
        with self._lock:
            return self._revoked.setdefault(revoked.ticket, revoked) is revoked

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """Return the first link that is revoked; see ``Store``."""
        with self._lock:
            return next((self._revoked[link] for link in line if link in self._revoked), None)

    def close(self) -> None:
        """Nothing is open."""

    def _known(self, holder: str, line: tuple[str, ...]) -> Facts:
        gone = {link: self._revoked[link].reason for link in line if link in self._revoked}
        return Facts(self._trees, self._counts, gone, self._places.get(holder))

    def _write(self, holder: str, change: Growth) -> None:
        for link, more in change.counts.items():
            self._counts[link] = self._counts.get(link, 0) + more
        if change.place is not None:
            self._places[holder] = change.place
        self._trees.update(change.lost)
