"""The trace of a replay tells each divergence, and an unmatched request ends the agent."""

from __future__ import annotations

from typing import Any, cast

import pytest

from broker.capture.recording import Recording
from broker.replay.matching import KeptRequest, LadderMatch, shape_of
from broker.replay.normal import Normal
from broker.replay.playback import KeptAnswer, Played
from broker.replay.serving import ReplayServer, Told
from broker.replay.watching import Replaying

KEPT = KeptRequest(7, "/v1/messages", "main", shape_of({}, Normal({})))
ANSWER = KeptAnswer(8, 200, "application/json", b"{}")


class _Recording:
    """Stands in for the recording of a replay."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, kind: str, attrs: dict[str, Any]) -> int:
        """Keep an event."""
        self.events.append((kind, attrs))
        return 0

    def lost(self) -> str | None:
        """Nothing is lost."""
        return None


def _told(*played: Played, loose: bool = False) -> tuple[Replaying, _Recording]:
    recording = _Recording()
    heard: list[Told] = []

    def make(told: Told) -> ReplayServer:
        heard.append(told)
        return cast(ReplayServer, None)

    replaying = Replaying(cast(Recording, recording), make, loose=loose)
    for each in played:
        heard[0]("POST /v1/messages", each)
    return replaying, recording


def test_what_is_the_same_is_not_told() -> None:
    """Rung 1, and questions on the side, leave no event."""
    replaying, recording = _told(
        Played(LadderMatch(1, KEPT), ANSWER), Played(LadderMatch(1, None), ANSWER, aside=True)
    )
    assert (recording.events, replaying.lost()) == ([], None)


@pytest.mark.parametrize(("rung", "severity"), [(2, "minor"), (3, "major")])
def test_a_divergence_is_an_event(rung: Any, severity: str) -> None:
    """What was met on a lower rung is told with the event that was expected, and goes on."""
    replaying, recording = _told(Played(LadderMatch(rung, KEPT, 0.25, "x differs"), ANSWER))
    ((kind, attrs),) = recording.events
    assert kind == "divergence"
    assert attrs == {
        "rung": rung,
        "severity": severity,
        "asked": "POST /v1/messages",
        "expected": 7,
        "distance": 0.25,
        "why": "x differs",
    }
    assert replaying.lost() is None


def test_an_unmatched_request_ends_the_agent() -> None:
    """The first one is why; with loose it is told, and the agent goes on."""
    unmatched = Played(LadderMatch(4, None, 1.0, "nothing like it"), None)
    replaying, recording = _told(unmatched, unmatched)
    assert replaying.lost() == "divergence at `POST /v1/messages`: nothing like it"
    assert len(recording.events) == 2
    loose, recording = _told(unmatched, loose=True)
    assert (loose.lost(), len(recording.events)) == (None, 1)


def test_a_missing_answer_on_the_side_is_told() -> None:
    """A question on the side whose answer was not kept is a divergence too."""
    replaying, recording = _told(Played(LadderMatch(4, None, 0.0, "lost"), None, aside=True))
    assert [attrs["severity"] for _, attrs in recording.events] == ["none"]
    assert replaying.lost() is not None
