"""A replay held when every request and every result was on record."""

from __future__ import annotations

from broker.replay.isolation import Isolation
from broker.replay.outcome import ReplayOutcome
from broker.replay.results import ResultsTally


def test_a_result_that_is_not_on_record_fails_a_replay() -> None:
    """All requests were met, and still it did not hold, unless it is loose."""
    tally = ResultsTally({"shell": 1})
    outcome = ReplayOutcome(
        "run_0", Isolation("namespace"), 0, 0, 3, {1: 3}, (), (), "", results=tally
    )
    assert (outcome.exact, outcome.holds(), outcome.refused) == (True, True, 0)
    tally.took("shell", "refused", "x")
    assert (outcome.exact, outcome.holds(), outcome.refused) == (False, False, 1)
    assert outcome.holds(loose=True)
