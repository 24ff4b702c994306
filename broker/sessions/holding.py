"""
Which tickets judge a call, and which a gateway need not ask about again.

Decided here: the guards of a call, by the ticket that is named, the actor, or the tickets that an
adapter says it may hold; that a ticket is recorded before it is used; and what a call that a hook
was asked about still means to a gateway. Not decided here: who holds which ticket
(``broker.sessions.custody``), what passes (``broker.sessions.jointly``).

Rule a maintainer keeps: where nobody can be named, all who may be at work are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.calls import Call, Decision
from broker.caveats import Caveat
from broker.errors import AttenuationError
from broker.guard import TicketGuard
from broker.scope import render
from broker.sessions.custody import Custody
from broker.sessions.records import Data, delegation_data, refused_delegation_data
from broker.sessions.standing import Standing


class InHand:
    """
    The tickets of one session at work; used inside its lock.

    Args:
        custody: every ticket, and who holds which.
        record: writes the data of a ``delegate`` entry at an instant, or raises ``StoreError``.
    """

    def __init__(self, custody: Custody, record: Callable[[Data, int], None]) -> None:
        self._custody = custody
        self._record = record
        self._standing = Standing()
        self.living: tuple[str, ...] = ()

    def found(self, name: str | None, actor: str, at: int) -> TicketGuard:
        """
        Return the guard to judge with; a ticket that is seen first here is recorded first.

        Raises:
            InputError, VerificationError: no ticket of this session.
            StoreError, LimitError: it cannot be kept.
        """
        guard = self._custody.find(name, actor)
        if not self._custody.knows(guard):
            self.keep(guard, render(guard.ticket.links[-1].caveats), "bearer", "", at)
        return guard

    def keep(
        self, guard: TicketGuard, texts: Sequence[str], asked_by: str, holder: str, at: int
    ) -> None:
        """
        Record a derived ticket, and remember it.

        Raises:
            StoreError, LimitError: it cannot be kept.
        """
        self._custody.check_room()
        self._record(delegation_data(guard.ticket, texts, asked_by=asked_by, holder=holder), at)
        self._custody.keep(guard, holder)

    def derive(
        self,
        parent: TicketGuard,
        said: tuple[Sequence[str], Sequence[Caveat]],
        at: int,
        *,
        asked_by: str,
        holder: str,
    ) -> TicketGuard:
        """
        Narrow a ticket and keep what comes of it; a widening is recorded as well.

        Args:
            parent: holds the ticket to narrow.
            said: the caveats to add, as they were written and as they were read.
            at: nanoseconds since the Unix epoch.
            asked_by: the actor that asks.
            holder: the actor that it is kept for.

        Raises:
            AttenuationError: it would widen.
            StoreError, LimitError: it cannot be kept.
        """
        texts, caveats = said
        try:
            child = parent.narrowed(*caveats)
        except AttenuationError as error:
            refused = refused_delegation_data(
                parent.ticket.id, texts, caveat=error.kind, reason=str(error), asked_by=asked_by
            )
            self._record(refused, at)
            raise
        self.keep(child, render(caveats), asked_by, holder, at)
        return child

    def guards(
        self,
        call: Call,
        name: str | None,
        actor: str,
        among: Sequence[str],
        at: int,
        *,
        again: bool,
    ) -> tuple[TicketGuard, ...]:
        """
        Return all the guards that must let a call through.

        Raises:
            InputError, VerificationError: no ticket of this session.
            StoreError, LimitError: a new one cannot be kept.
        """
        if name is not None:
            guards = self._custody.judging(self.found(name, actor, at))
        else:
            guards = self._custody.of(actor, among or (self.living if again else ()))
        return self._custody.admitting(guards, call)

    def stands(self, call: Call, name: str | None, at: int, call_id: str) -> Decision | None:
        """
        Return the decision that a hook was given about a call which a gateway meets now, if any.

        Raises:
            InputError, VerificationError: the gateway's own ticket is none of this session.
        """
        own = None if name is None else self._custody.find(name, "").ticket.id
        return self._standing.take(call, self._custody.kept, at, call_id, own)

    def stand(self, call: Call, guards: Sequence[TicketGuard], call_id: str) -> None:
        """Remember a call that a hook was allowed, until a gateway meets it."""
        self._standing.keep(call, [guard.ticket.id for guard in guards], call_id)

    def replaced(self) -> None:
        """What a hook was allowed under another root stands no more: it is decided anew."""
        self._standing.forget()

    def name(self, call_id: str) -> str | None:
        """Return the id that a call was recorded by; None where its end is recorded already."""
        return self._standing.name(call_id)
