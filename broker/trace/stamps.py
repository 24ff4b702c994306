"""
When an event happened: an instant for people, and microseconds for durations.

Decided here: how both are written. A line costs more for its date than for anything else, so the
text of a second is kept until the next one.
"""

from __future__ import annotations

from typing import Final

from broker.capabilities.clock import Clock
from broker.instants import format_instant

_NS_PER_S: Final = 1_000_000_000


class Stamps:
    """
    The stamps of one run, from its beginning. Not safe among threads by itself.

    >>> from broker.capabilities.clock import FakeClock
    >>> clock = FakeClock(); stamps = Stamps(clock); clock.advance(0.0015); stamps.both()
    ('2027-01-15T08:00:00.001Z', 1500)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic_ns()
        self._second = -1
        self._text = ""

    def wall(self) -> str:
        """Return the present instant, to the millisecond."""
        second, rest = divmod(self._clock.now_ns(), _NS_PER_S)
        if second != self._second:
            self._text = format_instant(second * _NS_PER_S)[:-1]
            self._second = second
        return f"{self._text}.{rest // 1_000_000:03}Z"

    def both(self) -> tuple[str, int]:
        """Return the present instant, and the microseconds since the run began."""
        return self.wall(), (self._clock.monotonic_ns() - self._began) // 1_000
