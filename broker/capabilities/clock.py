"""
The clock: what time it is, and waiting.

Decided here: how an instant and a duration are told, and how waiting ends. Not decided here: what
an instant means for a ticket (``broker.instants``).

Rules a maintainer keeps: instants are whole nanoseconds since 1970, UTC (ADR-0004); durations are
measured by ``monotonic_ns`` alone, since a clock that is set back must not lengthen a time limit;
the fake one moves only when a test moves it.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as _TooLong
from itertools import count
from typing import Any, ClassVar, Final, Protocol

NS_PER_S: Final = 1_000_000_000
_START: Final = 1_800_000_000 * NS_PER_S  # 2027-01-15T08:00:00Z, where a fake clock begins


class Clock(Protocol):
    """What tells the time and waits."""

    @property
    def kind(self) -> str:
        """Which clock this is: ``real`` or ``fake``."""

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch, UTC."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some beginning; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``; at once when there are none."""

    async def sleep_async(self, seconds: float) -> None:
        """Return after ``seconds``, letting other tasks run meanwhile."""

    def wait(self, future: Future[Any], seconds: float) -> bool:
        """Wait until a future is done, at most ``seconds``; return whether it is."""


class SystemClock:
    """
    The machine's own clock.

    >>> SystemClock().kind
    'real'
    """

    __slots__ = ()
    kind: ClassVar = "real"

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch, UTC."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some beginning; never goes back."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``; at once when there are none."""
        if seconds > 0:
            time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Return after ``seconds``, letting other tasks run meanwhile."""
        from asyncio import sleep  # noqa: PLC0415  only for whoever runs tasks

        await sleep(max(0.0, seconds))

    def wait(self, future: Future[Any], seconds: float) -> bool:
        """Wait until a future is done, at most ``seconds``; return whether it is."""
        try:
            future.exception(max(0.0, seconds))
        except _TooLong:
            return future.done()
        return True


class FakeClock:
    """
    A clock that stands still until it is advanced, and then wakes its sleepers in order.

    A sleeper that sleeps again does so from where the clock stands when it runs. Safe among
    threads.

    >>> clock = FakeClock()
    >>> before = clock.now_ns()
    >>> clock.advance(1.5)
    >>> clock.now_ns() - before
    1500000000
    """

    kind: ClassVar = "fake"

    def __init__(self, at: int = _START) -> None:
        self._at = at
        self._began = at
        self._sleepers: list[tuple[int, int, Callable[[], object]]] = []
        self._order = count()
        self._changed = threading.Condition()

    @property
    def sleepers(self) -> int:
        """How many wait for the clock to go on."""
        with self._changed:
            return len(self._sleepers)

    def now_ns(self) -> int:
        """Return nanoseconds since the Unix epoch, UTC."""
        return self._at

    def monotonic_ns(self) -> int:
        """Return nanoseconds since this clock was made."""
        return self._at - self._began

    def advance(self, seconds: float) -> None:
        """
        Move on, waking each sleeper at its own instant, the earliest first.

        Sleepers of the same instant are woken in the order in which they fell asleep.
        """
        with self._changed:
            goal = self._at + round(seconds * NS_PER_S)
            while self._sleepers and self._sleepers[0][0] <= goal:
                self._at, _, wake = heapq.heappop(self._sleepers)
                wake()
            self._at = goal

    def wait_for_sleepers(self, number: int = 1, *, limit_s: float = 10.0) -> bool:
        """Wait, in real time, until so many sleep; return whether they do within the limit."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._sleepers) >= number, limit_s)

    def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced by ``seconds``; at once when there are none."""
        if seconds > 0:
            woken = threading.Event()
            self._add(seconds, woken.set)
            woken.wait()

    async def sleep_async(self, seconds: float) -> None:
        """Return once the clock was advanced by ``seconds``, letting other tasks run meanwhile."""
        import asyncio  # noqa: PLC0415  only for whoever runs tasks

        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        sleeper = self._add(seconds, lambda: loop.call_soon_threadsafe(woken.set))
        try:
            await woken.wait()
        finally:
            self._drop(sleeper)

    def wait(self, future: Future[Any], seconds: float) -> bool:
        """Wait until a future is done or the clock was advanced by ``seconds``."""
        if seconds <= 0 or future.done():
            return future.done()
        woken = threading.Event()
        sleeper = self._add(seconds, woken.set)
        future.add_done_callback(lambda _: woken.set())
        woken.wait()
        self._drop(sleeper)
        return future.done()

    def _add(self, seconds: float, wake: Callable[[], object]) -> int:
        with self._changed:
            number = next(self._order)
            due = self._at + max(1, round(seconds * NS_PER_S))
            heapq.heappush(self._sleepers, (due, number, wake))
            self._changed.notify_all()
            return number

    def _drop(self, number: int) -> None:
        """Forget a sleeper that ended for another reason than the time."""
        with self._changed:
            kept = [sleeper for sleeper in self._sleepers if sleeper[1] != number]
            heapq.heapify(kept)
            self._sleepers = kept
