"""
The subagents of a run: what each may do, and which call is whose.

An agent starts a subagent by a call. That call hands a ticket down: the caller's, narrowed by the
tools that the subagent's definition lists and by the ``scope: KEY=VALUE`` lines of its task. The
call names what was asked for; the subagent's own calls name who makes them. What joins the two
differs between agents, and is not always told.

Decided here: what is handed down, and for every call the tickets that it must pass. Not decided
here: how an agent spells any of this (its own room), what a definition says
(``broker.agents.definitions``), what passes (``broker.session``).

Rules a maintainer keeps: a task that asks for more than its caller holds is refused, by name; a
subagent is told apart by what its agent says of it, never by what a model wrote; where several
tickets may be a caller's, it is held to all of them, and so is one that goes on with another
task; a caller of whom nothing is known is held to the tickets of all who may be at work, so that
it never gets the root's in their stead; a ticket that was handed down is not read again, so what
changes afterwards changes nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from broker.agents.definitions import Listing
from broker.authorize import ASK
from broker.bounds import Bounds, narrow
from broker.calls import Refusal
from broker.caveats import Caveat, rules, tools
from broker.errors import AttenuationError, BrokerError, LimitError
from broker.globs import tool_matcher
from broker.limits import MAX_TICKETS
from broker.rules import Rule
from broker.scope import render
from broker.session import MAIN, Session
from broker.ticket import Ticket

_SCOPE: Final = re.compile(
    r"^[ \t]*scope:[ \t]*([a-z]+[ \t]*=.*?|@.*?)[ \t\r]*$", re.IGNORECASE | re.MULTILINE
)

_STRANGER: Final = (
    "it cannot be told which subagent goes on with this task: start a new one, without an id"
)

# Returns what the definitions of a kind of subagent say of its tools, if there are any.
Listed = Callable[[str], Listing | None]


@dataclass(frozen=True, slots=True)
class Spawn:
    """
    What a call asks for that starts a subagent.

    ``tool`` is the call's tool; ``kind`` is empty where any kind may come of it; ``task`` is what
    the subagent is told, ``scope`` what the call itself says of it. ``many`` subagents may come
    of it, or none, and none of them is told from the others. ``resumes`` is the key of an agent
    that was there before and that goes on with this task; empty where a new one begins.
    """

    tool: str
    kind: str = ""
    task: str = ""
    scope: tuple[str, ...] = ()
    many: bool = False
    resumes: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """
    What an agent tells of a subagent outside of any call of it.

    ``begun``: ``agent``, of a ``kind``, started by ``parent`` where that is told. ``paired``: the
    call ``call`` started ``agent``. ``failed``: the call started nobody. ``ended``: it is over.
    Where an agent's id itself says which call started it, ``call`` is that call; ``task`` is what
    it was told, where its agent says so.
    """

    what: Literal["begun", "paired", "failed", "ended"]
    agent: str = ""
    kind: str = ""
    parent: str | None = None
    call: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class Commission:
    """A subagent that was let start: the call, who made it, what was added, what it is held to."""

    call: str
    asked_by: str
    spawn: Spawn
    added: tuple[str, ...]
    tickets: tuple[Ticket, ...]

    def like(self, other: Commission) -> bool:
        """Whether it is held to the same as another one, so that it does not matter which."""
        ours, theirs = (self.asked_by, self.added), (other.asked_by, other.added)
        return ours == theirs and not self.spawn.many and not other.spawn.many


class Children:
    """
    Every subagent of one run. Safe among threads.

    An agent is named by a key here: ``main`` for the one that a person started, and ``key_of`` the
    id of any other.

    >>> from broker.ticket import mint
    >>> ticket = mint([], key=bytes(32), sid="s", minted_at=0)
    >>> children = Children()
    >>> children.begin(Commission("c1", MAIN, Spawn("Agent", "explore"), (), (ticket,)))
    >>> children.held(News("begun", key_of("a1"), "explore")) == (ticket.id,)
    True
    """

    def __init__(self, listed: Listed = lambda kind: None) -> None:
        self._listed = listed
        self._waiting: list[Commission] = []
        self._bound: dict[str, Commission] = {}
        self._ended: set[str] = set()
        self._count = 0
        self._lock = threading.RLock()

    def anew(self) -> Children:
        """Return the same for a process that has not started anybody yet."""
        return Children(self._listed)

    # ── what is handed down ──

    def hand_down(
        self,
        spawn: Spawn,
        call: str,
        caller: News,
        *,
        actor: str,
        session: Session,
        held: Sequence[str] | None = None,
    ) -> Commission | Refusal | None:
        """
        Narrow what a caller holds for the subagent that its call starts.

        Args:
            spawn: what the call asks for.
            call: the call's id; empty where the agent gives none.
            caller: what is told of who calls.
            actor: the caller's name in the receipt.
            session: derives the tickets, and records them.
            held: the ids of the tickets that the caller is held to, where an agent tells in
                another way than this room knows who calls.

        Returns:
            What is handed down, or why nothing is; None where the caller may not call the tool.
        """
        with self._lock:
            self._count += 1
            number = self._count
        asked = (*spawn.scope, *asked_scope(spawn.task))
        try:
            parents = session.holds(actor, self.held(caller) if held is None else held)
            if not all(_admits(ticket, spawn.tool) for ticket in parents):
                return None
            if spawn.many:
                return Commission(call, caller.agent, spawn, (), parents)
            if spawn.resumes and not self._knows(spawn.resumes):
                return Refusal("session", "", f"{_STRANGER}; {ASK}")
            said = self._listed(spawn.kind) if spawn.kind else None
            tickets = []
            for at, parent in enumerate(parents):
                own = within(parent.bounds, said) if said is not None else None
                texts = [*(render([own]) if own is not None else ()), *asked]
                holder = f"call:{call or 'unnamed'}#{number}{f'/{at}' if at else ''}"
                child = session.delegate(texts, parent=parent.id, asked_by=actor, holder=holder)
                tickets.append(child)
        except AttenuationError as error:
            return _refusal(error.kind, error)
        except BrokerError as error:
            return _refusal("call", error)
        return Commission(call, caller.agent, spawn, (*asked, repr(said)), tuple(tickets))

    def begin(self, errand: Commission) -> None:
        """
        A subagent may start from now on, since its call is let through.

        One that goes on is held to both tickets: else a caller could have it do what the caller's
        own ticket refuses.
        """
        with self._lock:
            before = self._bound.get(errand.spawn.resumes)
            if before is not None:
                both = replace(before, tickets=_narrowest([before, errand]))
                self._bound[errand.spawn.resumes] = both
                return
            known = errand.spawn.many and any(
                e.spawn.many and e.tickets == errand.tickets for e in self._waiting
            )
            if not known:
                self._waiting.append(errand)

    # ── whose call it is ──

    def hear(self, news: News) -> None:
        """Take in what the agent tells of a subagent."""
        with self._lock:
            if news.what == "begun":
                self.held(news)
            elif news.what == "ended":
                self._ended.add(news.agent)
            elif news.what == "failed":
                self._waiting = [e for e in self._waiting if not _is_of(e, news.call)]
            else:
                self._pair(news.agent, news.call)

    def held(self, told: News) -> tuple[str, ...]:
        """
        Return the ids of the tickets that an agent's calls must all pass.

        None at all for whoever holds what was kept for it, or else the root: the main agent, and
        one of whom nothing is known and that was first seen when nobody else was at work.
        """
        if told.agent == MAIN:
            return ()
        with self._lock:
            self._ended.discard(told.agent)
            return tuple(ticket.id for ticket in self._tickets(told))

    def _knows(self, agent: str) -> bool:
        with self._lock:
            return agent in self._bound

    def living(self) -> tuple[str, ...]:
        """Return the ids of the tickets of all subagents that may be at work."""
        with self._lock:
            return tuple(ticket.id for ticket in self._living())

    def _living(self) -> tuple[Ticket, ...]:
        bound = [e for agent, e in self._bound.items() if agent not in self._ended]
        return _narrowest([*self._waiting, *bound])

    def _tickets(self, told: News) -> tuple[Ticket, ...]:
        bound = self._bound.get(told.agent)
        found = [e for e in self._waiting if _may_be(e, told)]
        # A task is told in other words than it was given where an agent fills something in.
        found = [e for e in found if told.task and e.spawn.task == told.task] or found
        if bound is not None:
            # A second call of the same id: its subagent cannot be told from the first one's.
            twice = [e for e in found if _is_of(e, told.call)]
            return _narrowest([bound, *twice])
        if not found:
            if len(self._bound) >= MAX_TICKETS:
                raise LimitError(f"a run has at most {MAX_TICKETS} subagents")
            self._bound[told.agent] = Commission("", "", Spawn(""), (told.agent,), self._living())
        elif all(found[0].like(each) for each in found):
            self._waiting.remove(found[0])
            self._bound[told.agent] = found[0]
        else:
            return _narrowest(found)
        return self._bound[told.agent].tickets

    def _pair(self, agent: str, call: str) -> None:
        """A call started this agent, and another one may have been taken for it."""
        errand = next((e for e in self._waiting if _is_of(e, call)), None)
        if errand is not None:
            self._waiting.remove(errand)
            self._bound[agent] = errand
            return
        other = next((a for a, e in self._bound.items() if _is_of(e, call)), agent)
        if other != agent:
            errand = self._bound.pop(other)
            self._bound[agent] = errand
            self._bound[other] = Commission("", "", Spawn(""), (other,), self._living())


def key_of(agent: str | None) -> str:
    """
    Return the key of an agent by the id that its payloads give; without one it is the main agent.

    >>> key_of(None), key_of("main")
    ('main', 'id:main')
    """
    return MAIN if agent is None else f"id:{agent}"


def asked_scope(task: str) -> tuple[str, ...]:
    """
    Return the caveats that a subagent's task asks to be held to, a ``scope:`` line each.

    >>> asked_scope("Look around.\\n  scope: tools=read_file\\nScope: the parser only")
    ('tools=read_file',)
    """
    return tuple(_SCOPE.findall(task))


def within(held: Bounds, said: Listing) -> Caveat | None:
    """
    Return the tools that a definition gives its subagent, as far as what is held admits them.

    A definition says what its subagent is for, wherever it is used; it asks for nothing. So what
    its caller does not hold is left out, where a ``scope:`` line would be refused. None where a
    definition only leaves tools out, and the ticket does not name those that remain.

    >>> from broker.ticket import mint
    >>> ticket = mint([tools("Read", "mcp__a__b")], key=bytes(32), sid="s", minted_at=0)
    >>> within(ticket.bounds, Listing(("Read", "Bash", "mcp__a__*"))).value
    ('Read', 'mcp__a__b')
    >>> within(ticket.bounds, Listing(without=("Read",))).value
    ('mcp__a__b',)
    """
    bounds = held.tools
    known = sorted({name for bound in bounds for name in bound.match.exact})
    names = said.names
    if names is None:
        if not bounds or not all(p in b.match.exact for b in bounds for p in b.patterns):
            return None
        names = tuple(known)
    kept: list[str] = []
    for name in names:
        if not _widens(held, name):
            kept.append(name)
        else:
            inside = tool_matcher((name,))
            kept += [each for each in known if inside.match(each, None)]
    kept = [name for name in kept if not _widens(held, name)]
    without, inside = tool_matcher(said.without), tool_matcher(names)
    conditional = [
        rule
        for bound in bounds
        for rule in rules(bound.patterns)
        if inside.match(rule.tool, None) and not _widens(held, rule)
    ]
    return tools(
        *(name for name in kept if not without.match(name, None)),
        *(rule for rule in conditional if not without.match(rule.tool, None)),
    )


def _widens(held: Bounds, item: str | Rule) -> bool:
    try:
        narrow(held, (tools(item),))
    except AttenuationError:
        return True
    return False


def _may_be(errand: Commission, told: News) -> bool:
    """Whether a subagent may have come of a call, by all that is told of it."""
    if told.parent is not None and errand.asked_by != told.parent:
        return False
    if errand.spawn.many:
        return True
    if told.call:
        return errand.call == told.call
    kinds = {errand.spawn.kind.casefold(), told.kind.casefold()} - {""}
    return len(kinds) < 2


def _is_of(errand: Commission, call: str) -> bool:
    return bool(call) and errand.call == call and not errand.spawn.many


def _narrowest(errands: Iterable[Commission]) -> tuple[Ticket, ...]:
    """Return the tickets of these errands, without those that another one descends from."""
    found = {ticket.id: ticket for errand in errands for ticket in errand.tickets}
    above = {link for ticket in found.values() for link in ticket.line[:-1]}
    return tuple(ticket for name, ticket in found.items() if name not in above)


def _admits(ticket: Ticket, tool: str) -> bool:
    return all(bound.admits_some(tool, tool, None) for bound in ticket.bounds.tools)


def _refusal(caveat: str, error: BrokerError) -> Refusal:
    why = f"the scope that this task asks for: {error}; ask for no more than you hold"
    return Refusal(caveat, "scope", f"{why}; {ASK}")
