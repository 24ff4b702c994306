"""
The tickets of one session, and who holds which.

Decided here: how a ticket is found by its id, its wire form or its holder, that a holder is
only ever narrowed, and what holds it once the person has replaced the root. Not decided here: what
is recorded of it (``broker.session``), who mints (``broker.sessions.minting``).

An agent without a ticket of its own holds the root. ``agent:TYPE:ID`` holds what was kept for
it, else what was kept for ``agent:TYPE``. A ticket that descends from a root which was replaced
goes on, for no more than the new root permits as well: each of its calls is judged by both.

Rules a maintainer keeps: a name that is not a ticket of this session is an error, never the
root; a wire form is believed only after ``verify_chain`` with the session's key; a holder's new
ticket descends from the one it has; nothing is judged without the root that is in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.calls import Call
from broker.caveats import Caveat
from broker.errors import InputError, LimitError
from broker.guard import TicketGuard
from broker.limits import MAX_NAME_CHARS, MAX_TICKETS
from broker.sessions.records import told
from broker.ticket import Ticket, mint, verify_chain

FIRST: Final = "main"  # the agent that a person started and speaks to


class Custody:
    """
    Every ticket of one session, by id, and the holders by name.

    Args:
        root: the guard of the root ticket.
        key: the session's ticket key.
        tickets: derived tickets that are known already.
        holders: the id of the ticket that each of them holds.
        replaced: the guards of roots that were replaced.
    """

    def __init__(
        self,
        root: TicketGuard,
        key: bytes,
        tickets: Mapping[str, Ticket] | None = None,
        holders: Mapping[str, str] | None = None,
        replaced: Sequence[TicketGuard] = (),
    ) -> None:
        self.root = root
        self._key = key
        self._roots = {guard.ticket.root_id: guard for guard in (*replaced, root)}
        self._guards = {i: self._of_tree(t) for i, t in (tickets or {}).items()}
        self._guards |= {guard.ticket.id: guard for guard in self._roots.values()}
        self._holders = dict(holders or {})
        self._admitted: dict[tuple[str, Call], TicketGuard] = {}
        self._beside: dict[str, TicketGuard] = {}

    def admit(self, key: tuple[str, Call], guard: TicketGuard) -> None:
        """
        Keep a ticket for one call beside the one that refused it; nobody can name it.

        Args:
            key: the id of the ticket that refused, and the very call.
            guard: what decides that call from here on.
        """
        self._admitted[key] = self._beside[guard.ticket.id] = guard

    def admitting(self, guards: Sequence[TicketGuard], call: Call) -> tuple[TicketGuard, ...]:
        """Return the guards of a call, those that a person let this very call pass put in place."""
        if not self._admitted:
            return tuple(guards)
        return tuple([self._admitted.get((guard.ticket.id, call), guard) for guard in guards])

    def kept(self, name: str) -> TicketGuard:
        """
        Return the guard that a call was debited to, by its ticket's id.

        Raises:
            InputError, VerificationError: no ticket of this session.
        """
        return self._beside.get(name) or self.find(name, "")

    def mint(self, caveats: Sequence[Caveat], *, at: int, intent: str, nonce: str) -> Ticket:
        """
        Mint a further root of this session; nothing is kept.

        Raises:
            InputError, LimitError: as ``broker.ticket.mint``.
        """
        sid = self.root.ticket.sid
        return mint(caveats, key=self._key, sid=sid, minted_at=at, intent=intent, nonce=nonce)

    def replace(self, root: TicketGuard) -> None:
        """
        Put another root in force.

        The agent that the person speaks to holds that one, whatever it was narrowed to before.
        Whoever else holds a ticket of the old one keeps it, below both.
        """
        self.root = root
        self._holders.pop(FIRST, None)
        self._roots[root.ticket.root_id] = self._guards[root.ticket.id] = root

    def judging(self, guard: TicketGuard) -> tuple[TicketGuard, ...]:
        """Return the guards that judge what a guard's ticket is used for: it, and the root."""
        same = guard.ticket.root_id == self.root.ticket.root_id
        return (guard,) if same else (guard, self.root)

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
        return self._guards.get(believed.id) or self._of_tree(believed)

    def _of_tree(self, ticket: Ticket) -> TicketGuard:
        root = self._roots.get(ticket.root_id)
        # A root that another session handed over may be narrowed: what is above it is theirs.
        if root is None or root.ticket.id not in ticket.line:
            raise InputError("the ticket belongs to no root of this session")
        return root.holding(ticket)

    def of(self, actor: str, among: Sequence[str] = ()) -> tuple[TicketGuard, ...]:
        """
        Return the guards that judge an actor's calls: all of ``among``, and what it holds itself.

        Raises:
            InputError, VerificationError: no ticket of this session.
        """
        if not among:
            return self.judging(self.find(None, actor))
        found = [self.find(name, actor) for name in among]
        if self.held(actor) is not None:
            found.append(self.find(None, actor))
        held = (each for guard in found for each in self.judging(guard))
        return tuple({guard.ticket.id: guard for guard in held}.values())

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
        if len(self._guards) + len(self._beside) >= MAX_TICKETS:
            raise LimitError(f"a session has at most {MAX_TICKETS} tickets")

    def keep(self, guard: TicketGuard, holder: str = "") -> None:
        """Remember a ticket, and who holds it."""
        self._guards[guard.ticket.id] = guard
        if holder:
            self._holders[holder] = guard.ticket.id
