"""
Can one value pass some tests and fail some others?

Decided here: the question that inclusion of rules comes down to, for one place in the arguments.
What a test knows of the world (where a path leads, which host an address has, what the person
typed) is not known here, so the answer is meant over every world: *yes* when some file system,
catalog and line exist in which such a value does.

Rules a maintainer keeps: *no* is only ever said when it is sure, for a narrower ticket is
believed by it. It is exact, with two readings that are on the safe side: between two different
numbers there is always another one, and two tests never share what they know of the world unless
they are of one kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from broker.conditions import (
    HostIn,
    InIntent,
    Links,
    LinksTyped,
    Number,
    On,
    Range,
    Test,
    Under,
    Values,
    admits_value,
    day_of,
)
from broker.hosts import hosts_cover
from broker.language.inline import stands_in
from broker.language.links import links_in

T = TypeVar("T", bound=Test)
Scalar = str | int | float | bool


def satisfiable(held: Sequence[Test], failed: Sequence[Test] = ()) -> bool:
    """
    Return whether some value passes every test of ``held`` and fails every one of ``failed``.

    >>> from broker.conditions import between, values
    >>> satisfiable([values("A", "B")], [values("A")])
    True
    >>> satisfiable([between(0, 10)], [between(0, 4), between(4, 12)])
    False
    """
    line = bool(_of(held, InIntent))
    if line and _of(failed, InIntent):
        return False
    return _place(held, failed) and _host(held, failed) and _value(held, failed, line)


def _of(tests: Iterable[Test], kind: type[T]) -> list[T]:
    return [test for test in tests if isinstance(test, kind)]


# ── what the value is ──


def _value(held: Sequence[Test], failed: Sequence[Test], line: bool) -> bool:
    sets, ranges, days = _of(held, Values), _of(held, Range), _of(held, On)
    texts_only = bool(_of(held, HostIn) or _of(held, Under) or _links(held) or days)
    plain = [t for t in failed if isinstance(t, Values | Range | On)]
    if sets:
        first, *others = sets
        more: list[Values | Range | On] = [*others, *ranges, *days]
        asked = [_passing(t) for t in more]
        refused = [_passing(t) for t in plain]
        for value in (*first.texts, *first.numbers, *first.flags):
            fits = all(passes(value) for passes in asked)
            if texts_only and type(value) is not str:
                fits = False
            if line and fits and not _could_stand(value):
                fits = False
            if fits and not any(passes(value) for passes in refused):
                if not isinstance(value, str) or _named_left(value, held, failed, line):
                    return True
        return False
    if ranges:
        return not texts_only and _number_left(ranges, plain)
    if days:
        return _day_left(days, _of(failed, On)) and not _links(failed)  # no day names anything
    return _link_left(
        held, failed, line and texts_only
    )  # there are more texts than any of these tests speak of


def _passing(test: Values | Range | On) -> Callable[[Scalar], bool]:
    """Return what ``admits_value`` says of a set's values, at once however much a test names."""
    if isinstance(test, Range):
        return lambda value: admits_value(test, value)
    if isinstance(test, Values):
        # To ``==``, 1 and true are the same.
        named = {(type(v) is bool, v) for v in (*test.texts, *test.numbers, *test.flags)}
        return lambda value: (type(value) is bool, value) in named
    firsts = [first for first, _ in test.spans]

    def within(value: Scalar) -> bool:
        day = day_of(value) if isinstance(value, str) else None
        at = 0 if day is None else bisect_right(firsts, day)
        return day is not None and at > 0 and day <= test.spans[at - 1][1]

    return within


def _links(tests: Iterable[Test]) -> list[Test]:
    return [test for test in tests if isinstance(test, Links | LinksTyped)]


def _named_left(text: str, held: Sequence[Test], failed: Sequence[Test], line: bool) -> bool:
    """Return whether a text passes what is asked of links, under some line; in it, if ``line``."""
    named = links_in(text)
    if any(not set(test.texts).issuperset(named) for test in _of(held, Links)):
        return False
    if _of(failed, LinksTyped) and (line or not named or _of(held, LinksTyped)):
        return False  # a text that stands in the line names nothing that does not
    return not any(set(test.texts).issuperset(named) for test in _of(failed, Links))


def _link_left(held: Sequence[Test], failed: Sequence[Test], line: bool) -> bool:
    """Return whether a value is left that fails these; ``line``: it is a text of the line."""
    limits = [set(test.texts) for test in _of(held, Links)]
    most = set.intersection(*limits) if limits else None  # None: whatever there is
    if _of(failed, LinksTyped) and (line or most == set() or _of(held, LinksTyped)):
        return False
    return most is None or all(most - set(test.texts) for test in _of(failed, Links))


def _could_stand(value: Scalar) -> bool:
    """Return whether some line holds the value: the one that holds nothing else does, if any."""
    from broker.language.ruletext import spell_value  # noqa: PLC0415 - it writes the numbers

    return stands_in(value if isinstance(value, str) else spell_value(value), value)


def _number_left(ranges: Sequence[Range], failed: Sequence[Test]) -> bool:
    low: Number = max(r.low for r in ranges)
    high: Number = min((r.high for r in ranges if r.high is not None), default=float("inf"))
    points = {n for t in _of(failed, Values) for n in t.numbers}
    reached: Number | None = None  # everything from `low` up to here is taken, this included
    for cut in sorted(_of(failed, Range), key=lambda r: r.low):
        top = float("inf") if cut.high is None else cut.high
        if top < low or cut.low > high:
            continue
        if reached is None:
            if cut.low > low:
                break
        elif cut.low > reached:
            return True  # between the two cuts
        reached = top if reached is None else max(reached, top)
    if reached is not None:
        return reached < high
    return low < high or (low == high and low not in points)


def _day_left(days: Sequence[On], failed: Sequence[On]) -> bool:
    """Return whether a day is left. A day has more spellings than any set could name."""
    whole = len(days)
    changes: dict[int, int] = {}  # at which days spans begin and end: one for each test that holds
    for test, weight in (*[(t, 1) for t in days], *[(t, -whole) for t in failed]):
        for first, last in test.spans:
            changes[first] = changes.get(first, 0) + weight
            changes[last + 1] = changes.get(last + 1, 0) - weight
    level = 0
    for _, change in sorted(changes.items()):
        level += change
        if level == whole:
            return True
    return False


# ── what the world makes of it ──


def _host(held: Sequence[Test], failed: Sequence[Test]) -> bool:
    taken = tuple([p for test in _of(failed, HostIn) for p in test.patterns])
    if not taken:
        return True
    return not any(hosts_cover(taken, test.patterns) is None for test in _of(held, HostIn))


def _place(held: Sequence[Test], failed: Sequence[Test]) -> bool:
    within, without = _of(held, Under), _of(failed, Under)
    for one in within:
        if any(not (_inside(one, other) or _inside(other, one)) for other in within):
            return False
    git = all(map(_names_git, within))  # whether a write inside .git could pass at all
    return not any(
        any(_inside(one, cut) for one in within) and (_names_git(cut) or not git) for cut in without
    )


def _inside(one: Under, other: Under) -> bool:
    """Return whether a folder lies at or below another one."""
    return other.folder == "." or f"{one.folder}/".startswith(f"{other.folder}/")


def _names_git(test: Under) -> bool:
    return ".git" in test.folder.split("/")
