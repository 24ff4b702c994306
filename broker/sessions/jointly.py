"""
One call, judged by several tickets at once.

Where it is not sure which of several agents makes a call, each of their tickets must let it
through. Decided here: that a call passes only when all do, and that it is then debited once to
every link of every line, so that a link which they share counts it once. Not decided here: whose
tickets they are (``broker.agents.children``), what each admits (``broker.guard``).

Rules a maintainer keeps: all are judged before anything is debited, and a refused call costs
nothing; the counts are those of one instant, for all tickets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.budget import Counts
from broker.calls import Call, Decision
from broker.guard import TicketGuard

Witness = Callable[[Decision, TicketGuard], Decision]


def check_all(
    guards: Sequence[TicketGuard], call: Call, at: int | None, witness: Witness
) -> Decision:
    """
    Decide a call by all of these guards, which share one budget; at least one.

    Args:
        guards: of one session.
        call: what ``Resolver.resolve`` made of the tool and its arguments.
        at: nanoseconds since the Unix epoch; None when no clock can be read.
        witness: is shown the decision, and the guard that it comes from, before anything is
            debited; it may return a refusal in its place.

    >>> from broker.caveats import calls, tools
    >>> from broker.ticket import mint
    >>> root = TicketGuard(mint([calls(9)], key=bytes(32), sid="s", minted_at=0))
    >>> both = [root.narrowed(tools("read")), root.narrowed(calls(1))]
    >>> [check_all(both, Call(t), 0, lambda d, _: d).allowed for t in ("edit", "read", "read")]
    [False, True, False]
    >>> root.spent()
    (1,)
    """
    first, *others = guards
    if not others:
        return first.check(call, at, witness=lambda decision: witness(decision, first))
    limits: dict[str, int | None] = {}
    for guard in guards:
        if guard.counted:
            limits |= dict(zip(guard.line, guard.limits, strict=True))
    line = tuple(limits)
    by = first

    def judge(counts: Counts) -> Decision:
        nonlocal by
        by = first
        told = None if counts is None else dict(zip(line, counts, strict=True))
        allowed = None
        for guard in guards:
            spent = None
            if told is not None and guard.counted:
                spent = tuple(told[link] for link in guard.line)
            decision = guard.judge(call, at, spent)
            if decision.refusal is not None:
                by = guard
                return decision
            if allowed is None or decision.enforcement == "none":
                allowed = decision
        assert allowed is not None  # noqa: S101 - there is at least one guard
        return allowed

    def witnessed(decision: Decision) -> Decision:
        return witness(decision, by)

    if not line:
        return witnessed(judge(None))
    return first.budget.settle(
        line, call.cost(), judge, limits=tuple(limits.values()), witness=witnessed
    )
