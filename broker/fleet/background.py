"""
Mirroring beside a run, without anybody waiting for it.

Decided here: when a pass is made, and that a failure is told once and tried again. Not decided
here: what a pass puts (``broker.fleet.mirror``).

Rules a maintainer keeps: no decision waits for this thread or fails by it; it is started when the
agent's process has been made; what is left at the end is told, and a later run or ``broker receipt
mirror`` goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from broker.boundary import contained
from broker.errors import BrokerError
from broker.fleet.mirror import Mirror
from broker.fleet.target import Target
from broker.home import Home

PAUSE_S: Final = 5.0  # between two passes: as often as a checkpoint is made
FINISH_S: Final = 5.0  # at the end of a run; what takes longer goes on another time

Say = Callable[[str], object]


class Mirroring:
    """
    Mirrors while a run goes on.

    Args:
        home: whose receipts.
        url: where they go; checked already.
        pause_s: seconds between two passes.
    """

    def __init__(self, home: Home, url: str, *, pause_s: float = PAUSE_S) -> None:
        self._url, self._pause_s = url, pause_s
        self._mirror = Mirror(home, Target(url))
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._fault = ""

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    def finish(self, say: Say, within_s: float = FINISH_S) -> None:
        """
        Make a last pass, wait for it but not for long, and say what is left.

        Args:
            say: says one line.
            within_s: seconds.
        """
        self._over.set()
        if self._thread is None:
            self.start()
        assert self._thread is not None  # noqa: S101 - it was just started
        self._thread.join(within_s)
        fault = self._fault or ("it takes longer" if self._thread.is_alive() else "")
        try:
            lines = sum(lines - there for _, there, lines in self._mirror.left())
        except BrokerError as error:
            say(f"warning: whether everything is mirrored cannot be told: {error.message}")
            return
        if lines:
            why = f": {fault}" if fault else ""
            say(f"warning: {lines} lines are not mirrored at {self._url} yet{why}")
            say("what is not mirrored yet is put there by `broker receipt mirror`")

    def _run(self) -> None:
        while not self._over.is_set():
            self._pass()
            self._over.wait(self._pause_s)
        self._pass()

    def _pass(self) -> None:
        self._fault = contained(self._made, _broken)

    def _made(self) -> str:
        try:
            faults = [put.fault for put in self._mirror.push() if put.fault]
        except BrokerError as error:
            return error.message
        return faults[0] if faults else ""


def _broken(error: Exception) -> str:
    return f"mirroring failed inside ({type(error).__name__})"
