"""What becomes of a call, as a script expects it."""

from __future__ import annotations

import pytest

from broker.harness.outcome import STAGES, Result


@pytest.mark.parametrize(
    ("expected", "met"),
    [
        ("", True),
        ("refused", True),
        ("refused paths", True),
        ("refused tools", False),
        ("done", False),
    ],
)
def test_an_expectation_names_outcome_and_caveat(expected: str, met: bool) -> None:
    """A script's expectation is met by the outcome, and by the caveat when it names one."""
    assert Result("refused", "", "paths").meets(expected) == met


def test_there_are_ten_stages() -> None:
    """Each stage has a name of its own."""
    assert len(STAGES) == len(set(STAGES)) == 10
