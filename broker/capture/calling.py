"""
The calls that a model has made and that nobody has answered yet, and which of them a shell is.

Decided here: that a shell is caused by the latest open call whose command it carries out. Not
decided here: what holds a command (``broker.trace.linking``). Safe among threads.

A call is written when its answer has been read, and a shell when it begins: an agent may be the
quicker one. A shell is therefore asked for twice, and its result names the call where its
beginning could not.

Rule a maintainer keeps: what is kept has a limit, and forgets the oldest.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from broker.trace.linking import carried, commands_of

MAX_OPEN: Final = 1_024


class OpenCalls:
    """
    The open calls of one run.

    >>> calls = OpenCalls()
    >>> calls.begun(7, {"command": "ls src"})
    >>> calls.cause(["sh", "-c", "ls src"]), calls.cause(["sh", "-c", "pwd"])
    (7, -1)
    """

    def __init__(self) -> None:
        self._open: OrderedDict[int, tuple[str, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def begun(self, seq: int, arguments: object) -> None:
        """Take in a call that was written as an event."""
        commands = commands_of(arguments)
        if not commands or seq < 0:
            return
        with self._lock:
            self._open[seq] = commands
            while len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)

    def ended(self, seq: int) -> None:
        """Forget a call: its result is known."""
        with self._lock:
            self._open.pop(seq, None)

    def cause(self, words: Sequence[str]) -> int:
        """Return the event of the call that a shell with these words carries out, or -1."""
        with self._lock:
            rows = [(command, seq) for seq, each in self._open.items() for command in each]
        found = carried(words, [command for command, _ in rows])
        return max((seq for command, seq in rows if command == found), default=-1)
