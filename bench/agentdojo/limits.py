"""
What a ticket is to limit, before it is scope text: for each level, from a task or from its line.

Two columns. **Told** are limits that a person who knows the task well would type: they are read off
the calls that do the task, so they say what a scope can hold at best. **Typed** are limits that
follow from the line alone: the catalog says which arguments name somebody or something, and those
must stand in the line. Nothing of the task's calls may be looked at there, which is why
``from_line`` is not given them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.agentdojo.tasks import Asked, Task
from broker.catalogs import Argument, Catalogs, ToolEntry

Kind = Literal["any", "among", "most", "days", "line", "links", "line links", "absent"]

NAMING = frozenset(("recipient", "identifier", "address", "url"))
FAMILIES = {
    **dict.fromkeys(NAMING, "names"),
    "amount": "amounts",
    "date": "dates",
    "permission": "permissions",
    "text": "links",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What one argument may be. ``most`` and ``among`` say so by their values."""

    kind: Kind
    values: tuple[object, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """
    What the arguments of one tool may be; the others are left out, but for free text.

    ``rest``: the others may also be what stands in the line, or what names nobody.
    """

    tool: str
    arguments: Mapping[str, Limit]
    rest: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """
    What one task may do: tools without limits, tools with some, and how many calls.

    ``reads``: every tool that only reads, beside them. ``everything``: no list at all.
    """

    names: tuple[str, ...] = ()
    tools: tuple[ToolLimits, ...] = ()
    reads: bool = False
    calls: int | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """One row of the table: its name, how its limits are got, and whether from the line alone."""

    key: str
    how: str
    told: bool
    make: Callable[[Task, Mapping[str, frozenset[str]], Catalogs], Limits]


# ── told: from the calls that do the task ──


@dataclass(frozen=True, slots=True)
class Told:
    """How much of a task's calls its limits say."""

    families: frozenset[str] = frozenset()  # of what writing tools receive
    reading: bool = False  # and the names that reading tools receive
    reads: bool = False
    apart: bool = False  # each call is an alternative of its own
    calls: bool = False

    def __call__(self, task: Task, needed: Mapping[str, frozenset[str]], known: Catalogs) -> Limits:
        """Return the limits of a task."""
        names: list[str] = []
        limited: list[ToolLimits] = []
        for tool in dict.fromkeys(call.tool for call in task.calls):
            entry = known.known(tool)
            if entry is None:
                raise LookupError(f"no catalog describes {tool}")
            calls = [call for call in task.calls if call.tool == tool]
            for group in [[call] for call in calls] if self.apart else [calls]:
                found = self._tool(entry, group, needed.get(tool, frozenset()), task.line)
                if found is None:
                    names.append(tool)
                elif found not in limited:
                    limited.append(found)
        total = len(task.calls) if self.calls else None
        return Limits(tuple(dict.fromkeys(names)), tuple(limited), self.reads, total)

    def _tool(
        self, entry: ToolEntry, calls: Sequence[Asked], needed: frozenset[str], line: str
    ) -> ToolLimits | None:
        writes = entry.effect not in ("read", "none")
        families = self.families if writes else self.families & {"names"} if self.reading else ()
        if not families:
            return None
        given: dict[str, list[object]] = {}
        for call in calls:
            for way, value in flat(call.arguments, entry):
                given.setdefault(way, []).append(value)
        limits = {
            way: _limit(role_at(entry, way), values, families, way not in needed, line)
            for way, values in given.items()
        }
        limits = {way: limit for way, limit in limits.items() if limit is not None}
        if "links" in families:
            for way, argument in entry.arguments.items():
                if argument.role == "text" and argument.fields is None and way not in limits:
                    limits[way] = Limit("links", (), True)
        if not limits:
            unused = [n for n, a in entry.arguments.items() if a.role != "text"]
            limits = {name: Limit("absent", (), True) for name in unused}
        return ToolLimits(entry.name, limits) if limits else None


def _limit(
    role: str, values: Sequence[object], families: object, optional: bool, line: str
) -> Limit | None:
    family = FAMILIES[role]
    if family not in families:  # type: ignore[operator]  # a set, or nothing
        return None if family == "links" else Limit("any", (), True)
    if family == "links":
        from bench.agentdojo.naive import links

        said = {link for text in (*map(str, values), line) for link in links(text)}
        return Limit("links", tuple(sorted(said)), optional)
    once = tuple(dict.fromkeys(values))
    if family == "amounts":
        return Limit("most", (max(once),), optional)  # type: ignore[type-var]  # numbers
    if family == "dates":
        return Limit("days", tuple(dict.fromkeys(str(v)[:10] for v in once)), optional)
    return Limit("among", once, optional)


# ── typed: from the line alone ──


@dataclass(frozen=True, slots=True)
class Typed:
    """What must stand in the line: names always, and more where it is asked for."""

    amounts: bool = False
    links: bool = False
    reads: bool = True
    listed: bool = False  # a rule for each tool, instead of one for all

    def __call__(self, task: Task, needed: Mapping[str, frozenset[str]], known: Catalogs) -> Limits:
        """Return the limits; of the task only the suite is looked at, and which tools it has."""
        del task
        if not self.listed:
            return Limits(everything=True, reads=self.reads)
        rules = []
        for tool in needed:
            entry = known.known(tool)
            if entry is None or (self.reads and entry.effect in ("read", "none")):
                continue
            asked: dict[str, Limit] = {}
            for name, argument in entry.arguments.items():
                if self.amounts and argument.role == "amount" and argument.fields is None:
                    asked[name] = Limit("line", (), True)
                if self.links and argument.role == "text" and argument.fields is None:
                    asked[name] = Limit("line links", (), True)
            rules.append(ToolLimits(tool, asked, rest=True))
        return Limits((), tuple(rules), self.reads)


@dataclass(frozen=True, slots=True)
class ToldTools:
    """Every reading tool, and of the others those of the task, on what stands in the line."""

    def __call__(self, task: Task, needed: Mapping[str, frozenset[str]], known: Catalogs) -> Limits:
        """Return the limits: the tools are told, and nothing else of the task's calls."""
        used = {call.tool: needed[call.tool] for call in task.calls if call.tool in needed}
        return Typed(links=True, listed=True)(task, used, known)


@dataclass(frozen=True, slots=True)
class ReadsAlone:
    """Reading tools and nothing else."""

    def __call__(self, task: Task, needed: Mapping[str, frozenset[str]], known: Catalogs) -> Limits:
        """Return the same limits for every task."""
        del task, needed, known
        return Limits(reads=True)


# ── arguments by their way ──


def flat(arguments: Mapping[str, object], entry: ToolEntry) -> Iterator[tuple[str, object]]:
    """
    Yield each single value with its way; a way into an object has a dot.

    An argument that the tool does not have is left out: some of AgentDyn's calls hold such, and no
    scope could name it.
    """
    for name, value in arguments.items():
        if name in entry.arguments:
            yield from _flat(name, value, entry.arguments[name])


def _flat(way: str, value: object, argument: Argument) -> Iterator[tuple[str, object]]:
    if value is None or value in ("", [], {}):
        return
    if isinstance(value, list):
        for item in value:
            yield from _flat(way, item, argument)
    elif isinstance(value, dict):
        fields = argument.fields or {}
        for name, inner in value.items():
            if name in fields:
                yield from _flat(f"{way}.{name}", inner, fields[name])
    else:
        yield way, value


def role_at(entry: ToolEntry, way: str) -> str:
    """Return the role of an argument by its way."""
    first, *more = way.split(".")
    argument = entry.arguments[first]
    for name in more:
        argument = (argument.fields or {})[name]
    return argument.role


_NAMES = frozenset(("names",))
_ALL = frozenset(("names", "amounts", "dates", "permissions"))
_LINKS = _ALL | {"links"}

LEVELS = (
    Level("tools", "the tools of the task, by name", True, Told()),
    Level("tools, calls", "and as many calls as it makes", True, Told(calls=True)),
    Level("names", "and who and what its writing tools may name", True, Told(_NAMES)),
    Level("values", "and amounts, days, modes, and what may be read", True, Told(_ALL, True)),
    Level("links", "and which addresses may stand in texts", True, Told(_LINKS, True)),
    Level("apart", "and each call as an alternative", True, Told(_LINKS, True, apart=True)),
    Level("@reads", "as `tools`, and every reading tool", True, Told(reads=True)),
    Level("@reads, names", "as `names`, and every reading tool", True, Told(_NAMES, reads=True)),
    Level("@reads, links", "as `links`, and every reading tool", True, Told(_LINKS, reads=True)),
    Level("@reads, in intent", "named tools, on what stands in the line", True, ToldTools()),
    Level("reads alone", "every reading tool, and nothing else", False, ReadsAlone()),
    Level("in intent", "what its writing tools name stands in the line", False, Typed()),
    Level("in intent, amounts", "and amounts in intent", False, Typed(amounts=True, listed=True)),
    Level(
        "in intent, links",
        "and what addresses stand in texts",
        False,
        Typed(links=True, listed=True),
    ),
    Level(
        "in intent, all",
        "amounts and addresses in texts",
        False,
        Typed(amounts=True, links=True, listed=True),
    ),
    Level(
        "in intent, reads",
        "as `in intent`, and what its reading tools name",
        False,
        Typed(reads=False, listed=True),
    ),
)
