"""When an event happened."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.clock import FakeClock
from broker.trace.stamps import Stamps
from broker.trace.wellformed import an_instant


@given(st.integers(0, 4_000_000_000_000_000_000), st.lists(st.floats(0, 2), max_size=5))
def test_the_text_of_an_instant(at: int, steps: list[float]) -> None:
    """It is what the calendar says, to the millisecond, also when the second is the same."""
    clock = FakeClock(at)
    stamps = Stamps(clock)
    for step in [0.0, *steps]:
        clock.advance(step)
        seconds, rest = divmod(clock.now_ns(), 10**9)
        day = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        assert stamps.wall() == an_instant(f"{day}.{rest // 10**6:03}Z", "/ts")


def test_durations_begin_with_the_run() -> None:
    """Microseconds count from the beginning, and never run backwards."""
    clock = FakeClock()
    stamps = Stamps(clock)
    assert stamps.both()[1] == 0
    clock.advance(1.5)
    assert stamps.both()[1] == 1_500_000
