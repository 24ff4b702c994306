"""
What a session's receipt says about its past, for a session that goes on.

Decided here: which tickets exist, which of them is the root, who holds them, and how many calls
each link has spent, from verified entries alone. Not decided here: whether the entries are
authentic (``broker.receipt``).

Rules a maintainer keeps: an allowed decision counts even if its answer never reached the agent;
an entry that makes no sense is a break, never skipped, since skipping could give calls back; a
root takes the place of another only behind the typed line that it is bound to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.budget import rebuilt
from broker.errors import Break, InputError
from broker.sessions.conceal import concealed_names
from broker.sessions.custody import FIRST
from broker.sessions.records import recorded_ticket
from broker.ticket import Ticket


class Past:
    """
    Takes the entries of one receipt in order.

    Args:
        key: the session's ticket key.
        key_of: gives that of another session, whose ticket this one may have been handed.
    """

    def __init__(self, key: bytes, key_of: Callable[[str], bytes] | None = None) -> None:
        self.key, self._key_of = key, key_of
        self._root: Ticket | None = None
        self._debits: list[tuple[tuple[str, ...], int]] = []
        self.workspace = ""
        self.agent = ""
        self.needs_enforcement = False
        self.shared = False  # its calls are counted with those of others
        self.debit = 0  # the last one that is recorded, where they are
        self.conceal: tuple[str, ...] = ()
        self.opinions: dict[str, str] = {}  # who else had to allow, and where they were asked
        self.intents: dict[str, Mapping[str, object]] = {}  # of each root
        self.replaced: list[Ticket] = []
        self._lines: dict[str, tuple[str, ...]] = {}  # of tickets for one call beside another
        self._line: Mapping[str, object] | None = None  # the last typed line
        self._before = ""  # the kind of the entry before
        self.at = 0
        self.tickets: dict[str, Ticket] = {}
        self.holders: dict[str, str] = {}

    def take(self, kind: str, data: Mapping[str, object], at: int) -> None:
        """
        Take one verified entry.

        Raises:
            Break: an entry that this session did not write so.
        """
        self.at = max(self.at, at)
        if kind == "open":
            self.workspace = _text(data, "workspace")
            self.agent = _text(data, "agent")
            self.needs_enforcement = data.get("needs_enforcement") is not False
            self.conceal = _conceal(data)
            self.shared = data.get("counts") == "shared"
            self._joins(data)
            self.opinions = _opinions(data)
        elif kind == "intent":
            self._line = data
        elif kind == "ticket":
            self._mint(recorded_ticket(data, self.key), data)
        elif kind == "delegate" and data.get("decision") == "allow":
            ticket = recorded_ticket(data, self.key)
            self.tickets[ticket.id] = ticket
            holder = data.get("holder")
            if isinstance(holder, str):
                self.holders[holder] = ticket.id
        elif kind == "decision" and data.get("decision") == "allow":
            self._spend(data)
        self._before = kind

    def root(self) -> Ticket:
        """
        Return the root ticket.

        Raises:
            Break: the receipt holds none.
        """
        if self._root is None:
            raise Break("schema", "the receipt ends before its ticket was recorded")
        return self._root

    def counts(self) -> dict[str, int]:
        """Return how many calls each link has spent."""
        return rebuilt(self._debits)

    def _joins(self, data: Mapping[str, object]) -> None:
        """Take the key that the session's tickets were made with, where another session has it."""
        sid = data.get("joins")
        if sid is None:
            return
        if not isinstance(sid, str) or self._key_of is None or not self.shared:
            raise Break("schema", "the session joins one that cannot be told")
        self.key = self._key_of(sid)

    def _mint(self, ticket: Ticket, data: Mapping[str, object]) -> None:
        if self._root is not None:
            bound = self._line is not None and self._line.get("digest") == ticket.intent
            beside, old = data.get("beside"), data.get("replaces")
            held = self.tickets.get(beside) if isinstance(beside, str) else None
            if self._before != "intent" or not bound or (held is None and old != self._root.id):
                raise Break("schema", "a ticket is minted without a line that was typed for it")
            if held is not None:
                self._lines[ticket.id] = (*held.line, ticket.id)
                return
            self.replaced.append(self._root)
            self.holders.pop(FIRST, None)
        self._root = self.tickets[ticket.id] = ticket
        if self._line is not None:
            self.intents[ticket.id] = self._line

    def _spend(self, data: Mapping[str, object]) -> None:
        also = data.get("also", [])
        names = [_text(data, "ticket"), *(also if isinstance(also, list) else [None])]
        found = [self._line_of(name) for name in names if isinstance(name, str)]
        cost = data.get("cost", 1)
        if len(found) < len(names) or None in found or type(cost) is not int or cost < 1:
            raise Break("schema", "a decision allows a call under a ticket that is not recorded")
        # A link that several of the tickets have was debited once.
        line = dict.fromkeys(link for each in found if each for link in each)
        self._debits.append((tuple(line), cost))
        debit = data.get("debit", 0)
        if type(debit) is not int or (self.shared and debit <= self.debit):
            raise Break("schema", "a decision allows a call that shared counts do not know")
        self.debit = debit

    def _line_of(self, name: str) -> tuple[str, ...] | None:
        """Return the links that a call under a ticket is debited to."""
        ticket = self.tickets.get(name)
        return self._lines.get(name) if ticket is None else ticket.line


def _text(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise Break("schema", f"an entry of the session has no `{name}`")
    return value


def _opinions(data: Mapping[str, object]) -> dict[str, str]:
    found = data.get("opinions", [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Break("schema", "`opinions` of the first entry is no list of objects")
    return {_text(each, "name"): _text(each, "of") for each in found}


def _conceal(data: Mapping[str, object]) -> tuple[str, ...]:
    names = data.get("conceal", [])
    try:
        return concealed_names(names if isinstance(names, list) else [""])
    except (InputError, AttributeError):
        raise Break("schema", "the session conceals fields that are not known") from None
