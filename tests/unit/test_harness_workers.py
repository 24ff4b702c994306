"""Threads that work for a run: they are used again, and given up without harm."""

from __future__ import annotations

import subprocess
import sys
import threading
from asyncio import CancelledError
from contextvars import ContextVar

import pytest

from broker.harness.workers import Workers


def test_work_comes_back_with_its_result_or_its_error() -> None:
    """A future holds what the work returned or raised, also when it wanted to end the thread."""
    workers = Workers()
    assert workers.submit(lambda: 42).result(10) == 42
    with pytest.raises(ZeroDivisionError):
        workers.submit(lambda: 1 // 0).result(10)
    assert workers.submit(lambda: 43).result(10) == 43


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, CancelledError, GeneratorExit])
def test_work_that_ends_its_thread_has_an_end_too(end: type[BaseException]) -> None:
    """Nobody waits for a result that will not come."""

    def leave() -> None:
        raise end

    with pytest.raises(RuntimeError, match="end its thread"):
        Workers().submit(leave).result(10)


def test_a_thread_is_used_again() -> None:
    """One piece of work after the other needs one thread."""
    workers = Workers()
    seen = set()
    for _ in range(50):
        seen.add(workers.submit(threading.get_ident).result(10))
        threading.Event().wait(0.001)
    assert len(seen) <= 3


def test_one_that_hangs_keeps_nobody_waiting() -> None:
    """Others go on beside it, and the process ends without it."""
    code = (
        "import threading\n"
        "from broker.harness.workers import Workers\n"
        "workers = Workers()\n"
        "workers.submit(threading.Event().wait)\n"
        "print(workers.submit(lambda: 'went on').result(10))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "went on\n"


def test_work_sees_the_context_of_whoever_submits_it() -> None:
    """A context variable has the same value on the other thread, and a change there stays there."""
    name: ContextVar[str] = ContextVar("name", default="none")
    workers = Workers()
    name.set("mine")
    assert workers.submit(name.get).result(10) == "mine"
    workers.submit(lambda: name.set("theirs")).result(10)
    assert name.get() == "mine"


def test_many_at_once() -> None:
    """As many threads work as there is work that waits for each other."""
    workers, meet = Workers(), threading.Barrier(20, timeout=10)
    futures = [workers.submit(meet.wait) for _ in range(20)]
    assert sorted(future.result(10) for future in futures) == list(range(20))
