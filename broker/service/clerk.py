"""
Decides for many callers at once, so that one sync of the disk serves them all.

Decided here: which questions form a group, and when their callers hear the answers: after all of
the group is durable, and none before. Not decided here: what passes (``broker.session``), what is
asked (``broker.service.authzen``).

Each session has a clerk. Questions wait in a line. A group from its front is decided one by one,
then flushed in a thread, then answered; while the disk is busy the next group gathers, so groups
grow as the load does. Deciding is done in the loop's own thread: it takes microseconds and many
short calls of the system, after each of which a thread would have to wait for the interpreter
again. Only where a decision may wait for others, for shared counts or a second opinion, is it made
in the thread as well.

Rules a maintainer keeps: no answer leaves before its group is durable; a group that cannot be made
durable is refused whole; what breaks inside one question refuses that one; what else touches a
session (``alone``) waits for its turn, so that the loop never waits for a session's lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeVar

from broker.boundary import contained
from broker.calls import Decision
from broker.errors import BrokerError
from broker.limits import MAX_GROUP_LINES
from broker.session import Session
from broker.sessions.records import closed

T = TypeVar("T")
REFUSED: Final = closed("the service is ending")
Ask = Callable[[Session], Sequence[Decision]]
Answers = asyncio.Future[Sequence[Decision]]

# Decisions of one group: with one more the receipt would sync by itself, and the loop wait for it.
# (It also would after MAX_GROUP_S, which deciding a group takes a small part of.)
GROUP: Final = MAX_GROUP_LINES - 1


class Clerk:
    """
    Decides for one session; used by one loop.

    Args:
        session: is asked, and made durable.
        pool: lends threads to wait for the disk in.
    """

    def __init__(self, session: Session, pool: Executor) -> None:
        self.session = session
        self._pool = pool
        self._waiting: deque[tuple[Ask, int, Answers]] = deque()
        self._turn = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None

    async def ask(self, ask: Ask, weight: int = 1) -> Sequence[Decision]:
        """
        Have a question decided, and return its decisions once they are durable.

        Args:
            ask: asks the session, by ``decide(durable=False)``, and returns what it answered: one
                decision or more.
            weight: how many decisions it asks for at most; above GROUP it is a group of its own.

        Returns:
            These decisions, or as many refusals where they could not be made durable.
        """
        loop = asyncio.get_running_loop()
        heard: Answers = loop.create_future()
        self._waiting.append((ask, weight, heard))
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._groups())
        return await heard

    async def alone(self, work: Callable[[Session], T]) -> T:
        """Do something else with the session, in a thread, when no group is under way."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, work, self.session)

    def _group(self) -> list[tuple[Ask, Answers]]:
        """Take the next group from the front of the line: at least one question."""
        group: list[tuple[Ask, Answers]] = []
        left = GROUP
        while self._waiting and (not group or self._waiting[0][1] <= left):
            ask, weight, heard = self._waiting.popleft()
            left -= weight
            group.append((ask, heard))
        return group

    async def _groups(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            async with self._turn:
                group = self._group()
                asks = [ask for ask, _ in group]
                away = self.session.waits
                decided = [] if away else _decided(self.session, asks)
                work = partial(_finished, self.session, asks, decided)
                try:
                    decided, fault = await loop.run_in_executor(self._pool, work)
                except RuntimeError:
                    decided, fault = decided or [[REFUSED]] * len(asks), "the service is ending"
            for (_, heard), decisions in zip(group, decided, strict=True):
                if not heard.done():  # its caller may have gone
                    heard.set_result([closed(fault)] * len(decisions) if fault else decisions)


def undecided(error: Exception) -> Decision:
    """Return the refusal of a call that broke what decides."""
    why = str(error) if isinstance(error, BrokerError) else type(error).__name__
    return closed(f"the call could not be decided: {why}")


def _refused(error: Exception) -> Sequence[Decision]:
    return [undecided(error)]


def _decided(session: Session, asks: Sequence[Ask]) -> list[Sequence[Decision]]:
    return [contained(partial(ask, session), _refused) for ask in asks]


def _finished(
    session: Session, asks: Sequence[Ask], decided: list[Sequence[Decision]]
) -> tuple[list[Sequence[Decision]], str]:
    """Decide what is not decided yet, flush, and say why that failed, or nothing."""
    found = decided or _decided(session, asks)
    return found, _flushed(session)


def _flushed(session: Session) -> str:
    """Make a group durable; return why that cannot be done, or nothing."""
    return contained(partial(_flush, session), _fault)


def _flush(session: Session) -> str:
    session.flush()
    return ""


def _fault(error: Exception) -> str:
    why = str(error) if isinstance(error, BrokerError) else type(error).__name__
    return f"the receipt cannot be written: {why}"
