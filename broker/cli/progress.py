"""
How far a long verification has come, as one passing line on a terminal.

Decided here: when such a line is shown. Work of less than a second shows none, and a stderr that
is no terminal never sees one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from broker.cli.output import passing

_PATIENCE_S: Final = 1.0
_EVERY_S: Final = 0.1
_WIDTH: Final = 24  # characters of the bar


class Bar:
    """
    Told how much is done, shows a bar when it is time for one.

    Args:
        total: what there is to do, in any unit.
        clock: seconds that only go forward.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = max(1, total)
        self._clock = clock
        self._began = clock()
        self._due = self._began + _PATIENCE_S
        self._shown = False

    def __call__(self, done: int) -> None:
        """Show how far ``done`` is, if a second has passed and the last line is not new."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _EVERY_S
        self._shown = True
        share = min(1.0, done / self._total)
        filled = int(share * _WIDTH)
        left = (now - self._began) * (1 - share) / share if share else 0.0
        bar = "#" * filled + "." * (_WIDTH - filled)
        passing(f"verifying [{bar}] {share:4.0%}, {left:.0f} s left")

    def clear(self) -> None:
        """Take the line away, if one was shown."""
        if self._shown:
            passing("")


@contextmanager
def progress(total: int) -> Iterator[Bar | None]:
    """Yield what to tell the progress to; None where nobody would see it, or of no total."""
    if not total or not sys.stderr.isatty():
        yield None
        return
    bar = Bar(total)
    try:
        yield bar
    finally:
        bar.clear()
