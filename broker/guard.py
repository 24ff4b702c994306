"""
One ticket, with its budget, ready to be asked.

Decided here: that a call is judged with the counts of the whole line of custody and debited to
all of it in one step, and that delegation only narrows. Not decided here: what passes
(``broker.authorize``), how counts are kept (``broker.budget``), what is recorded
(``broker.session``).

Rules a maintainer keeps: a guard never holds more than its ticket; ``narrowed`` shares the
budget, so that children spend what is their parents'; a refused call costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.authorize import ASK, authorize
from broker.budget import Budget, Counts, Limits, MemoryBudget, Witness, unwitnessed
from broker.calls import Call, Decision, Refusal, TypedText
from broker.caveats import Caveat
from broker.errors import InputError
from broker.ticket import Ticket, attenuate

if TYPE_CHECKING:
    from broker.resolve import Resolver

NONCE_BYTES: Final = 8


class TicketGuard:
    """
    Decides calls under one ticket and keeps count of them.

    >>> from broker.caveats import calls, tools
    >>> from broker.ticket import mint
    >>> guard = TicketGuard(mint([tools("read"), calls(1)], key=bytes(32), sid="s", minted_at=0))
    >>> guard.check(Call("read"), 0).allowed, guard.check(Call("read"), 0).refusal.caveat
    (True, 'calls')
    """

    __slots__ = ("_randomness", "budget", "line", "needs_enforcement", "resolver", "sandboxed",
                 "ticket", "typed")  # fmt: skip

    def __init__(
        self,
        ticket: Ticket,
        budget: Budget | None = None,
        resolver: Resolver | None = None,
        *,
        sandboxed: bool = False,
        needs_enforcement: bool = False,
        randomness: Callable[[int], bytes] = os.urandom,
        typed: TypedText | None = None,
    ) -> None:
        self.ticket = ticket
        self.budget: Budget = MemoryBudget() if budget is None else budget
        self.resolver = resolver
        self.sandboxed = sandboxed
        self.needs_enforcement = needs_enforcement
        self.typed = typed
        self.line = ticket.line  # what is debited
        self._randomness = randomness

    @property
    def counted(self) -> bool:
        """Whether counts must be told: something limits the calls here, or others share them."""
        return self.ticket.least is not None or self.budget.shared

    @property
    def limits(self) -> Limits:
        """The number of calls of each link of ``line``, or None."""
        return self.ticket.limits

    def check(self, call: Call, at: int | None, *, witness: Witness = unwitnessed) -> Decision:
        """
        Decide a call, and debit it to the ticket and every ancestor when it is allowed.

        Args:
            call: what ``Resolver.resolve`` made of the tool and its arguments.
            at: nanoseconds since the Unix epoch; None when no clock can be read.
            witness: is shown the decision before anything is debited, and may return a refusal
                in its place, as when it could not be written down.
        """

        def judge(counts: Counts) -> Decision:
            return self.judge(call, at, counts)

        if not self.counted:
            # No link sets a number, so nobody will ever ask for this count.
            return witness(judge(None))

        return self.budget.settle(
            self.line, call.cost(), judge, limits=self.limits, witness=witness
        )

    def judge(self, call: Call, at: int | None, counts: Counts) -> Decision:
        """Return what the ticket says of a call, given the counts of its line; debits nothing."""
        # One count for one link is the case that ``authorize`` answers quickest.
        spent = counts[0] if counts is not None and len(counts) == 1 else counts
        decision = authorize(
            self.ticket, call, at, spent, sandboxed=self.sandboxed, line=self.typed
        )
        if self.needs_enforcement and decision.allowed and decision.enforcement == "none":
            return _unenforced(call)
        return decision

    def decide(
        self,
        tool: object,
        arguments: object,
        at: int | None,
        *,
        server: str | None = None,
        cwd: str | None = None,
    ) -> tuple[Call, Decision]:
        """
        Read a tool call as the world will read it, and decide it; see ``check``.

        Raises:
            InputError: this guard was made without a resolver.
        """
        if self.resolver is None:
            raise InputError("this guard has no resolver: give it one, or check a `Call`")
        call = self.resolver.resolve(tool, arguments, server=server, cwd=cwd)
        return call, self.check(call, at)

    def narrowed(self, *caveats: Caveat) -> TicketGuard:
        """
        Return a guard for a delegate: a narrower ticket that spends from the same budget.

        Raises:
            AttenuationError: a caveat would permit more; ``kind`` names it.

        >>> from broker.caveats import tools
        >>> from broker.ticket import mint
        >>> guard = TicketGuard(mint([tools("read")], key=bytes(32), sid="s", minted_at=0))
        >>> guard.narrowed(tools("shell"))
        Traceback (most recent call last):
        broker.errors.AttenuationError: `tools=shell` widens `tools=read`: `shell` ...
        """
        nonce = self._randomness(NONCE_BYTES).hex()
        return self.holding(attenuate(self.ticket, *caveats, nonce=nonce))

    def holding(self, ticket: Ticket) -> TicketGuard:
        """Return a guard for another believed ticket of the same tree, on the same budget."""
        if ticket.root_id != self.ticket.root_id:
            raise InputError("the ticket belongs to another tree")
        return self.rooted(ticket, self.typed)

    def rooted(self, ticket: Ticket, typed: TypedText | None) -> TicketGuard:
        """
        Return a guard for another root that the person minted in the same session, on one budget.

        Args:
            ticket: minted from what was typed.
            typed: the line that it was minted by.
        """
        return TicketGuard(
            ticket,
            self.budget,
            self.resolver,
            # The walls hold what this guard's ticket says; another list is not theirs.
            sandboxed=self.sandboxed and _same_walls(self.ticket, ticket),
            needs_enforcement=self.needs_enforcement,
            randomness=self._randomness,
            typed=typed,
        )

    def spent(self) -> Counts:
        """Return the calls made so far, one count per link; None when they cannot be told."""
        return self.budget.spent(self.line)


def _same_walls(one: Ticket, other: Ticket) -> bool:
    """Whether two tickets of a session say the same of paths and hosts."""
    return all(
        [bound.patterns for bound in getattr(one.bounds, kind)]
        == [bound.patterns for bound in getattr(other.bounds, kind)]
        for kind in ("reads", "writes", "hosts")
    )


def _unenforced(call: Call) -> Decision:
    reason = (
        f"the scope names `{call.tool}`, but nothing holds it to its paths and hosts, and this "
        f"session requires enforcement; {ASK}"
    )
    return Decision(Refusal("enforcement", call.tool, reason))
