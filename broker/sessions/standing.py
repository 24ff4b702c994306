"""
Calls that an agent's hook had allowed, and that a gateway before the tool's server meets again.

Decided here: that one call, asked about twice on its way, is recorded and debited once, and so is
its end, which the gateway sees first. Not decided here: what passes; the ticket is asked again,
for it may have ended meanwhile.

A call is known by its tool and its arguments' digest; with it are kept the tickets that it was
debited to, which may be those of a subagent. What a hook allowed stands for one call at the
gateway, and for one only. A call that comes without one is decided like any other, so an agent
whose hook did not run is held all the same; and so is a call under another ticket, such as a
gateway's own narrower one, whose limits nobody has asked yet.

Rule a maintainer keeps: what stands is only ever taken for a debit that was made; it never
allows what the ticket would refuse now, nor something else than was asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from broker.authorize import authorize
from broker.calls import Call, Decision
from broker.guard import TicketGuard
from broker.language.toolnames import OUTSIDE

MAX_STANDING: Final = 4_096  # allowed calls that no gateway has met

Find = Callable[[str], TicketGuard]


class Standing:
    """
    The allowed calls of MCP tools that were not met by a gateway yet.

    >>> Standing().name("c1")
    'c1'
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], list[tuple[tuple[str, ...], str]]] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._told: OrderedDict[str, None] = OrderedDict()
        self._count = 0

    def keep(self, call: Call, tickets: Sequence[str], call_id: str) -> None:
        """Remember that a call was allowed, recorded, and debited to the tickets of these ids."""
        if not call.tool.startswith(OUTSIDE):
            return
        self._kept.setdefault((call.tool, call.digest), []).append((tuple(tickets), call_id))
        self._count += 1
        while self._count > MAX_STANDING:
            self._drop(next(iter(self._kept)), 0)

    def take(
        self, call: Call, find: Find, at: int, call_id: str, ticket: str | None = None
    ) -> Decision | None:
        """
        Return the decision that stands for a call, once; None when it must be decided.

        Args:
            call: what the gateway asks about.
            find: gives the guard of a ticket's id.
            at: nanoseconds since the Unix epoch.
            call_id: how the gateway names the call.
            ticket: the id of the gateway's own ticket, where it has one.
        """
        key = (call.tool, call.digest)
        for place, (tickets, _) in enumerate(self._kept.get(key, ())):
            if ticket is not None and tickets != (ticket,):
                continue
            guards = [find(name) for name in tickets]
            found = [
                authorize(g.ticket, call, at, 0, sandboxed=g.sandboxed, line=g.typed)
                for g in guards
            ]
            if not all(decision.allowed for decision in found):
                continue
            self._names[call_id] = self._drop(key, place)
            while len(self._names) > MAX_STANDING:
                self._names.popitem(last=False)
            return next((d for d in found if d.enforcement == "none"), found[0])
        return None

    def forget(self) -> None:
        """Let nothing stand any more: each call that a gateway meets is decided anew."""
        self._kept.clear()
        self._count = 0

    def name(self, call_id: str) -> str | None:
        """Return the id that a call was recorded by; None where its end was told by a gateway."""
        met = self._names.pop(call_id, None)
        if met is not None:
            self._told[met] = None
            while len(self._told) > MAX_STANDING:
                self._told.popitem(last=False)
            return met
        if call_id in self._told:
            del self._told[call_id]
            return None
        return call_id

    def _drop(self, key: tuple[str, str], place: int) -> str:
        kept = self._kept[key]
        _, call_id = kept.pop(place)
        if not kept:
            del self._kept[key]
        self._count -= 1
        return call_id
