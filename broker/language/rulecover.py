"""
When rules cover a rule: is every call that it admits admitted by one of them?

Decided here: inclusion, over every call, file system, catalog and typed line. A rule is covered
when no call fits it and misses each of the others somewhere; such a call is looked for, one miss
for each of them, and what may be missed together at one argument is asked of
``broker.language.conjunction``. Two misses at different arguments never disturb one another, nor
do two at elements of one list. Names are weighed the same way: for each set of the patterns that
some tool's name may fit alone, the rules under those patterns have to do.

The search is exact, but for what ``conjunction`` says of itself and for a text that stands at two
arguments of one call; its steps grow with the product of the misses that there are to choose
from, and at ``MAX_RULE_STEPS`` it stops with an error, which refuses.

Rules a maintainer keeps: *covered* is only said when no miss is left; where it is not known which
arguments a catalog calls loose, any of them may be, and none need be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import Final, Literal

from broker.conditions import HostIn, InIntent, Links, On, Test, Values
from broker.errors import LimitError
from broker.language.conjunction import satisfiable
from broker.language.toolnames import tools_cover
from broker.limits import MAX_RULE_NAMES, MAX_RULE_STEPS
from broker.rules import Node, Rule, node_of

_STEP: Final = 64  # values that are gone through in the time of one step
_MAX_CASES: Final = 256  # ways to leave out lists and objects that are weighed one by one


@lru_cache(maxsize=1_024)
def rules_cover(wide: tuple[str | Rule, ...], narrow: tuple[Rule, ...]) -> str | None:
    """
    Return the first rule of ``narrow`` that admits a call which ``wide`` does not, or None.

    >>> from broker.conditions import between, values
    >>> from broker.rules import argument, rule
    >>> def pay(to, most):
    ...     return rule("pay", argument("to", values(*to)), argument("sum", between(0, most)))
    >>> rules_cover((pay("A", 10), pay("B", 50)), (pay("AB", 10),))
    >>> rules_cover((pay("A", 10), pay("B", 50)), (pay("AB", 20),))
    'pay(to in {"A", "B"}, sum<=20)'

    Raises:
        LimitError: it cannot be decided within ``MAX_RULE_STEPS`` steps.
    """
    plain = tuple([item for item in wide if isinstance(item, str)])
    held = [item for item in wide if not isinstance(item, str)]
    budget = StepsLeft()
    for one in narrow:
        if one not in held and not _by_name(one, plain, held, budget):
            return str(one)
    return None


class StepsLeft:
    """Counts the steps of one decision."""

    def __init__(self) -> None:
        self._left = MAX_RULE_STEPS

    def spend(self, steps: int = 1) -> None:
        """
        Take ``steps`` off.

        Raises:
            LimitError: there are not so many left.
        """
        self._left -= steps
        if self._left < 0:
            raise LimitError(
                f"whether it is within the rules there takes more than {MAX_RULE_STEPS} steps: "
                "write fewer alternatives, or fewer conditions in each"
            )


def _size(tests: Sequence[Test]) -> int:
    """Return how many values, days and hosts some tests name."""
    found = 0
    for test in tests:
        match test:
            case Values():
                found += len(test.texts) + len(test.numbers) + len(test.flags)
            case On():
                found += len(test.spans)
            case HostIn():
                found += len(test.patterns)
            case Links():
                found += 1 + len(test.texts)
            case _:
                found += 1
    return found


@lru_cache(maxsize=1_024)
def _size_of(rule: Rule) -> int:
    return _size([condition.test for condition in rule.conditions])


# ── names ──


def _by_name(one: Rule, plain: tuple[str, ...], held: Sequence[Rule], budget: StepsLeft) -> bool:
    if tools_cover(plain, (one.tool,)) is None:
        return True
    if "*" not in one.tool:
        return _covered(
            one, [r for r in held if tools_cover((r.tool,), (one.tool,)) is None], budget
        )
    names = list(dict.fromkeys(rule.tool for rule in held))
    if len(names) > MAX_RULE_NAMES:
        raise LimitError(
            f"`{one.tool}` with conditions is weighed against at most {MAX_RULE_NAMES} names"
        )
    for size in range(len(names) + 1):
        for alone in combinations(names, size):
            others = (*plain, *[name for name in names if name not in alone])
            if tools_cover(others, (one.tool,)) is None:
                continue  # no tool's name fits these patterns and no other
            if not _covered(one, [r for r in held if r.tool in alone], budget):
                return False
    return True


# ── what a rule admits, case by case ──


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing stands here."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value that passes the tests; or nothing, where ``optional``."""

    tests: tuple[Test, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Several:
    """A list of at least one element, each as the node says."""

    each: Node


@dataclass(frozen=True, slots=True)
class Fields:
    """An object."""

    of: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value, or none."""


Shape = Nothing | Leaf | Several | Fields | Anything


def cases_of(node: Node) -> list[Shape]:
    """Return what may stand at a node: each case is one kind of value. None: it cannot be."""
    if node.free:
        return [Anything()]
    found: list[Shape] = [Nothing()] if node.optional else []
    if node.tests and satisfiable(node.tests):
        return [Leaf(tuple(node.tests), node.optional)]
    if node.each is not None and cases_of(node.each):
        found.append(Several(node.each))
    if node.fields:
        each = [[(name, case) for case in cases_of(child)] for name, child in node.fields.items()]
        total = 1
        for cases in each:
            total *= len(cases)
        if total > _MAX_CASES:
            raise LimitError(f"more than {_MAX_CASES} ways to leave arguments out: use fewer `?`")
        found += [Fields(choice) for choice in product(*each)]
    return found


# ── arguments ──

Chosen = dict[tuple[str, ...], tuple[Test, ...] | None]  # tests that fail there; None: absent

Miss = tuple[tuple[str, ...], "Test | Literal['absent', 'present']"]
Misses = list[Miss] | None  # None: each call of this case misses it, or can without a cost
_FREE: Final = None


def _covered(one: Rule, held: Sequence[Rule], budget: StepsLeft) -> bool:
    root = node_of(one)
    cases = cases_of(root) if root.fields else [Fields(())]
    fields = [case for case in cases if isinstance(case, Fields)]
    return all(missed(one, case, held, budget) is None for case in fields)


def missed(one: Rule, case: Fields, held: Sequence[Rule], budget: StepsLeft) -> Chosen | None:
    """
    Return how some call of this case fits none of the rules, or None where each fits one.

    Returns:
        What must fail, by the way to an argument; a rule that each call of the case misses, or can
        miss beside the others, needs nothing there.
    """
    to_miss: list[list[Miss]] = []
    for other in held:
        budget.spend(1 + (_size_of(one) + _size_of(other)) // _STEP)
        found = _misses(one, case, other)
        if found is None:
            continue
        if not found:
            return None  # there is nowhere to miss this one
        to_miss.append(found)
    to_miss.sort(key=len)
    leaves = dict(_leaves(case, ()))
    return _search(to_miss, leaves, budget)


def _leaves(shape: Shape, way: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    if isinstance(shape, Leaf):
        yield way, shape
    elif isinstance(shape, Fields):
        for name, inner in shape.of:
            yield from _leaves(inner, (*way, name))


def _search(
    to_miss: Sequence[Sequence[Miss]], leaves: dict[tuple[str, ...], Leaf], budget: StepsLeft
) -> Chosen | None:
    """Return one miss for each rule, all of them in one call; None where there is no such call."""
    # Each level holds what is left to try for one rule. A stack, since there may be many rules.
    levels: list[tuple[Iterator[Miss], Chosen]] = [(iter(()), {})]
    chosen: Chosen = {}
    while len(levels) <= len(to_miss):
        levels.append((iter(to_miss[len(levels) - 1]), chosen))
        found = None
        while found is None and len(levels) > 1:
            choices, chosen = levels[-1]
            found = next((c for m in choices if (c := _chosen(chosen, m, leaves, budget))), None)
            if found is None:
                levels.pop()
        if found is None:
            return None
        chosen = found
    return chosen


def _chosen(
    chosen: Chosen, miss: Miss, leaves: dict[tuple[str, ...], Leaf], budget: StepsLeft
) -> Chosen | None:
    """Return the choices with one more miss, or None where it cannot be beside them."""
    way, how = miss
    before = chosen.get(way, ())
    budget.spend(1 + len(before or ()))
    if how == "absent":
        return {**chosen, way: None} if before is None or way not in chosen else None
    if before is None:
        return None
    if how == "present":
        return {**chosen, way: before}
    after = tuple({**dict.fromkeys(before), how: None})
    budget.spend((_size(leaves[way].tests) + _size(after)) // _STEP)
    return {**chosen, way: after} if satisfiable(leaves[way].tests, after) else None


def _misses(one: Rule, case: Fields, other: Rule) -> Misses:
    """Return every way in which a call of this case can miss a rule."""
    if one.rest and not other.rest:
        return _FREE  # by an argument that neither names
    return _object(case, node_of(other), (), rest=other.rest, open_end=one.rest)


def _object(
    case: Fields, node: Node, way: tuple[str, ...], *, rest: bool = False, open_end: bool = False
) -> Misses:
    named = dict(case.of)
    found: list[Miss] = []
    for name in dict.fromkeys((*named, *node.fields)):
        shape, child = named.get(name, Nothing()), node.fields.get(name)
        if open_end and name not in named:
            misses: Misses = [] if child is None or child.free else _FREE
        elif child is None and rest:
            misses = _unless_in_line(shape, (*way, name))
        else:
            misses = _at(shape, Node(True) if child is None else child, (*way, name))
        if misses is None:
            return _FREE
        found += misses
    return found


def _at(shape: Shape, node: Node, way: tuple[str, ...]) -> Misses:
    """Return the ways to miss a node with a value of this shape."""
    if node.free:
        return []
    match shape:
        case Nothing():
            return [] if node.optional else _FREE
        case Leaf():
            return _leaf(shape, node, way)
        case Several():
            return [] if node.each is not None and _within(shape.each, node.each) else _FREE
        case Fields():
            return _object(shape, node, way) if node.fields else _FREE
    return _FREE


def _leaf(shape: Leaf, node: Node, way: tuple[str, ...]) -> Misses:
    if not node.tests:  # nothing, a list or an object is due
        if not shape.optional or not node.optional:
            return _FREE
        return [(way, "present")]
    apart = not satisfiable((*shape.tests, *node.tests))
    if apart and not (shape.optional and node.optional):
        return _FREE
    found: list[Miss] = [(way, t) for t in node.tests if satisfiable(shape.tests, (t,))]
    if shape.optional and not node.optional:
        found.append((way, "absent"))
    return found


def _unless_in_line(shape: Shape, way: tuple[str, ...]) -> Misses:
    """Return the ways to miss what `... in intent` asks of an argument that it does not name."""
    test = InIntent()
    if isinstance(shape, Leaf):
        return [(way, test)] if satisfiable(shape.tests, (test,)) else []
    if isinstance(shape, Several):
        return [] if _in_line(shape.each) else _FREE
    return [] if isinstance(shape, Nothing) else _FREE


def _in_line(node: Node) -> bool:
    if node.each is not None:
        return _in_line(node.each)
    return bool(node.tests) and not satisfiable(node.tests, (InIntent(),))


def _within(narrow: Node, wide: Node) -> bool:
    """Return whether whatever stands at one node may stand at another: no other can help here."""
    if wide.free or not cases_of(narrow):
        return True
    if narrow.free:
        return False
    if narrow.optional and not wide.optional:
        return False
    if narrow.tests:
        if not satisfiable(narrow.tests):
            return True  # nothing, and that is allowed there
        return bool(wide.tests) and not any(satisfiable(narrow.tests, (t,)) for t in wide.tests)
    if narrow.each is not None:
        hollow = narrow.optional and not cases_of(narrow.each)
        return hollow or (wide.each is not None and _within(narrow.each, wide.each))
    if narrow.fields:
        names = dict.fromkeys((*narrow.fields, *wide.fields))
        nothing = Node(True)
        return bool(wide.fields) and all(
            _within(narrow.fields.get(n, nothing), wide.fields.get(n, nothing)) for n in names
        )
    return wide.optional
