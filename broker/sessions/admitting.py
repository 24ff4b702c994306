"""
One call that a person lets through beside a ticket: a ticket of its own, for that call alone.

A person who is asked about a refused call does not widen the agent's ticket. What they type mints
another one, which holds everything that the agent's ticket holds but for what was asked of the
arguments, and in its place a rule with the very values of this call. Decided here: which refusals
can be lifted so, what such a ticket says, and how its calls are counted. Not decided here: who is
asked and how (``broker.sessions.asking``).

Rules a maintainer keeps: only a refusal by a rule's conditions can be lifted, where the tool itself
is admitted; paths, hosts, the end and the budget stay those of the agent's own ticket; the call is
the very same, with the places that it leads to, and not one that the rule would admit too; such
a ticket is handed to nobody, so nothing can be derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker.authorize import authorize
from broker.budget import Counts, Limits
from broker.calls import Call, Decision, TypedText
from broker.caveats import Caveat, calls, tools, until
from broker.conditions import Free, Values, empty, values
from broker.errors import BrokerError, InputError
from broker.guard import TicketGuard
from broker.intent import Intents, TypedLine
from broker.language.toolnames import full_name, lawful_tool
from broker.redaction.hiding import clipped
from broker.rules import Condition, Hop, Path, Rule, rule
from broker.scope import render
from broker.sessions.ground import Ground
from broker.sessions.records import admitted_data, intent_data
from broker.ticket import Ticket, mint

_KEPT: Final = frozenset(("paths", "reads", "writes", "hosts"))
_MOST_PATHS: Final = 48  # conditions; a rule holds some more

Key = tuple[str, Call]
"""The id of the ticket that refused, and the very call."""


class Beside(TicketGuard):
    """The guard of a ticket for one call beside another ticket, spending from that one's budget."""

    __slots__ = ("_held",)

    def __init__(self, held: TicketGuard, ticket: Ticket, typed: TypedText) -> None:
        super().__init__(
            ticket,
            held.budget,
            held.resolver,
            sandboxed=held.sandboxed,
            needs_enforcement=held.needs_enforcement,
            typed=typed,
        )
        self._held = held
        self.line = (*held.line, ticket.id)

    @property
    def counted(self) -> bool:
        """Whether the ticket that this one stands beside, or itself, limits the calls."""
        return self.ticket.least is not None or self.budget.shared

    @property
    def limits(self) -> Limits:
        """Those of the ticket that this one stands beside, and its own."""
        return (*self._held.limits, *self.ticket.limits)

    def judge(self, call: Call, at: int | None, counts: Counts) -> Decision:
        """Return what is said of the call, given the counts of both tickets."""
        least = self.ticket.least
        if least is None or counts is None:
            return super().judge(call, at, counts)
        # One number says how far every limit is used up: what is left is what the least leaves.
        left = min(
            limit - used
            for limit, used in zip(self.limits, counts, strict=True)
            if limit is not None
        )
        return super().judge(call, at, (least - left,))


def could_admit(guard: TicketGuard, call: Call, at: int) -> tuple[Caveat, ...] | None:
    """
    Return the caveats of a ticket that would let this call through beside a guard's own, or None.

    Args:
        guard: of the ticket that refused the call by `tools`.
        call: the refused call.
        at: nanoseconds since the Unix epoch.
    """
    ticket, bounds = guard.ticket, guard.ticket.bounds
    name = call.tool if call.server is None else full_name(call.tool, call.server)
    if call.fault is not None or call.nested or not lawful_tool(name) or "*" in name:
        return None
    if not all(bound.admits_some(name, call.tool, call.server) for bound in bounds.tools):
        return None
    unseen = (call.opaque and bounds.seen) or (bool(call.urls) and bounds.no_network)
    if unseen and name not in bounds.named:
        return None  # it is refused for more than its arguments
    try:
        found = caveats_for(ticket, name, call)
        probe = mint(found, key=bytes(32), sid="s", minted_at=at, intent="0" * 64)
    except BrokerError:
        return None
    allowed = authorize(probe, call, at, sandboxed=guard.sandboxed).allowed
    return found if allowed else None


def caveats_for(ticket: Ticket, name: str, call: Call) -> tuple[Caveat, ...]:
    """
    Return what a ticket for one call says: all of another ticket but its tools, and the call.

    Raises:
        InputError: the call cannot be said in a rule.
    """
    kept = [caveat for caveat in ticket.caveats if caveat.kind in _KEPT]
    if ticket.least is not None:
        kept.append(calls(ticket.least))
    if ticket.until is not None:
        kept.append(until(ticket.until))
    return (tools(rule_for(name, call.arguments or {})), *dict.fromkeys(kept))


def rule_for(name: str, arguments: Mapping[str, object]) -> Rule:
    """
    Return the rule that admits a tool with these arguments, and as little else as a rule can say.

    A text that a rule cannot spell, or that looks like a secret, is free in it: whoever uses the
    rule holds the call to these arguments by their digest.

    Raises:
        InputError: there are none, or too many, or one has a name that no rule can hold.

    >>> str(rule_for("pay", {"to": "B", "sums": [1, 2], "cc": ""}))
    'pay(to="B", sums[] in {1, 2})'
    """
    found: dict[Path, list[object]] = {}
    for name_of, value in arguments.items():
        if not empty(value):
            for path, scalar in _scalars(value, (Hop(name_of),)):
                found.setdefault(path, []).append(scalar)
    if len(found) > _MOST_PATHS:
        raise InputError("a call with so many arguments is not said in a rule")
    conditions = [_condition(path, given) for path, given in found.items()]
    if not conditions:
        raise InputError("a call without arguments is not said in a rule")
    return rule(name, *conditions)


def _scalars(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield every value with its way; what is of several shapes is free, as is all below it."""
    if isinstance(value, dict) and value and not any(map(empty, value.values())):
        for name, inner in value.items():
            yield from _scalars(inner, (*path, Hop(name)))
    elif isinstance(value, list) and value and _alike(value):
        for item in value:
            yield from _scalars(item, (*path, Hop(None)))
    else:
        yield path, value


def _alike(items: list[object]) -> bool:
    """Whether all elements of a list are plain values, or objects of the same plain fields."""
    if not any(isinstance(item, dict | list) for item in items):
        return not any(map(empty, items))
    fields = [set(item) if isinstance(item, dict) else None for item in items]
    plain = all(
        not isinstance(inner, dict | list) and not empty(inner)
        for item in items
        if isinstance(item, dict)
        for inner in item.values()
    )
    return fields[0] is not None and plain and all(each == fields[0] for each in fields)


def _condition(path: Path, given: Iterable[object]) -> Condition:
    return Condition(path, _exactly(list(given)))


def _exactly(given: list[object]) -> Values | Free:
    if any(isinstance(one, str) and clipped(one, len(one), "") != one for one in given):
        return Free()
    try:
        return values(*given)
    except InputError:
        if any(isinstance(one, int | float) for one in given):
            raise  # no finite number, and what is none passes no rule
        return Free()


def admit(
    ground: Ground,
    guard: TicketGuard,
    call: Call,
    line: TypedLine,
    at: int,
    *,
    once: bool,
) -> Beside:
    """
    Mint the ticket for one call from what a person typed, record both, and keep it.

    Args:
        ground: of a session whose lock is held.
        guard: of the ticket that refused the call.
        call: the very call.
        line: what the person typed.
        at: nanoseconds since the Unix epoch.
        once: whether it is for one call, and not for every one that is the same.

    Raises:
        InputError: the line is none that mints, or the call cannot be let through.
        StoreError: it cannot be recorded.
    """
    opened = Intents().open(line, at)
    caveats = could_admit(guard, call, at)
    if caveats is None:
        raise InputError("this call was not refused by what its arguments are")
    if once:
        caveats = (*[c for c in caveats if c.kind != "calls"], calls(1))
    custody = ground.custody
    custody.check_room()
    typed = ground.concealer.intent(intent_data(opened))
    ticket = custody.mint(
        caveats,
        at=at,
        intent=str(typed["digest"]),
        nonce=ground.outside.randomness(8).hex(),
    )
    ground.write("intent", typed, at)
    data = admitted_data(ticket, render(caveats), beside=guard.ticket.id, call=call)
    ground.write("ticket", data, at)
    beside = Beside(guard, ticket, TypedText(opened.line, ticket.intent))
    custody.admit((guard.ticket.id, call), beside)
    return beside
