"""
Decides for many callers at once, so that one sync of the disk serves them all.

Decided here: which questions form a group, and when their callers hear the answers: after all of
the group is durable, and none before. Not decided here: what passes (``broker.session``), what is
asked (``broker.service.authzen``).

Each session has a clerk. Questions wait in a line; whoever finds nobody at work takes up the work
in a thread of the pool: a group from the front of the line, decided one by one, one flush, then the
answers. While the disk is busy the next group gathers, so groups grow as the load does.

Rules a maintainer keeps: no answer leaves before its group is durable; a group that cannot be made
durable is refused whole; what breaks inside one question refuses that one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final

from broker.boundary import contained
from broker.calls import Decision
from broker.errors import BrokerError
from broker.limits import MAX_GROUP_LINES
from broker.session import Session
from broker.sessions.records import closed

Ask = Callable[[Session], Sequence[Decision]]
Hear = Callable[[Sequence[Decision]], object]

_GROUP: Final = MAX_GROUP_LINES  # questions of one group: a receipt syncs by itself after so many


class Clerk:
    """
    Decides for one session.

    Args:
        session: is asked, and made durable.
        pool: lends a thread while there is work.
    """

    def __init__(self, session: Session, pool: Executor) -> None:
        self.session = session
        self._pool = pool
        self._waiting: deque[tuple[Ask, Hear]] = deque()
        self._lock = threading.Lock()
        self._at_work = False

    def submit(self, ask: Ask, hear: Hear) -> None:
        """
        Have a question decided.

        Args:
            ask: asks the session, by ``decide(durable=False)``, and returns what it answered; at
                least one decision.
            hear: is given these once they are durable, or the refusals in their place; in
                another thread.

        Raises:
            RuntimeError: the pool takes no more work: the service is over.
        """
        with self._lock:
            self._waiting.append((ask, hear))
            if self._at_work:
                return
            self._at_work = True
        try:
            self._pool.submit(self._work)
        except RuntimeError:
            with self._lock:
                self._at_work = False
                self._waiting.clear()
            raise

    def _work(self) -> None:
        while group := self._group():
            decided = [contained(partial(ask, self.session), _refused) for ask, _ in group]
            fault = contained(partial(_flushed, self.session), _fault)
            for (_, hear), decisions in zip(group, decided, strict=True):
                told = [closed(fault)] * max(1, len(decisions)) if fault else decisions
                contained(partial(hear, told), _unheard)

    def _group(self) -> list[tuple[Ask, Hear]]:
        """Return what is next, or nothing and be off work."""
        with self._lock:
            size = min(_GROUP, len(self._waiting))
            self._at_work = size > 0
            return [self._waiting.popleft() for _ in range(size)]


def _flushed(session: Session) -> str:
    session.flush()
    return ""


def _fault(error: Exception) -> str:
    why = str(error) if isinstance(error, BrokerError) else type(error).__name__
    return f"the receipt cannot be written: {why}"


def undecided(error: Exception) -> Decision:
    """Return the refusal of a call that broke what decides."""
    why = str(error) if isinstance(error, BrokerError) else type(error).__name__
    return closed(f"the call could not be decided: {why}")


def _refused(error: Exception) -> Sequence[Decision]:
    return [undecided(error)]


def _unheard(_: Exception) -> None:
    """The caller is gone; what was decided stands in the receipt."""
