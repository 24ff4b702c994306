"""
Reading a rule that was typed: from the pieces of its text to conditions with their places.

Decided here: how days, numbers and sets are spelled, and that two ends of one range are one
condition. Not decided here: what the text may look like (``grammar/scope.lark``), what a catalog
knows of the tool (``broker.language.rulelint``).

Rules a maintainer keeps: every fault is a ``ScopeError`` with its place; a number without a lower
end begins at zero, since an upper end alone is meant for amounts.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from broker.conditions import (
    Absent,
    Days,
    Free,
    InIntent,
    LinksTyped,
    Number,
    Range,
    Test,
    between,
    host_in,
    links,
    number,
    on,
    under,
    values,
)
from broker.errors import InputError
from broker.globs import check_tool
from broker.language.pieces import Piece, fault, json_value, moved
from broker.rules import Condition, Hop, Path, Rule, check_rule


@dataclass(frozen=True, slots=True)
class Typed:
    """A condition, where its argument is named in the text, and where what is asked of it."""

    path: Path
    test: Test
    start: int
    asked: int


@dataclass(frozen=True, slots=True)
class TypedRule:
    """A rule as typed, with the places of its conditions."""

    tool: str
    start: int
    conditions: tuple[Typed, ...]
    rest: bool

    def rule(self, text: str) -> Rule:
        """
        Return the rule.

        Raises:
            ScopeError: two of its conditions cannot stand together.
        """
        conditions = tuple([Condition(c.path, c.test) for c in self.conditions])
        try:
            return check_rule(Rule(self.tool, conditions, self.rest))
        except InputError as error:
            raise moved(text, error, self.start) from error


def read_rule(text: str, piece: Piece) -> TypedRule:
    """
    Return the rule that a piece of a scope text spells.

    Raises:
        ScopeError: it is malformed; says where.
    """
    tool, *given = piece.parts
    try:
        name = check_tool(tool.text)
    except InputError as error:
        raise moved(text, error, tool.start) from error
    rest = [p for p in given if p.name == "rest"]
    if len(rest) > 1:
        raise fault(text, "`... in intent` is given twice", rest[1].start)
    read = [_read_condition(text, p) for p in given if p.name != "rest"]
    return TypedRule(name, tool.start, tuple(_joined(text, read)), bool(rest))


_End = tuple[str, Number]  # "most" or "least", and the number


def _read_condition(text: str, piece: Piece) -> tuple[Typed, _End | None]:
    way, *given = piece.parts
    path = _read_way(text, way)
    asked = given[0].start if given else way.start
    try:
        if piece.name in ("most", "least"):
            end = number(json_value(text, given[0]))
            return Typed(path, Free(), way.start, asked), (piece.name, end)
        return Typed(path, _read_test(text, piece.name, given), way.start, asked), None
    except InputError as error:
        if "text" in error.detail:
            raise
        raise moved(text, error, asked) from error


def _read_test(text: str, kind: str, given: Sequence[Piece]) -> Test:
    match kind:
        case "free":
            return Free()
        case "absent":
            return Absent()
        case "intent":
            return InIntent()
        case "under":
            return under(str(json_value(text, given[0])))
        case "on":
            return on(*[_read_days(text, p) for p in given])
        case "host":
            return host_in(*[p.text for p in given])
        case "links":
            if any(p.name == "INTENT" for p in given):
                return LinksTyped()
            return links(*[str(json_value(text, p)) for p in given])
    return values(*[json_value(text, p) for p in given])


def _read_way(text: str, piece: Piece) -> Path:
    steps: list[Hop] = []
    for part in piece.parts:
        if part.name == "EACH":
            steps.append(Hop(None))
        elif part.name == "MAYBE":
            steps[-1] = Hop(steps[-1].name, True)
        else:
            name = part.text if part.name == "NAME" else str(json_value(text, part))
            steps.append(Hop(name))
    return tuple(steps)


def _read_days(text: str, piece: Piece) -> Days:
    first, _, last = piece.text.partition("..")
    try:
        begin = _days(first)
        return begin if not last else (begin[0], _days(last)[1])
    except ValueError:
        raise fault(text, f"`{piece.text}` is no day of the calendar", piece.start) from None


def _days(text: str) -> Days:
    """Return the first and the last day of a year, a month or a day."""
    year, month, day = (int(part) for part in (*text.split("-"), "0", "0")[:3])
    first = date(year, month or 1, day or 1)
    last = first if day else date(year, month or 12, monthrange(year, month or 12)[1])
    return first.toordinal(), last.toordinal()


def _joined(text: str, read: Sequence[tuple[Typed, _End | None]]) -> list[Typed]:
    """Return the conditions with both ends of a range as one."""
    found: dict[tuple[Path, bool, int], Typed] = {}
    ends: dict[Path, dict[str, tuple[Number, Typed]]] = {}
    for place, (typed, end) in enumerate(read):
        if end is None:
            found[typed.path, False, place] = typed
            continue
        kind, bound = end
        if kind in ends.setdefault(typed.path, {}):
            raise fault(text, "this end of the range is given twice", typed.asked)
        ends[typed.path][kind] = (bound, typed)
        found.setdefault((typed.path, True, 0), typed)
    for path, given in ends.items():
        first = found[path, True, 0]
        low = given["least"][0] if "least" in given else 0
        high = given["most"][0] if "most" in given else None
        try:
            test: Range = between(low, high)
        except InputError as error:
            hint = None if "least" in given else "negative numbers take a lower end, such as `>=-5`"
            raise fault(text, error.message, first.asked, hint) from None
        found[path, True, 0] = Typed(path, test, first.start, first.asked)
    return list(found.values())
