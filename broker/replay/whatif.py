"""
What another ticket would have said of a run's calls.

Decided here: that each call is decided at the instant at which it was made, with the counts that
the new ticket would have had by then, and when an answer cannot be told from what is left of the
run. Not decided here: what passes (``broker.authorize``), what a call touched
(``broker.replay.reading``). Pure, and it needs no model: a run that another ticket had held would
have gone another way after its first refusal, which nobody can tell.

Rule a maintainer keeps: a call of which something is not known is never counted as allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.authorize import ASK, authorize
from broker.calls import Refusal, TypedText
from broker.replay.reading import ReadCall
from broker.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Answer:
    """What the ticket says of one call: ``refusal``, or why it cannot be told, or neither."""

    read: ReadCall
    refusal: Refusal | None = None
    unknown: str = ""

    @property
    def reason(self) -> str:
        """Why it would be refused, without what an agent is told beside it."""
        return "" if self.refusal is None else self.refusal.reason.removesuffix(f"; {ASK}")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """
    What a ticket says of all calls of a run.

    ``spent`` are the calls that it would have counted, ``limit`` the most that it allows.
    """

    answers: tuple[Answer, ...]
    spent: int
    limit: int | None

    @property
    def refused(self) -> tuple[Answer, ...]:
        """The calls that it would have refused."""
        return tuple(answer for answer in self.answers if answer.refusal is not None)

    @property
    def undecided(self) -> tuple[Answer, ...]:
        """The calls of which it cannot be told."""
        return tuple(answer for answer in self.answers if answer.unknown)

    @property
    def left(self) -> int | None:
        """How many calls would have been left; None where they are not counted."""
        return None if self.limit is None else max(self.limit - self.spent, 0)


def what_if(ticket: Ticket, calls: Iterable[ReadCall], line: TypedText | None = None) -> WhatIf:
    """
    Decide the calls of a run again, under another ticket.

    Args:
        ticket: with one link, minted when the run began.
        calls: in the order in which they were made.
        line: what the person typed, for conditions that look at it.

    >>> from broker.calls import Call
    >>> from broker.caveats import tools
    >>> from broker.replay.seen import SeenCall
    >>> from broker.ticket import mint
    >>> ticket = mint([tools("read")], key=bytes(32), sid="s", minted_at=0)
    >>> calls = [ReadCall(SeenCall(3, 0, t), Call(t), "receipt") for t in ("read", "shell")]
    >>> [answer.refusal.caveat for answer in what_if(ticket, calls).refused]
    ['tools']
    """
    spent = 0
    answers: list[Answer] = []
    for read in calls:
        call = read.call
        unknown = _unknown(ticket, read)
        decision = authorize(ticket, call, read.seen.at, spent, line=line)
        cost = max(call.cost(), read.seen.cost)
        if decision.refusal is None or (unknown and _by_rules(ticket, read)):
            spent += cost
            answers.append(Answer(read, unknown=unknown))
        else:
            answers.append(Answer(read, decision.refusal))
    return WhatIf(tuple(answers), spent, ticket.least)


def _unknown(ticket: Ticket, read: ReadCall) -> str:
    """Return why the ticket cannot be asked about a call, as far as it would allow it."""
    if _by_rules(ticket, read):
        return "the scope looks into its arguments, and only their digest is known"
    return read.unknown if ticket.bounds.seen or ticket.bounds.tools else ""


def _by_rules(ticket: Ticket, read: ReadCall) -> bool:
    """Whether only a rule may let the tool through, and its arguments are not known."""
    call = read.call
    return call.arguments is None and any(
        bound.book is not None
        and not bound.match.match(call.tool, call.server)
        and bool(bound.book.of(read.name, call.tool, call.server))
        for bound in ticket.bounds.tools
    )
