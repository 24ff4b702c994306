"""
Signing checkpoints while a session runs, beside it.

Decided here: when one is made, and what it means when one cannot be. Not decided here: what is
signed and where it lies (``broker.receipt.checkpoint``).

A checkpoint is made when the session begins, after every 64 lines, after five seconds that had
fewer, and at the seal; between two there is a pause, whatever comes in. The first and the last are
waited for. The others are made by a thread. The one at the seal comes before the ledger's row of
the end: so a seal that nothing covers is what a crash can leave as long as that row is missing,
and never after.

Rules a maintainer keeps:

- A decision never waits for this thread and never fails by it: the thread takes no lock that an
  append holds, and what goes wrong in it is told on the bus and tried again.
- A failure is told once, until one succeeds.
- After a fork the child has no thread; it starts its own with the first line that it writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import ReferenceType, WeakSet, finalize, ref

from broker.boundary import contained
from broker.errors import BrokerError, StoreError
from broker.limits import MAX_CHECKPOINT_LINES, MAX_CHECKPOINT_S, MIN_CHECKPOINT_S
from broker.receipt.checkpoint import CheckpointFile

_STOP_S: Final = 10.0  # seconds that a stop waits for a checkpoint that is being written
_live: WeakSet[Checkpointer] = WeakSet()


@dataclass(slots=True)
class Track:
    """One chain and its file; ``size`` lines are covered."""

    snapshot: Callable[[], tuple[int, bytes]]
    file: CheckpointFile
    size: int = 0

    def make(self) -> None:
        """
        Cover the lines there are.

        Raises:
            BrokerError, OSError: that cannot be done now.
        """
        size, root = self.snapshot()
        if size > self.size:
            self.file.put(size, root)
            self.size = size


class Checkpointer:
    """
    Keeps the checkpoints of a running session.

    Args:
        tracks: the session's receipt first, then what else is signed beside it.
        tell: is told in one sentence when a checkpoint cannot be made.
        lines, pause_s: after so many lines, or so many seconds, the thread makes one.
    """

    def __init__(
        self,
        tracks: Sequence[Track],
        *,
        tell: Callable[[str], object],
        lines: int = MAX_CHECKPOINT_LINES,
        pause_s: float = MAX_CHECKPOINT_S,
    ) -> None:
        self._tracks = tracks
        self._tell = tell
        self._lines = lines
        self._pause_s = pause_s
        self._due = 0  # the number of the line that wakes the thread
        self._fault = ""
        self._over = False
        self._making = threading.Lock()
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        _live.add(self)
        finalize(self, _let_go, self._wake, self._stopped)

    def begin(self) -> None:
        """
        Make the first checkpoint, and start the thread.

        Raises:
            StoreError: it cannot be made; a session that promises one does not begin.
        """
        fault = self._make()
        if fault:
            raise StoreError(fault, code="store.checkpoint")
        self._start()

    def wrote(self, n: int) -> None:
        """Say that line ``n`` was written; returns at once."""
        if n >= self._due or self._thread is None:
            self._due = n + self._lines
            if self._thread is None and not self._over:
                self._start()
            self._wake.set()

    def cover(self) -> None:
        """
        Stop the thread, and make the checkpoint of a receipt that was just sealed.

        Raises:
            StoreError: it cannot be made (``store.checkpoint``); the next start makes it.
        """
        fault = self.end()
        if fault:
            raise StoreError(fault, code="store.checkpoint")

    def end(self) -> str:
        """Stop the thread, make what is still due, and return why it failed, or nothing."""
        self.stop()
        return self._make()

    def stop(self) -> None:
        """Stop the thread; no further checkpoint is made."""
        self._over = True
        _let_go(self._wake, self._stopped)
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_STOP_S)

    def _start(self) -> None:
        given = (ref(self), self._wake, self._stopped, self._pause_s)
        thread = threading.Thread(target=_work, args=given, name="checkpoints", daemon=True)
        # Where no thread can be had, the next line tries again.
        if contained(partial(_started, thread), _no):
            self._thread = thread

    def work(self) -> bool:
        """Make what is due, and tell once why it cannot be made; whether to go on."""
        if not self._over:
            fault = self._make()
            if fault and fault != self._fault:
                contained(partial(self._tell, fault), _no)
            self._fault = fault
        return not self._over

    def _make(self) -> str:
        """Make the checkpoints that are due; return why one could not be made, or nothing."""
        with self._making:
            faults = [contained(partial(_made, track), _said) for track in self._tracks]
            self._due = self._tracks[0].size + self._lines - 1
        return "; ".join(filter(None, faults))

    def forget(self) -> None:
        """In a forked child: share neither lock nor thread with the parent."""
        self._making = threading.Lock()
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = None
        for track in self._tracks:
            track.file.forget()


def _let_go(*events: threading.Event) -> None:
    for event in events:
        event.set()


def _work(
    whose: ReferenceType[Checkpointer],
    wake: threading.Event,
    stopped: threading.Event,
    pause_s: float,
) -> None:
    """Work as long as somebody keeps the session: one that was dropped keeps no thread."""
    goes_on = True
    while goes_on:
        wake.wait(pause_s)
        wake.clear()
        found = whose()
        goes_on = found is not None and found.work()
        del found  # while it waits, the thread holds nothing
        stopped.wait(MIN_CHECKPOINT_S)  # signing without a pause would slow every decision


def _started(thread: threading.Thread) -> bool:
    thread.start()
    return True


def _no(error: Exception) -> bool:
    return False


def _made(track: Track) -> str:
    track.make()
    return ""


def _said(error: Exception) -> str:
    why = error.message if isinstance(error, BrokerError) else str(error)
    return f"no checkpoint could be signed: {why}"


def _after_fork() -> None:
    for each in list(_live):
        each.forget()


os.register_at_fork(after_in_child=_after_fork)
