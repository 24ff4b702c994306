"""The clock: the real one goes on by itself, the fake one only when it is advanced."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.clock import NS_PER_S, Clock, FakeClock, SystemClock


def test_the_real_clock_is_the_machine_s() -> None:
    """The instant is UTC now, and monotonic time goes on while one sleeps."""
    clock: Clock = SystemClock()
    assert abs(clock.now_ns() - time.time_ns()) < NS_PER_S
    before = clock.monotonic_ns()
    clock.sleep(0.01)
    asyncio.run(clock.sleep_async(0.01))
    assert clock.monotonic_ns() - before >= 0.02 * NS_PER_S


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_slept_at_once(seconds: float) -> None:
    """Sleeping for no time, or less, returns at once on both clocks."""
    for clock in (SystemClock(), FakeClock()):
        before = clock.monotonic_ns()
        clock.sleep(seconds)
        asyncio.run(clock.sleep_async(seconds))
        assert clock.monotonic_ns() - before < NS_PER_S


def test_the_real_clock_waits_for_a_future_and_no_longer() -> None:
    """A future that is done ends the wait at once, also by an error; one that is not, in time."""
    clock = SystemClock()
    done: Future[object] = Future()
    done.set_exception(ValueError("no"))
    assert clock.wait(done, 60)
    assert not clock.wait(Future(), 0.01)


def test_the_fake_clock_stands_still() -> None:
    """Nothing but a test moves it, and both of its readings move together."""
    clock = FakeClock(5)
    assert (clock.now_ns(), clock.monotonic_ns()) == (5, 0)
    clock.advance(2)
    assert (clock.now_ns(), clock.monotonic_ns()) == (5 + 2 * NS_PER_S, 2 * NS_PER_S)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(0, 60))
def test_sleepers_wake_in_order_and_in_time(naps: list[int], advance: int) -> None:
    """Exactly those whose time has come wake, the earliest first, equals in order of arrival."""

    async def main() -> list[int]:
        clock, woken = FakeClock(), []

        async def nap(number: int, seconds: int) -> None:
            await clock.sleep_async(seconds)
            woken.append(number)

        tasks = [asyncio.create_task(nap(n, s)) for n, s in enumerate(naps)]
        await asyncio.sleep(0)
        assert clock.sleepers == len(naps)
        clock.advance(advance)
        for _ in range(4):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert clock.sleepers == 0
        return woken

    due = sorted((s, n) for n, s in enumerate(naps) if s <= advance)
    assert asyncio.run(main()) == [n for _, n in due]


def test_threads_sleep_on_a_fake_clock_too() -> None:
    """A thread that sleeps goes on when the clock was advanced far enough, and not before."""
    clock, woken = FakeClock(), threading.Event()
    sleeper = threading.Thread(target=lambda: (clock.sleep(10), woken.set()), daemon=True)
    sleeper.start()
    assert clock.wait_for_sleepers()
    clock.advance(9.9)
    assert not woken.wait(0.05)
    clock.advance(0.1)
    assert woken.wait(10)


@pytest.mark.parametrize("ends", ["future", "time", "done before"])
def test_a_wait_on_a_fake_clock_ends_by_either(ends: str) -> None:
    """A wait ends when the future is done or when the clock has gone on, whichever comes first."""
    clock, future = FakeClock(), Future()
    if ends == "done before":
        future.set_result(None)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(clock.wait(future, 5)), daemon=True)
    waiter.start()
    if ends != "done before":
        assert clock.wait_for_sleepers()
    if ends == "future":
        future.set_result(None)
    elif ends == "time":
        clock.advance(5)
    waiter.join(10)
    assert answers == [ends != "time"]
    assert clock.sleepers == 0
