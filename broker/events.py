"""
What happens in a session, as typed events, and the bus that tells others.

Decided here: which events there are and what each carries. Not decided here: what is recorded
in the receipt (``broker.session`` writes it first and tells afterwards).

Rules a maintainer keeps: events are frozen and are told only after the fact is durable; a
subscriber that breaks is dropped and never breaks, delays or changes a decision's answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from broker.boundary import contained
from broker.calls import Decision


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session was opened, with its root ticket."""

    at: int
    sid: str
    ticket: str
    workspace: str


@dataclass(frozen=True, slots=True)
class IntentOpened:
    """A person's typed line opened an intent of the session."""

    at: int
    sid: str
    line: str


@dataclass(frozen=True, slots=True)
class TicketReplaced:
    """A person typed another scope: its ticket is the root from here on."""

    at: int
    sid: str
    ticket: str
    replaced: str


@dataclass(frozen=True, slots=True)
class TicketDelegated:
    """A narrower ticket was derived; ``holder`` is the agent it is kept for, or empty."""

    at: int
    sid: str
    ticket: str
    parent: str
    asked_by: str
    holder: str


@dataclass(frozen=True, slots=True)
class CallDecided:
    """A call was decided, and the decision is in the receipt as entry ``n``."""

    at: int
    sid: str
    n: int
    call: str
    tool: str
    ticket: str
    actor: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ResultRecorded:
    """The agent said how an allowed call ended."""

    at: int
    sid: str
    call: str
    ok: bool


@dataclass(frozen=True, slots=True)
class SessionSealed:
    """The receipt was sealed; nothing follows."""

    at: int
    sid: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointFailed:
    """No checkpoint could be signed for now; what is recorded is not concerned."""

    at: int
    sid: str
    reason: str


@dataclass(frozen=True, slots=True)
class OpinionFailed:
    """A second opinion could not be had, so the call that it was asked about is refused."""

    at: int
    sid: str
    name: str
    fault: str


Event = (
    SessionOpened
    | IntentOpened
    | TicketReplaced
    | TicketDelegated
    | CallDecided
    | ResultRecorded
    | SessionSealed
    | CheckpointFailed
    | OpinionFailed
)
Subscriber = Callable[[Event], object]


class Bus:
    """
    Tells every subscriber of every event, in the order in which they subscribed.

    >>> bus, seen = Bus(), []
    >>> stop = bus.subscribe(seen.append)
    >>> bus.publish(SessionSealed(0, "s", "complete")); stop(); len(seen)
    1
    """

    def __init__(self) -> None:
        self._subscribers: dict[int, Subscriber] = {}
        self._next = 0
        self._lock = threading.Lock()
        self.broken: list[tuple[Subscriber, Exception]] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell ``subscriber`` of what happens from now on; call the returned value to stop."""
        with self._lock:
            number = self._next
            self._next += 1
            self._subscribers[number] = subscriber

        def stop() -> None:
            with self._lock:
                self._subscribers.pop(number, None)

        return stop

    def publish(self, event: Event) -> None:
        """Tell everyone. A subscriber that raises is dropped and listed in ``broken``."""
        with self._lock:
            told = list(self._subscribers.items())
        for number, subscriber in told:
            fault = contained(partial(_tell, subscriber, event), _kept)
            if fault is not None:
                with self._lock:
                    self._subscribers.pop(number, None)
                    self.broken.append((subscriber, fault))


def _tell(subscriber: Subscriber, event: Event) -> Exception | None:
    subscriber(event)
    return None


def _kept(error: Exception) -> Exception | None:
    return error
