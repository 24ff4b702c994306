"""
Threads that work for a run and are given up when they do not come back.

Decided here: that what may hang runs on a thread of its own, which never keeps the run, or the end
of the process, waiting. Not decided here: how long is waited (``broker.capabilities.clock``).

A rule a maintainer keeps: a future always ends, whatever its work raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Final, TypeVar

from broker.boundary import contained

T = TypeVar("T")

_MAX_IDLE: Final = 8
_Job = Callable[[], None]


class Workers:
    """
    Threads that wait for work, and as many more as there is.

    >>> Workers().submit(lambda: 6 * 7).result()
    42
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Job]] = []

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """
        Run work on another thread; the future holds what it returns or raises.

        The work sees the context variables of whoever submits it.
        """
        future: Future[T] = Future()
        context = copy_context()

        def job() -> None:
            # An exit, a cancellation: what ends a thread reaches nobody from one of these.
            with suppress(BaseException):
                contained(lambda: future.set_result(context.run(work)), future.set_exception)
            if not future.done():
                future.set_exception(RuntimeError("the work wanted to end its thread"))

        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(target=self._serve, args=(queue,), daemon=True).start()
        queue.put(job)
        return future

    def _serve(self, queue: SimpleQueue[_Job]) -> None:
        while True:
            queue.get()()
            with self._lock:
                if len(self._idle) >= _MAX_IDLE:
                    return
                self._idle.append(queue)
