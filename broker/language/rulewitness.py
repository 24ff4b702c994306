"""
A call that one rule admits and others do not, as an example for a person.

Decided here: how the misses that ``broker.language.rulecover`` finds become arguments, addresses,
paths and a typed line. Not decided here: whether there is such a call, and whether the example is
right; whoever takes one asks ``authorize`` about it.

The world may be anything, as for inclusion: where a path or an address in the arguments leads is
made up, and so is the line.

Rule a maintainer keeps: an example is a guess that has to be tried. A wrong one must never be
shown, so nothing here may be believed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Final

from broker.calls import Call, Label, PathSubject, UrlSubject
from broker.conditions import (
    HostIn,
    InIntent,
    Links,
    LinksTyped,
    On,
    Range,
    Test,
    Under,
    Values,
    admits_value,
)
from broker.language.conjunction import satisfiable
from broker.language.inline import stands_in
from broker.language.links import links_in
from broker.language.rulecover import (
    Anything,
    Chosen,
    Fields,
    Leaf,
    Several,
    Shape,
    StepsLeft,
    cases_of,
    missed,
)
from broker.rules import Node, Rule, node_of

_TEXT: Final = "text"  # a role that `... in intent` leaves alone
_LAST_DAY: Final = date.max.toordinal()

Place = Callable[[Sequence[Under], Sequence[Under]], PathSubject | None]
Address = Callable[[Sequence[HostIn], Sequence[HostIn]], UrlSubject | None]


@dataclass(frozen=True, slots=True)
class Loose:
    """The label of an argument that names nobody and nothing."""

    role: str = _TEXT
    fields: Mapping[str, Label] | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """What stands at one place in the rules that are to be missed, and what was chosen to fail."""

    others: tuple[Node, ...]
    chosen: Chosen
    way: tuple[str, ...] = ()

    def into(self, name: str) -> Missing:
        """Return the same for a field below."""
        below = [other.fields.get(name) for other in self.others]
        nodes = tuple([Node(True) if node is None else node for node in below])
        return Missing(nodes, self.chosen, (*self.way, name))


@dataclass(slots=True)
class Scene:
    """
    What an example stands on; it grows while the example is made.

    Args:
        place: gives a path that all of some tests admit and none of others.
        address: gives an address that all of some tests admit and none of others.
    """

    place: Place
    address: Address
    paths: list[PathSubject] = field(default_factory=list)
    urls: list[UrlSubject] = field(default_factory=list)
    line: list[str] = field(default_factory=list)
    labels: dict[str, Label] = field(default_factory=dict)
    made: int = 0

    def fresh(self) -> str:
        """Return a text that no rule names."""
        self.made += 1
        return f"something-else-{self.made}"

    def free(self) -> str:
        """Return such a text that names an address too, which no rule does."""
        return f"{self.fresh()} elsewhere-{self.made}.example"


def escapes(
    one: Rule, held: Sequence[Rule], tool: str, server: str | None, world: Callable[[], Scene]
) -> Iterator[tuple[Call, str]]:
    """
    Yield calls of a tool that ``one`` should admit and none of ``held``, each with the typed line.

    Args:
        one: a rule that the tool's name fits.
        held: the rules that are to be missed.
        tool: the tool's name.
        server: the MCP server that it is of, if it is of one.
        world: gives an empty world for each example.

    Raises:
        LimitError: it cannot be decided within ``MAX_RULE_STEPS`` steps.

    >>> from broker.conditions import between, values
    >>> from broker.rules import argument, rule
    >>> a = rule("pay", argument("to", values("A", "B")))
    >>> b = rule("pay", argument("to", values("A")))
    >>> nowhere = lambda: Scene(lambda _h, _f: None, lambda _h, _f: None)
    >>> [dict(call.arguments) for call, _ in escapes(a, [b], "pay", None, nowhere)]
    [{'to': 'B'}]
    """
    budget, root = StepsLeft(), node_of(one)
    for case in cases_of(root) if root.fields else [Fields(())]:
        if not isinstance(case, Fields):
            continue
        chosen = missed(one, case, held, budget)
        if chosen is None:
            continue
        here = world()
        miss = Missing(tuple(map(node_of, held)), chosen)
        arguments = _object(case, miss, "", here)
        if arguments is None:
            continue
        if one.rest:
            _open_end(case, held, arguments, here)
        yield (
            Call(
                tool,
                server,
                paths=tuple(here.paths),
                urls=tuple(here.urls),
                arguments=arguments,
                labels=here.labels,
            ),
            " , ".join(here.line),
        )


def _open_end(
    case: Fields, held: Sequence[Rule], arguments: dict[str, object], world: Scene
) -> None:
    """Add what `... in intent` lets a rule say nothing of, and others do not admit."""
    named = {name for name, _ in case.of}
    extra = {"more"} if any(not other.rest for other in held) else set()
    for other in held:
        extra |= {n for n, child in node_of(other).fields.items() if not child.free}
    for name in sorted(extra - named):
        arguments[name] = world.free()
        world.labels[name] = Loose()


def _object(case: Fields, miss: Missing, label: str, world: Scene) -> dict[str, object] | None:
    found: dict[str, object] = {}
    for name, shape in case.of:
        value = _value(shape, miss.into(name), f"{label}{name}", world)
        if value is not None:
            found[name] = value
        elif isinstance(shape, Several | Fields) or (
            isinstance(shape, Leaf) and not shape.optional
        ):
            return None
    return found


def _value(shape: Shape, miss: Missing, label: str, world: Scene) -> object:
    match shape:
        case Leaf():
            failed = miss.chosen.get(miss.way, ())
            return None if failed is None else _passing(shape.tests, failed, label, world)
        case Anything():
            return None if all(other.free for other in miss.others) else world.free()
        case Fields():
            return _object(shape, miss, f"{label}.", world)
        case Several():
            return _several(shape.each, miss.others, label, world)
    return None


def _several(each: Node, others: Sequence[Node], label: str, world: Scene) -> list[object] | None:
    """Return a list with one element for each of the others that some element can miss."""
    found: list[object] = []
    for other in others:
        if other.each is not None:
            value = _unlike(each, other.each, f"{label}[{len(found)}]", world)
        elif not other.absent:
            continue
        else:  # what `... in intent` says of a list that is not named: one word is not in the line
            value = _unlike(each, _in_line(), f"{label}[{len(found)}]", world)
        if value is not None:
            found.append(value)
    if not found:
        value = _any(each, f"{label}[0]", world)
        return None if value is None else [value]
    return found


def _in_line() -> Node:
    node = Node(False)
    node.tests = [InIntent()]
    return node


def _any(node: Node, label: str, world: Scene) -> object:
    """Return something that may stand at a node; None: nothing can, or need."""
    if node.free:
        return world.fresh()
    if node.tests:
        return _passing(tuple(node.tests), (), label, world)
    if node.each is not None:
        inner = _any(node.each, f"{label}[0]", world)
        return None if inner is None else [inner]
    found = {name: _any(child, f"{label}.{name}", world) for name, child in node.fields.items()}
    return {name: value for name, value in found.items() if value is not None} or None


def _unlike(narrow: Node, wide: Node, label: str, world: Scene) -> object:
    """Return something that may stand at one node and not at the other; None: nothing."""
    if wide.free:
        return None
    if narrow.free:
        return world.free()
    if narrow.tests:
        for test in wide.tests:
            if satisfiable(narrow.tests, (test,)):
                return _passing(tuple(narrow.tests), (test,), label, world)
        return None if wide.tests else _any(narrow, label, world)
    if narrow.each is not None:
        if wide.each is None:
            return _any(narrow, label, world)
        inner = _unlike(narrow.each, wide.each, f"{label}[0]", world)
        return None if inner is None else [inner]
    return _unlike_object(narrow, wide, label, world)


def _unlike_object(narrow: Node, wide: Node, label: str, world: Scene) -> object:
    whole = _any(narrow, label, world)
    if not isinstance(whole, dict) or not wide.fields:
        return whole
    for name in dict.fromkeys((*narrow.fields, *wide.fields)):
        mine, theirs = narrow.fields.get(name), wide.fields.get(name, Node(True))
        if mine is None or mine.absent:
            if not theirs.optional:
                return whole
            continue
        if mine.optional and not theirs.optional:
            return {key: value for key, value in whole.items() if key != name} or None
        value = _unlike(mine, theirs, f"{label}.{name}", world)
        if value is not None:
            return {**whole, name: value}
    return None


# ── one value ──


def _passing(held: Sequence[Test], failed: Sequence[Test], label: str, world: Scene) -> object:
    """Return a value that passes some tests and fails others, in a world that is made so."""
    wanted = [t for t in held if isinstance(t, HostIn)]
    folders = [t for t in held if isinstance(t, Under)]
    text = bool(wanted or folders or any(isinstance(t, On | Links | LinksTyped) for t in held))
    line = any(isinstance(t, InIntent) for t in held)
    typed = any(isinstance(t, LinksTyped) for t in held)
    untyped = any(isinstance(t, LinksTyped) for t in failed)
    named = _named(held, failed, world)
    if named is None:
        return None
    url = world.address(wanted, [t for t in failed if isinstance(t, HostIn)]) if wanted else None
    place = world.place(folders, [t for t in failed if isinstance(t, Under)]) if folders else None
    if (wanted and url is None) or (folders and place is None):
        return None
    fresh = url.spelled if url is not None else place.spelled if place is not None else ""
    texts = [" ".join((t, *named)) for t in (fresh or world.fresh(), world.fresh())]
    for value in _candidates(held, failed, texts):
        if text and type(value) is not str:
            continue
        links = links_in(value) if isinstance(value, str) else ()
        if untyped and not links:
            continue
        spelled = value if isinstance(value, str) else _spelled(value)
        if line and not stands_in(spelled, value):
            continue
        if not all(_plainly(t, value) is not False for t in held):
            continue
        if any(_plainly(t, value) for t in failed):
            continue
        if url is not None:
            port, keys = url.port, url.keys
            world.urls.append(UrlSubject(label, spelled, url.scheme, url.host, port, keys))
        if place is not None:
            world.paths.append(place._replace(argument=label, spelled=spelled))
        if line:
            world.line.append(spelled)
        if typed:
            world.line.extend(links)
        return value
    return None


def _named(held: Sequence[Test], failed: Sequence[Test], world: Scene) -> list[str] | None:
    """Return what a text must name so that it fails tests of links; None: nothing does."""
    limits = [set(test.texts) for test in held if isinstance(test, Links)]
    most = set.intersection(*limits) if limits else None
    found: list[str] = []
    for test in failed:
        if not isinstance(test, Links | LinksTyped):
            continue
        if most is None:
            found.append(f"{world.fresh()}.test")
            continue
        left = sorted(most.difference(test.texts if isinstance(test, Links) else ()))
        if not left:
            return None
        found.append(left[0])
    return list(dict.fromkeys(found))


def _plainly(test: Test, value: object) -> bool | None:
    """Return whether a test admits a value; None where that is for the world to say."""
    if isinstance(test, Links):
        return isinstance(value, str) and set(test.texts).issuperset(links_in(value))
    return admits_value(test, value) if isinstance(test, Values | Range | On) else None


def _spelled(value: object) -> str:
    from broker.language.ruletext import spell_value  # noqa: PLC0415 - it writes the numbers

    return spell_value(value)


def _candidates(
    held: Sequence[Test], failed: Sequence[Test], fresh: Sequence[str]
) -> Iterator[object]:
    """Yield values around everything that the tests tell apart."""
    for test in held:
        if isinstance(test, Values):
            yield from (*test.texts, *test.numbers, *test.flags)
            return
    if any(isinstance(test, Range) for test in held):
        yield from _numbers((*held, *failed))
        return
    if any(isinstance(test, On) for test in held):
        yield from _days((*held, *failed))
        return
    yield from fresh  # a path or an address may be spelled in any way, and lead there


def _numbers(tests: Sequence[Test]) -> Iterator[float]:
    cuts = {n for t in tests if isinstance(t, Values) for n in t.numbers}
    for test in tests:
        if isinstance(test, Range):
            cuts.update((test.low, *([] if test.high is None else [test.high])))
    points = sorted(cuts)
    yield from points
    yield from (point + 1 for point in points)
    yield from (low + (high - low) / 2 for low, high in pairwise(points))


def _days(tests: Sequence[Test]) -> Iterator[str]:
    for test in tests:
        if isinstance(test, On):
            for first, last in test.spans:
                for day in (first, last, first - 1, last + 1):
                    if 1 <= day <= _LAST_DAY:
                        yield date.fromordinal(day).isoformat()
    # A day has more spellings than a set could name.
    for test in tests:
        if isinstance(test, On):
            for first, last in test.spans:
                for day in (first, last):
                    yield date.fromordinal(day).isoformat() + "T00:00:00Z"
