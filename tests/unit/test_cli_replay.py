"""`broker replay` plays a recorded run again, and tells each rung."""

from __future__ import annotations

from broker.cli.replay import document
from broker.replay.forking import Fork
from broker.replay.isolation import Isolation
from broker.replay.matching import KeptRequest, LadderMatch, shape_of
from broker.replay.normal import Normal
from broker.replay.outcome import ReplayOutcome
from broker.replay.playback import Played
from tests.console import Console


def test_bad_words(broker: Console) -> None:
    """No run, --model without a fork, and words that do not go together are bad input."""
    assert "there is no recorded run yet" in broker("replay").err
    assert broker("replay").code == 2
    assert broker("replay", "run_00").code == 2
    assert "--model goes with --from" in broker("replay", "--model", "m").err
    assert broker("replay", "--strict", "--loose").code == 2
    assert broker("replay", "--from", "-1").code == 2


def test_the_document_says_all_of_it() -> None:
    """Every count, the isolation and the fork stand in the one document."""
    kept = KeptRequest(9, "/v1/messages", "main", shape_of({}, Normal({})))
    outcome = ReplayOutcome(
        "run_1",
        Isolation("none", "no name spaces"),
        1,
        0,
        4,
        {1: 2, 3: 1, 4: 1},
        (kept,),
        (Played(LadderMatch(3, kept, 0.25, "x differs"), None),),
        "divergence",
        2,
        Fork(5, 6, "m"),
    )
    found = document(outcome, "run_0")
    assert found["isolation"] == {"level": "none", "why": "no name spaces", "in_place": False}
    assert (found["recorded"], found["reused"], found["unmatched"]) == (4, 3, 1)
    assert found["rungs"] == {"1": 2, "2": 0, "3": 1}
    assert (found["not_asked"], found["halted"], found["exact"]) == ([9], "divergence", False)
    assert found["divergences"] == [
        {"rung": 3, "expected": 9, "distance": 0.25, "why": "x differs"}
    ]
    assert (found["live"], found["fork_point"], found["model"]) == (2, 5, "m")


def test_help_teaches(broker: Console) -> None:
    """The rungs and the exit codes stand in the help."""
    said = broker("replay", "--help").out
    assert "rung 4" in said
    assert "Exit code: 0" in said
