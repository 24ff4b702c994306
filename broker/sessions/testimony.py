"""
What a session is told of calls that were decided, and by whom.

Decided here: what is kept of it. None of it is the gate's own knowledge: the agent says how a call
ended, the harness what its rules answered, anybody a note; the receipt keeps each under a kind of
its own. Not decided here: when an entry can still be written (``broker.session``).

Rules a maintainer keeps: nothing here allows anything; an output is kept as a digest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from broker.events import Bus, ResultRecorded
from broker.limits import MAX_NAME_CHARS
from broker.resolve import canonical_digest
from broker.sessions.holding import InHand
from broker.sessions.records import Data, told


class Testimony(ABC):
    """The part of a session that records what others tell it."""

    bus: Bus
    _tickets: InHand

    @property
    @abstractmethod
    def sid(self) -> str:
        """The session's name."""

    @abstractmethod
    def _record(self, kind: str, data: Data) -> int:
        """Write an entry that releases nothing, and return its instant."""

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """
        Record how an allowed call ended, as the agent tells it: success, and a digest.

        Raises:
            StoreError: it cannot be recorded, or the session is over.
        """
        name = self._tickets.name(call_id)
        if name is None:
            return  # a gateway was first to see it
        data = {"call": told(name, MAX_NAME_CHARS), "ok": ok, "output": canonical_digest(output)}
        at = self._record("result", data)
        self.bus.publish(ResultRecorded(at, self.sid, name, ok))

    def permission(self, call_id: str, *, allowed: bool, reason: str = "") -> None:
        """
        Record what the harness's own permission rules said after the ticket had allowed a call.

        Raises:
            StoreError: it cannot be recorded, or the session is over.
        """
        data: Data = {"call": told(call_id, MAX_NAME_CHARS), "reason": told(reason)}
        self._record("permission", {**data, "answer": "allow" if allowed else "refuse"})

    def note(self, text: str, *, source: str) -> None:
        """
        Record what somebody says, kept apart from what the gate saw.

        Raises:
            StoreError: it cannot be recorded, or the session is over.
        """
        self._record("note", {"source": told(source, MAX_NAME_CHARS), "text": told(text)})
