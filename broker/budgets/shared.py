"""
A budget whose counts others spend from too.

A call is judged without counts first, since what no count could let through needs no store. It is
then reserved for its whole line in one step of the store, shown to the witness, and answered. The
reservation stands as soon as the next one is made. It is taken back where the witness refused, and
where its holder ended without a record of it (``ruling.join``); never because time went by.

Decided here: for how long a store is asked, that a request is made again under its own number, and
what a holder is told where no answer comes. Not decided here: what is counted
(``broker.budgets.ruling``), where (the stores), what is recorded (``broker.session``).

Rules a maintainer keeps: one request at a time, since a store knows a holder by its last one; a
number is used for one call and never again; what cannot be asked, or is not answered, refuses; a
forked process has no place of its own, so it is refused.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from broker.budget import UNTOLD, Counts, Judge, Limits, Witness, unwitnessed
from broker.budgets.ruling import Reservation, StoreAnswer
from broker.budgets.store import UNREACHABLE, Revoked, Store
from broker.calls import Decision, Refusal
from broker.errors import StoreError

T = TypeVar("T")
DEADLINE_S: Final = 2.0  # from a request until no further try is begun
TRY_S: Final = 1.0  # for one try
_FIRST_WAIT_S: Final = 0.02  # between two tries; twice as long each time
_LONGEST_WAIT_S: Final = 0.25
_TAIL: Final = "; no call is allowed under it; tell the person"


@dataclass(frozen=True, slots=True)
class Time:
    """How time goes by: a clock that never goes back, and waiting; both in seconds."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


class SharedBudget:
    """
    Counts in a store; safe among threads.

    Args:
        store: where the counts are.
        holder: a name that nobody else counts under: a session's, or a random one.
        trees: the roots of trees that others have begun, and which are joined here.
        at_least: the last debit that the holder has a record of.
        deadline_s: for how long an answer is tried for.
        time: how time goes by.

    Raises:
        StoreError: the store cannot be asked, or it has lost the counts (`store.lost`).

    >>> from broker.budgets.memory import MemoryStore
    >>> from broker.calls import ALLOW
    >>> budget = SharedBudget(MemoryStore(), "me")
    >>> budget.begin("a")
    >>> [budget.settle(("a",), 1, lambda _: ALLOW, limits=(1,)).allowed for _ in range(2)]
    [True, False]
    """

    shared = True
    debit: int | None

    def __init__(
        self,
        store: Store,
        holder: str,
        *,
        trees: tuple[str, ...] = (),
        at_least: int = 0,
        deadline_s: float = DEADLINE_S,
        time: Time | None = None,
    ) -> None:
        self.store = store
        self.debit = None
        self._holder, self._trees = holder, dict.fromkeys(trees)
        self._deadline_s, self._time = deadline_s, time or Time()
        self._lock, self._pid = threading.Lock(), os.getpid()
        self.answering = True  # false: it gave up last time, so it is asked once and not waited for
        answer, self._number = self._until_answered(
            lambda: store.join(holder, at_least, tuple(self._trees))
        )
        if answer.kind != "granted":
            raise _lost(answer)
        self._known = self._number

    def begin(self, root: str) -> None:
        """
        Begin to count under a new root; see ``Budget``.

        Raises:
            StoreError: the store cannot be asked, or there are counts under that name.
        """
        with self._lock:
            if not self._until_answered(lambda: self.store.begin(root, self._holder)):
                raise StoreError(f"the shared budget counts calls of ticket {root} already")
            self._trees[root] = None

    def settle(
        self,
        line: tuple[str, ...],
        cost: int,
        judge: Judge,
        *,
        limits: Limits = (),
        witness: Witness = unwitnessed,
    ) -> Decision:
        """Judge and debit as one step; see ``Budget``. ``limits`` are needed here."""
        if os.getpid() != self._pid:
            return witness(_untold("a forked process must open the shared budget itself"))
        with self._lock:
            self.debit = None
            decision = judge((0,) * len(line))
            if not decision.allowed:
                return witness(decision)
            self._number += 1
            trees = tuple([link for link in line if link in self._trees])
            if not trees or len(limits) != len(line):
                return witness(_untold("it counts nothing under this ticket"))
            asked = Reservation(self._holder, self._number, self._known, line, trees, limits, cost)
            try:
                answer = self._until_answered(lambda: self.store.reserve(asked))
            except StoreError as error:
                # If it was counted all the same, the next request takes it back.
                return witness(_untold(str(error)))
            if answer.kind != "granted":
                return witness(_refused(answer, judge))
            return self._witnessed(judge(answer.before), witness)

    def _witnessed(self, decision: Decision, witness: Witness) -> Decision:
        """Show what was reserved to the witness, and take it back where that comes to a refusal."""
        if decision.allowed:
            self.debit = self._number
        decision = witness(decision)
        if decision.allowed:
            self._known = self._number
        else:
            self._taken_back()
        return decision

    def _taken_back(self) -> None:
        try:
            answer = self._until_answered(lambda: self.store.refund(self._holder, self._number))
        except StoreError:
            return  # the next request does it, or whoever seals the session
        if answer.kind == "granted":
            self._known = self._number

    def spent(self, line: tuple[str, ...]) -> Counts:
        """Return the counts of a line, or None when they cannot be told."""
        try:
            return self._until_answered(lambda: self.store.counts(line))
        except StoreError:
            return None

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """
        Return what is revoked of a line.

        Raises:
            StoreError: the store cannot be asked.
        """
        with self._lock:
            return self._until_answered(lambda: self.store.revoked(line))

    def close(self) -> None:
        """Give back what is open; what was counted stands."""
        self.store.close()

    def _until_answered(self, ask: Callable[[], T]) -> T:
        """Ask, and ask again while time is left; each request counts once, however often made."""
        until = self._time.now() + (self._deadline_s if self.answering else 0.0)
        wait = _FIRST_WAIT_S
        while True:
            try:
                answer = ask()
            except StoreError as error:
                if error.code != UNREACHABLE or self._time.now() + wait >= until:
                    self.answering = False
                    raise
            else:
                self.answering = True
                return answer
            self._time.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)


def revoked_refusal(ticket: str, reason: str) -> Refusal:
    """
    Return the refusal of a call under a ticket that was revoked, or below one.

    >>> revoked_refusal("0f", "wrong folder").reason
    'ticket 0f was revoked: wrong folder; no call is allowed under it; tell the person'
    """
    return Refusal("revoked", ticket, f"{_head(ticket)}{reason}{_TAIL}")


def revoked_reason(refusal: Refusal) -> str:
    """
    Return why the person revoked a ticket, from the refusal that came of it.

    >>> revoked_reason(revoked_refusal("0f", "wrong folder"))
    'wrong folder'
    """
    return refusal.reason.removeprefix(_head(refusal.value)).removesuffix(_TAIL)


def _head(ticket: str) -> str:
    return f"ticket {ticket} was revoked: "


def _refused(answer: StoreAnswer, judge: Judge) -> Decision:
    if answer.kind == "full":
        decision = judge(answer.before)
        return UNTOLD if decision.allowed else decision
    if answer.kind == "revoked":
        return Decision(revoked_refusal(answer.link, answer.why))
    return _untold(_lost(answer).message)


def _lost(answer: StoreAnswer) -> StoreError:
    if answer.kind == "stale":
        return StoreError(f"the shared budget was asked out of turn: {answer.why}")
    return StoreError(
        f"the shared budget has lost what was counted under ticket {answer.link}: {answer.why}; "
        "mint another ticket",
        code="store.lost",
    )


def _untold(why: str) -> Decision:
    return Decision(Refusal("session", "", f"{why}; no call is allowed; tell the person"))
