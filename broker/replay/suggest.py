"""
The narrowest scope, readable by a person, under which a run could have been.

Decided here: what is written down of what runs did: tools that only read as the group ``@reads``,
all others by name; paths as the smallest readable list (``broker.replay.trees``); hosts as they
were; twice the calls of the longest run. What no pattern reaches leaves its key out, and that is
said. Pure: what a call touched is handed in.

Laws that tests hold: asked of the same runs, the scope refuses nothing but the calls that no scope
admits, which are named; and each item of each list is needed, since without it a call is refused.

Rule a maintainer keeps: the draft is believed only once ``authorize`` has been asked about every
call; what it refuses opens the key that refused, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from broker.authorize import ASK, authorize
from broker.calls import Call, TypedText
from broker.catalogs import Catalogs
from broker.errors import BrokerError, InputError
from broker.language.scopetext import spell
from broker.limits import MAX_CALLS
from broker.replay.conditioned import tool_rule
from broker.replay.reading import ReadCall
from broker.replay.trees import literal, readable
from broker.scope import parse_scope
from broker.ticket import Ticket, mint

KEYS: Final = ("tools", "reads", "writes", "hosts")
READS: Final = "@reads"
ROOM: Final = 2  # times the calls that were seen

_KEY: Final = bytes(32)  # the tickets here never leave this module
_NOWHERE: Final = "none"
_UNKNOWN: Final = "no conditions, since its arguments are not all known"

Runs = Sequence[tuple[str, Sequence[ReadCall]]]


@dataclass(frozen=True, slots=True)
class CallAt:
    """A call by its run and its number there."""

    run: str
    n: int
    tool: str


@dataclass(frozen=True, slots=True)
class SuggestedItem:
    """One item of a list as it is typed, why it is there, and the calls refused without it."""

    text: str
    why: str
    calls: tuple[CallAt, ...]


@dataclass(frozen=True, slots=True)
class SuggestedText:
    """One ``KEY=VALUE`` text: the items of a list (none: ``none``), or a number as ``value``."""

    key: str
    items: tuple[SuggestedItem, ...] = ()
    value: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """The text as it is typed."""
        return f"{self.key}={self.value or ','.join(i.text for i in self.items) or _NOWHERE}"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """
    A scope, with reasons.

    ``left_open`` says which keys are not limited, and why; ``beyond`` names the calls that no scope
    admits, ``unknown`` those of which not everything is known.
    """

    texts: tuple[SuggestedText, ...]
    runs: int
    calls: int
    left_open: tuple[str, ...] = ()
    beyond: tuple[tuple[CallAt, str], ...] = ()
    unknown: tuple[tuple[CallAt, str], ...] = ()

    @property
    def scope(self) -> tuple[str, ...]:
        """The ``KEY=VALUE`` texts."""
        return tuple(text.text for text in self.texts)


def suggest(
    runs: Runs, catalogs: Catalogs, lines: Mapping[str, TypedText] | None = None
) -> Suggestion:
    """
    Return the narrowest readable scope that allows every call that ran.

    Args:
        runs: each run's name and its calls; those that were refused then are left out.
        catalogs: what is known of tools.
        lines: what was typed for each run, by its name, where tools are to get conditions on
            their arguments; None for a scope without any.

    Raises:
        InputError: no call ran.
    """
    seen = [(name, read) for name, calls in runs for read in calls if read.seen.ran]
    if not seen:
        raise InputError("no call was allowed there, so there is nothing to suggest a scope from")
    draft = _Draft(seen, catalogs, lines)
    draft.settle()
    draft.condition()
    draft.prune()
    most = max(_spent(calls) for _, calls in runs)
    budget = min(ROOM * most, MAX_CALLS)
    calls = SuggestedText("calls", value=str(budget), why=f"{ROOM} times {_longest(most, runs)}")
    return Suggestion(
        (*draft.texts(), calls),
        len(runs),
        len(seen),
        tuple(draft.left_open),
        tuple((_at(name, read), why) for name, read, why in draft.beyond),
        tuple((_at(name, read), read.unknown) for name, read in seen if read.unknown),
    )


@dataclass(slots=True)
class _Draft:
    """A scope in the making; ``lists`` holds each limited key's items with their reasons."""

    seen: list[tuple[str, ReadCall]]
    catalogs: Catalogs
    lines: Mapping[str, TypedText] | None = None
    lists: dict[str, dict[str, str]] = field(default_factory=dict)
    left_open: list[str] = field(default_factory=list)
    beyond: list[tuple[str, ReadCall, str]] = field(default_factory=list)

    def settle(self) -> None:
        """Draft every list, and open what the draft refuses, until it refuses nothing."""
        inner = [call for _, read in self.seen for call in _all(read.call)]
        reads_only = self.catalogs.group("reads")
        self.lists["tools"] = _tools([read for _, read in self.seen], reads_only)
        for kind in ("reads", "writes"):
            self._paths(kind, inner)
        self._hosts(inner)
        while refused := self._refused(self.lists):
            name, read, caveat, reason = refused[0]
            kinds = [caveat] if caveat in self.lists else self.lists.keys()
            # An argument that is missing is asked for by whatever limits paths or hosts, and limits
            # on paths alone close the network to tools that are not named outright.
            opened = [kind for kind in kinds if kind in _OPENED.get(caveat, ())]
            for kind in opened:
                self._open(kind, f"{_short(reason)} (call {read.seen.n} of {name})")
            if not opened:
                self.seen = [each for each in self.seen if each[1] is not read]
                self.beyond.append((name, read, _short(reason)))

    def condition(self) -> None:
        """Put conditions on the tools that are named one by one, where that is wanted."""
        if self.lines is None:
            return
        for name in [name for name in self.lists["tools"] if name != READS]:
            calls = [read for _, read in self.seen if spell("tools", read.name) == name]
            if not calls or any(read.call.nested for read in calls):
                continue
            entry = self.catalogs.lookup(calls[0].seen.tool, calls[0].seen.server)
            # Only where its digest is the one that was decided is an argument believed.
            given = [read.seen.arguments if read.seen.digest else None for read in calls]
            rule = tool_rule(name, entry, given, partial(self._holds, name))
            why = self.lists["tools"][name]
            if rule is not None:
                renamed, why = rule.text, f"{why}; {rule.why}"
            elif None in given:
                renamed, why = name, f"{why}; {_UNKNOWN}"
            else:
                continue
            tools = self.lists["tools"].items()
            self.lists["tools"] = {
                (renamed if each == name else each): (why if each == name else said)
                for each, said in tools
            }

    def _holds(self, name: str, text: str) -> bool:
        """Whether a text in the place of a tool is one of the language, and refuses no call."""
        tools = [text if each == name else each for each in self.lists["tools"]]
        try:
            return not self._refused({**self.lists, "tools": tools})
        except BrokerError:
            return False

    def prune(self) -> None:
        """Leave out what nothing needs: a broader item may do for a narrower one."""
        for kind in KEYS:
            for item in list(self.lists.get(kind, ())):
                if not self._refused(self._without(kind, item)):
                    del self.lists[kind][item]

    def texts(self) -> Iterable[SuggestedText]:
        """Yield the texts, with what each item would cost if it were dropped."""
        for kind in KEYS:
            if kind not in self.lists:
                continue
            items = [
                SuggestedItem(
                    item,
                    why,
                    tuple(_at(name, read) for name, read, *_ in self._refused(without)),
                )
                for item, why in self.lists[kind].items()
                for without in [self._without(kind, item)]
            ]
            yield SuggestedText(kind, tuple(items), why="" if items else _NOTHING[kind])

    def _paths(self, kind: str, calls: Iterable[Call]) -> None:
        access = kind.removesuffix("s")
        touched: dict[str, bool] = {}
        git: dict[str, str] = {}
        for call in calls:
            for path in call.paths:
                for place in path.places if path.access == access else ():
                    if path.inner_git:
                        git[literal(place)] = "a write inside .git, which only its name opens"
                    else:
                        touched[place] = touched.get(place, False) or path.below
        found = {p.text: p.why for p in readable(touched, root=kind == "reads")}
        self.lists[kind] = {spell(kind, item): why for item, why in (found | git).items()}

    def _hosts(self, calls: Iterable[Call]) -> None:
        hosts = {url.keys[0]: url.host for call in calls for url in call.urls if url.keys}
        self.lists["hosts"] = {
            spell("hosts", key): f"`{host}` was reached" for key, host in sorted(hosts.items())
        }

    def _open(self, kind: str, why: str) -> None:
        del self.lists[kind]
        self.left_open.append(f"{kind} are not limited: {why}")

    def _without(self, kind: str, item: str) -> Mapping[str, Iterable[str]]:
        return {**self.lists, kind: [each for each in self.lists[kind] if each != item]}

    def _refused(self, lists: Mapping[str, Iterable[str]]) -> list[tuple[str, ReadCall, str, str]]:
        """Return the calls that the lists refuse, with caveat and reason."""
        texts = [f"{kind}={','.join(items) or _NOWHERE}" for kind, items in lists.items()]
        scope = parse_scope(texts, at=0, groups=self.catalogs.groups(), lookup=self.catalogs.known)
        tickets: dict[str, Ticket] = {}  # by the line that a run was given, which a ticket is for
        found: list[tuple[str, ReadCall, str, str]] = []
        for name, read in self.seen:
            line = (self.lines or {}).get(name)
            bound = "" if line is None else line.digest
            if bound not in tickets:
                tickets[bound] = mint(
                    scope.caveats, key=_KEY, sid="suggested", minted_at=0, intent=bound
                )
            refusal = authorize(tickets[bound], read.call, 0, line=line).refusal
            if refusal is not None:
                found.append((name, read, refusal.caveat, refusal.reason))
        return found


_OPENED: Final[Mapping[str, tuple[str, ...]]] = {
    "reads": ("reads",),
    "writes": ("writes",),
    "paths": ("reads", "writes", "hosts"),
    "hosts": ("reads", "writes", "hosts"),
}
_NOTHING: Final = {
    "tools": "no tool was used",
    "reads": "no path was read",
    "writes": "no path was written",
    "hosts": "no address was reached",
}


def _tools(reads: Iterable[ReadCall], group: frozenset[str]) -> dict[str, str]:
    """Return the tools that were used: those that only read as one group."""
    counts: dict[str, int] = {}
    for read in reads:
        counts[read.name] = counts.get(read.name, 0) + 1
        for inner in read.call.nested:
            for call in _all(inner):
                counts[call.tool] = counts.get(call.tool, 0) + 1
    found: dict[str, str] = {}
    grouped = sorted(name for name in counts if name in group)
    if grouped:
        found[READS] = f"only read: {', '.join(grouped)}"
    for name in sorted(counts.keys() - set(grouped)):
        found[spell("tools", name)] = f"called {counts[name]} time{'s'[: counts[name] > 1]}"
    return found


def _all(call: Call) -> Iterable[Call]:
    """Yield a call and every call inside it."""
    yield call
    for inner in call.nested:
        yield from _all(inner)


def _at(name: str, read: ReadCall) -> CallAt:
    return CallAt(name, read.seen.n, read.name)


def _short(reason: str) -> str:
    return reason.removesuffix(f"; {ASK}")


def _spent(calls: Iterable[ReadCall]) -> int:
    """Return what the calls that ran debit."""
    return sum(max(read.call.cost(), read.seen.cost) for read in calls if read.seen.ran)


def _longest(most: int, runs: Runs) -> str:
    calls = f"{most} call{'s'[: most > 1]}"
    return f"the {calls} that were seen" if len(runs) == 1 else f"the {calls} of the longest run"
