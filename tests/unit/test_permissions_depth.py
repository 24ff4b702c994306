"""Subagents: a bounded depth, and a mode that is never wider than the caller's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError, Refused
from broker.limits import MAX_AGENT_DEPTH
from broker.permissions.depth import USUAL_DEPTH, checked_depth, descend
from broker.permissions.modes import MODES, Mode, within


def test_the_ceiling_is_a_person_s_up_to_the_hard_one() -> None:
    """Two is usual, five is the most, and anything else is bad input."""
    assert (USUAL_DEPTH, MAX_AGENT_DEPTH) == (2, 5)
    assert checked_depth(0) == 0
    assert checked_depth(MAX_AGENT_DEPTH) == MAX_AGENT_DEPTH
    for depth in (-1, MAX_AGENT_DEPTH + 1):
        with pytest.raises(InputError, match="deep"):
            checked_depth(depth)


@given(
    st.integers(0, 5), st.integers(0, 5), st.sampled_from(MODES),
    st.none() | st.sampled_from(MODES),
)  # fmt: skip
def test_descending_only_narrows(depth: int, limit: int, mode: Mode, asked: Mode | None) -> None:
    """A subagent is one deeper and no wider, or it is refused by the name of what it exceeds."""
    try:
        deeper, got = descend(depth, limit, mode, asked)
    except Refused as refused:
        caveat = refused.detail["caveat"]
        assert caveat == ("depth" if depth >= limit else "mode")
        assert caveat == "depth" or not within(asked or mode, mode)
    else:
        assert deeper == depth + 1 <= limit
        assert got == (asked or mode)
        assert within(got, mode)


def test_an_unknown_mode_is_bad_input() -> None:
    """A misspelt mode is no mode."""
    with pytest.raises(InputError):
        descend(0, 2, "ask", "root")
