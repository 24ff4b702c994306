"""
How deep subagents go, and in which mode.

Decided here: that a subagent has a bounded number of agents above it, and a mode no wider than its
caller's. Not decided here: its ticket, which is narrowed by the session.

A rule a maintainer keeps: a request for more is refused by name, never cut down to what would have
been allowed.
"""

from __future__ import annotations

from typing import Final

from broker.errors import InputError, Refused
from broker.limits import MAX_AGENT_DEPTH
from broker.permissions.modes import Mode, read_mode, within

USUAL_DEPTH: Final = 2


def checked_depth(depth: int) -> int:
    """
    Return how many agents may stand above one, as a person set it.

    Raises:
        InputError: it is negative, or more than MAX_AGENT_DEPTH.

    >>> checked_depth(3)
    3
    """
    if not 0 <= depth <= MAX_AGENT_DEPTH:
        raise InputError(f"subagents go 0 to {MAX_AGENT_DEPTH} deep, not {depth}")
    return depth


def descend(depth: int, limit: int, mode: Mode, asked: str | None = None) -> tuple[int, Mode]:
    """
    Return the depth and the mode of a subagent.

    Args:
        depth: how many agents stand above its caller.
        limit: how many may stand above one.
        mode: its caller's mode.
        asked: the mode that is asked for; by default its caller's.

    Raises:
        Refused: it would be too deep, or its mode wider; the detail ``caveat`` names which.
        InputError: there is no such mode.

    >>> descend(0, 2, "auto", "ask")
    (1, 'ask')
    >>> descend(0, 2, "ask", "auto")
    Traceback (most recent call last):
    broker.errors.Refused: the mode `auto` is wider than the caller's, `ask`
    """
    if depth >= limit:
        raise Refused(f"a subagent has at most {limit} agents above it", caveat="depth")
    wanted = mode if asked is None else read_mode(asked)
    if not within(wanted, mode):
        raise Refused(f"the mode `{wanted}` is wider than the caller's, `{mode}`", caveat="mode")
    return depth + 1, wanted
