"""
What a process has started, and those in turn, so that all of it can be ended with it.

Decided here: who counts as started by a process, and how it is ended. Not decided here: when
(``broker.child``).

Many an agent is a small process that starts the real one, or leaves shells and servers behind when
it is told to end. Each that is seen is kept by a descriptor of the kernel's (Linux: pidfd), so a
signal reaches that process or nobody, and it stays known when its own parent is gone. Elsewhere
nothing is seen. Who left before the first look (a daemon) is not seen either.

Rules a maintainer keeps: no signal by a number alone, which may be another's by then; what cannot
be read is passed over, since this only ever ends what is left.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

POLL_S: Final = 0.02
_PROC: Final = "/proc"
_FIELDS_BEHIND_NAME: Final = (1, 19)  # the parent, and when it began: proc_pid_stat(5)


class Descendants:
    """
    Those that a process has started, as far as they have been seen. ``look``, then ``end``.

    >>> Descendants(os.getpid()).end(0.0)
    0
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, str], int] = {}  # number and beginning: the descriptor

    def look(self) -> None:
        """Take in who is there now; those that were seen before stay known."""
        found = {pid: (parent, began) for pid, parent, began in _processes()}
        # One who was seen and has ended may have its number taken by a stranger.
        seen = list(self._seen)  # a signal's handler may look amid this
        known = {pid for pid, began in seen if found.get(pid, (0, ""))[1] == began}
        above = known | {self._root}
        grown = True
        while grown:
            new = {pid for pid, (parent, _) in found.items() if parent in above} - above
            above |= new
            grown = bool(new)
        for pid in above - known - {self._root}:
            self._keep(pid, found[pid][1])

    def end(self, grace_s: float) -> int:
        """
        Tell all of them to end, kill those that have not within ``grace_s``, and return how many
        there were.
        """
        self.look()
        left = self._left()
        self._signal(left, signal.SIGTERM)
        until = time.monotonic() + grace_s
        while self._left() and time.monotonic() < until:
            time.sleep(POLL_S)
            self.look()  # what one of them still starts
        self._signal(self._left(), signal.SIGKILL)
        for fd in self._seen.values():
            os.close(fd)
        self._seen.clear()
        return len(left)

    def _keep(self, pid: int, began: str) -> None:
        with suppress(OSError):  # it has ended meanwhile
            fd = os.pidfd_open(pid)
            again = _stat(pid)
            same = again is not None and again[2] == began
            if not same or self._seen.setdefault((pid, began), fd) != fd:
                os.close(fd)

    def _left(self) -> list[int]:
        """Return the descriptors of those that run."""
        kept = list(self._seen.values())
        if not kept:
            return []
        poll = select.poll()
        for fd in kept:
            poll.register(fd, select.POLLIN)
        over = {fd for fd, _ in poll.poll(0)}
        return [fd for fd in kept if fd not in over]

    def _signal(self, those: list[int], number: int) -> None:
        for fd in those:
            with suppress(OSError):
                signal.pidfd_send_signal(fd, number)


def _processes() -> Iterator[tuple[int, int, str]]:
    """Yield number, parent and beginning of every process."""
    if sys.platform != "linux":
        return
    try:
        names = os.listdir(_PROC)
    except OSError:
        return
    for name in names:
        if name.isdecimal() and (found := _stat(int(name))) is not None:
            yield found


def _stat(pid: int) -> tuple[int, int, str] | None:
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            # The name before may hold anything, brackets and spaces too.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    parent, began = (fields[at] for at in _FIELDS_BEHIND_NAME)
    return pid, int(parent), began.decode()
