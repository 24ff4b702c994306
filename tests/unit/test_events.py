"""The bus tells, and never stands in the way."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from broker.events import Bus, Event, SessionSealed

SEALED = SessionSealed(0, "s", "complete")


def test_everyone_is_told_in_order() -> None:
    """Subscribers are told in the order in which they came, until they stop."""
    bus, told = Bus(), []
    stop = bus.subscribe(lambda e: told.append("one"))
    bus.subscribe(lambda e: told.append("two"))
    bus.publish(SEALED)
    stop()
    stop()
    bus.publish(SEALED)
    assert told == ["one", "two", "two"]


def test_a_subscriber_that_breaks_is_dropped() -> None:
    """One that raises is heard of no more, and the others are still told."""
    bus, told = Bus(), []

    def breaks(event: Event) -> None:
        told.append("broken")
        raise RuntimeError("no")

    bus.subscribe(breaks)
    bus.subscribe(lambda e: told.append("told"))
    bus.publish(SEALED)
    bus.publish(SEALED)
    assert told == ["broken", "told", "told"]
    assert [str(error) for _, error in bus.broken] == ["no"]


def test_an_event_cannot_be_changed() -> None:
    """A subscriber cannot alter what the next one is told."""
    with pytest.raises(FrozenInstanceError):
        SEALED.reason = "interrupted"  # type: ignore[misc]  # the point of the test
