"""
The tickets of one session, and who holds which.

Decided here: how a ticket is found by its id, its wire form or its holder, and that a holder is
only ever narrowed. Not decided here: what is recorded of it (``broker.session``).

An agent without a ticket of its own holds the root. ``agent:TYPE:ID`` holds what was kept for
it, else what was kept for ``agent:TYPE``.

Rules a maintainer keeps: a name that is not a ticket of this session is an error, never the
root; a wire form is believed only after ``verify_chain`` with the session's key; a holder's new
ticket descends from the one it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.errors import InputError, LimitError
from broker.guard import TicketGuard
from broker.limits import MAX_NAME_CHARS, MAX_TICKETS
from broker.sessions.records import told
from broker.ticket import Ticket, verify_chain


class Custody:
    """
    Every ticket of one session, by id, and the holders by name.

    Args:
        root: the guard of the root ticket.
        key: the session's ticket key.
        tickets: derived tickets that are known already.
        holders: the id of the ticket that each of them holds.
    """

    def __init__(
        self,
        root: TicketGuard,
        key: bytes,
        tickets: Mapping[str, Ticket] | None = None,
        holders: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self._key = key
        self._guards = {i: root.holding(t) for i, t in (tickets or {}).items()}
        self._guards[root.ticket.id] = root
        self._holders = dict(holders or {})

    def held(self, actor: str) -> str | None:
        """Return the id of the ticket kept for an actor or its type, or None."""
        return self._holders.get(actor) or self._holders.get(actor.rpartition(":")[0])

    def find(self, name: str | None, actor: str) -> TicketGuard:
        """
        Return the guard of a named ticket, or of the one that an actor holds.

        Args:
            name: an id, a wire form, or nothing.
            actor: who holds a ticket, when none is named.

        Raises:
            InputError, VerificationError: no ticket of this session.
        """
        wanted = name or self.held(actor) or self.root.ticket.id
        guard = self._guards.get(wanted)
        if guard is not None:
            return guard
        if "\n" not in wanted:
            raise InputError(f"this session has no ticket `{told(wanted, MAX_NAME_CHARS)}`")
        believed = verify_chain(wanted, self._key)
        return self._guards.get(believed.id) or self.root.holding(believed)

    def of(self, actor: str, among: Sequence[str] = ()) -> tuple[TicketGuard, ...]:
        """
        Return the guards that judge an actor's calls: all of ``among``, and what it holds itself.

        Raises:
            InputError, VerificationError: no ticket of this session.
        """
        if not among:
            return (self.find(None, actor),)
        found = [self.find(name, actor) for name in among]
        if self.held(actor) is not None:
            found.append(self.find(None, actor))
        return tuple({guard.ticket.id: guard for guard in found}.values())

    def knows(self, guard: TicketGuard) -> bool:
        """Whether the guard's ticket was kept before."""
        return guard.ticket.id in self._guards

    def check_holder(self, holder: str, parent: TicketGuard) -> None:
        """
        Check that a ticket derived from ``parent`` may be kept for ``holder``, if it is for any.

        Raises:
            InputError: the holder has a ticket that ``parent`` does not descend from.
        """
        held = self.held(holder) if holder else None
        if held is not None and held not in parent.ticket.line:
            raise InputError(
                f"`{told(holder, MAX_NAME_CHARS)}` holds ticket {held} already: narrow that one"
            )

    def check_room(self) -> None:
        """
        Check that one more ticket can be kept.

        Raises:
            LimitError: there are MAX_TICKETS.
        """
        if len(self._guards) >= MAX_TICKETS:
            raise LimitError(f"a session has at most {MAX_TICKETS} tickets")

    def keep(self, guard: TicketGuard, holder: str = "") -> None:
        """Remember a ticket, and who holds it."""
        self._guards[guard.ticket.id] = guard
        if holder:
            self._holders[holder] = guard.ticket.id
