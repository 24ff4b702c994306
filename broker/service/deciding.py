"""
From questions over HTTP to decisions: one after the other where their order counts.

Decided here: which evaluations of a request are asked, in which order, and which session is asked
about each. Not decided here: what passes (``broker.session``), when an answer is durable
(``broker.service.clerk``).

Rules a maintainer keeps: an evaluation is asked once, and its decision answers it and no other; one
that could not be read is a denial, also to a semantic that stops at one; nothing after the one that
stops is asked, so nothing of it is recorded or spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker.boundary import contained
from broker.calls import Decision
from broker.errors import BrokerError
from broker.service.authzen import Evaluation, Semantic, answer, stops, unread
from broker.service.clerk import GROUP, undecided
from broker.service.hosted import Hosted
from broker.service.watching import Watch
from broker.session import Session
from broker.sessions.records import closed

Asked = Evaluation | BrokerError


async def decide_all(
    hosted: Hosted, watch: Watch, items: Sequence[Asked], semantic: Semantic = "execute_all"
) -> list[dict[str, object]]:
    """Return the answers to these evaluations, in order; fewer where the semantic stops."""
    answers: list[dict[str, object]] = []
    while len(answers) < len(items):
        item = items[len(answers)]
        if isinstance(item, BrokerError):
            answers.append(unread(item))
            if semantic == "deny_on_first_deny":
                break
            continue
        decisions = await _run(hosted, items[len(answers) :], item, semantic)
        for decision in decisions:
            watch.decided(decision)
        answers += map(answer, decisions)
        if stops(semantic, decisions[-1]):
            break
    return answers


async def decide_one(hosted: Hosted, watch: Watch, asked: Evaluation) -> Decision:
    """Return the decision on one evaluation."""
    decisions = await _run(hosted, [asked], asked, "execute_all")
    watch.decided(decisions[0])
    return decisions[0]


async def _run(
    hosted: Hosted, items: Sequence[Asked], first: Evaluation, semantic: Semantic
) -> Sequence[Decision]:
    """
    Decide the evaluations at the front that one session answers: the first, and a group at most.

    So a request of a thousand takes its turn among others, and does not go before all of them.
    """
    try:
        clerk = hosted.clerk_of(first.ticket)
    except BrokerError as error:
        return [closed(str(error))]
    run = [first]
    for item in items[1:GROUP]:
        if isinstance(item, BrokerError) or item.ticket != first.ticket:
            break
        run.append(item)
    return await clerk.ask(partial(_each, hosted, run, semantic), len(run))


def _each(
    hosted: Hosted, run: Sequence[Evaluation], semantic: Semantic, session: Session
) -> list[Decision]:
    found: list[Decision] = []
    for asked in run:
        # What breaks in one is the refusal of that one: the others are recorded already.
        found.append(contained(partial(hosted.decide, session, asked), undecided))
        if stops(semantic, found[-1]):
            break
    return found
