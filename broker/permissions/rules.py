"""
All permission rules for one call, in their order: hard layer, mode, taint, a yes said before.

Decided here: the order, and that only a question can be answered by a yes. Not decided here: who is
asked, and what the ticket says, which has been asked before.

Rules a maintainer keeps: pure; a refusal is never turned into a question; a yes that was said
beforehand answers no question once a stranger's words were read, in any mode that asks: else an
agent in ``auto`` would get around its question by a subagent in ``ask``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from broker.calls import Call
from broker.permissions.effects import Permission, effects
from broker.permissions.hard import hard_refusal
from broker.permissions.modes import Mode, answer


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say to one call; ``reason`` is empty when it may run."""

    answer: Permission
    reason: str = ""


def judge(
    call: Call,
    arguments: Mapping[str, object],
    *,
    mode: Mode,
    said_yes: Collection[str] = (),
    tainted: bool = False,
) -> Judgement:
    """
    Return whether a call that the ticket allowed may run, must not, or needs the person's yes.

    Args:
        call: what the ticket allowed.
        arguments: what it will run with.
        mode: the mode of the agent that calls.
        said_yes: kinds of effect that the person said yes to before the run.
        tainted: whether the agent has read what a stranger wrote.

    >>> judge(Call("read"), {}, mode="ask").answer
    'allow'
    >>> judge(Call("shell", opaque=True), {"command": "make"}, mode="ask")
    Judgement(answer='ask', reason='unseen')
    >>> judge(Call("shell", opaque=True), {"command": "rm -rf /"}, mode="yolo").answer
    'refuse'
    """
    hard = hard_refusal(call, arguments)
    if hard is not None:
        return Judgement("refuse", f"{hard}; no mode lifts this")
    asked = []
    for effect in sorted(effects(call)):
        said = answer(mode, effect, tainted=tainted)
        if said == "refuse":
            return Judgement("refuse", f"the mode is `{mode}`, and the call's effect is `{effect}`")
        if said == "ask":
            if tainted:
                asked.append(f"{effect}, after a stranger's words were read")
            elif effect not in said_yes:
                asked.append(effect)
    return Judgement("ask", ", ".join(asked)) if asked else Judgement("allow")
