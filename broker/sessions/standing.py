"""
Calls that an agent's hook had allowed, and that a gateway before the tool's server meets again.

Decided here: that one call, asked about twice on its way, is recorded and debited once. Not
decided here: what passes; the ticket is asked again, for it may have ended meanwhile.

A call is known by its tool, its arguments' digest and the ticket that it was debited to. What a
hook allowed stands for one call at the gateway, and for one only. A call that comes without one is
decided like any other, so an agent whose hook did not run is held all the same; and so is a call
under another ticket, such as a gateway's own narrower one, whose limits nobody has asked yet.

Rule a maintainer keeps: what stands is only ever taken for a debit that was made; it never
allows what the ticket would refuse now, nor something else than was asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from broker.authorize import authorize
from broker.calls import Call, Decision
from broker.guard import TicketGuard
from broker.language.toolnames import OUTSIDE

MAX_STANDING: Final = 4_096  # allowed calls that no gateway has met


class Standing:
    """
    The allowed calls of MCP tools that were not met by a gateway yet.

    >>> Standing().name("c1")
    'c1'
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], list[str]] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._count = 0

    def keep(self, call: Call, ticket: str, call_id: str) -> None:
        """Remember that a call was allowed, recorded, and debited to the ticket of that id."""
        if not call.tool.startswith(OUTSIDE):
            return
        self._kept.setdefault((call.tool, call.digest, ticket), []).append(call_id)
        self._count += 1
        while self._count > MAX_STANDING:
            self._drop(next(iter(self._kept)))

    def take(self, call: Call, guard: TicketGuard, at: int, call_id: str) -> Decision | None:
        """Return the decision that stands for a call, once; None when it must be decided."""
        key = (call.tool, call.digest, guard.ticket.id)
        if key not in self._kept:
            return None
        decision = authorize(guard.ticket, call, at, 0, sandboxed=guard.sandboxed, line=guard.typed)
        if not decision.allowed:
            return None
        self._names[call_id] = self._drop(key)
        while len(self._names) > MAX_STANDING:
            self._names.popitem(last=False)
        return decision

    def name(self, call_id: str) -> str:
        """Return the id that a call was recorded by."""
        return self._names.pop(call_id, call_id)

    def _drop(self, key: tuple[str, str, str]) -> str:
        ids = self._kept[key]
        first = ids.pop(0)
        if not ids:
            del self._kept[key]
        self._count -= 1
        return first
