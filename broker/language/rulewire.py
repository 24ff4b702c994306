"""
A rule's JSON in a ticket: the array it is written as, and the strict reading of that array.

Decided here: the form, and nothing about what it means. A rule is
``[TOOL,REST,[PATH,KIND,…],…]``: ``REST`` is 0 or 1; a path is a list of names, ``[NAME]`` for a
name that may be left out and ``null`` for each element of a list. Numbers that are not whole are
texts, because readers of JSON disagree on their digits.

Rule a maintainer keeps: what is read must be written back to the same array, so that one rule has
one form and a kind that is not known is never skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from broker.conditions import (
    Absent,
    Free,
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
)
from broker.errors import InputError, TicketFormatError
from broker.rules import Condition, Hop, Path, Rule, check_rule

_BARE: Final[Mapping[str, Callable[[], Test]]] = {
    "free": Free,
    "absent": Absent,
    "intent": InIntent,
    "typed-links": LinksTyped,
}


def write_rule(rule: Rule) -> str:
    """
    Return a rule's JSON.

    >>> from broker.conditions import between, values
    >>> from broker.rules import argument, rule
    >>> write_rule(rule("pay", argument("to", values("A")), argument("sum", between(0, 0.5))))
    '["pay",0,[["to"],"values",["A"],[],[]],[["sum"],"range",0,"0.5"]]'
    """
    return json.dumps(_array(rule), ensure_ascii=False, separators=(",", ":"))


def _array(rule: Rule) -> list[object]:
    conditions = [[_way(c.path), *_test(c.test)] for c in rule.conditions]
    return [rule.tool, int(rule.rest), *conditions]


def _way(path: Path) -> list[object]:
    return [[step.name] if step.optional else step.name for step in path]


def _test(test: Test) -> list[object]:
    match test:
        case Values():
            numbers = [_number(n) for n in test.numbers]
            return ["values", list(test.texts), numbers, list(test.flags)]
        case Range():
            return ["range", _number(test.low), None if test.high is None else _number(test.high)]
        case On():
            return ["on", *[list(span) for span in test.spans]]
        case HostIn():
            return ["host", *test.patterns]
        case Links():
            return ["links", *test.texts]
        case Under():
            return ["under", test.folder]
    return [next(name for name, kind in _BARE.items() if kind is type(test))]


def _number(value: Number) -> object:
    return value if isinstance(value, int) else repr(value)


def read_rule(array: list[object]) -> Rule:
    """
    Return the rule that an array of a ticket stands for.

    Raises:
        TicketFormatError: it is no rule in canonical form.
    """
    if len(array) < 2 or type(array[0]) is not str or array[1] not in (0, 1):
        raise TicketFormatError("a rule of the ticket does not begin with its tool")
    try:
        conditions = tuple([_read_condition(c) for c in array[2:]])
        rule = check_rule(Rule(array[0], conditions, array[1] == 1))
    except InputError as error:
        raise TicketFormatError(f"`tools` of the ticket: {error}") from None
    if not _same(_array(rule), array):  # the canonical rule's: to `==`, 5.0 is 5
        raise TicketFormatError("a rule of the ticket is not in canonical form")
    return rule


def _same(written: object, given: object) -> bool:
    """Whether two JSON values are the same to the type: to ``==``, 1 and true are."""
    if type(written) is not type(given):
        return False
    if isinstance(written, list) and isinstance(given, list):
        return len(written) == len(given) and all(map(_same, written, given))
    return written == given


def _read_condition(value: object) -> Condition:
    if type(value) is not list or len(value) < 2 or type(value[0]) is not list:
        raise InputError("a condition is a way to an argument, a kind, and what belongs to it")
    return Condition(
        tuple([_read_step(step) for step in value[0]]), _read_test(value[1], value[2:])
    )


def _read_step(value: object) -> Hop:
    optional = type(value) is list and len(value) == 1
    name = value[0] if optional and isinstance(value, list) else value
    if type(name) is str:
        return Hop(name, optional)
    if name is None and not optional:
        return Hop(None)
    raise InputError("a step to an argument is a name, or null")


def _read_test(kind: object, given: list[object]) -> Test:
    match kind, given:
        case "values", [list(texts), list(numbers), list(flags)]:
            if all(type(t) is str for t in texts) and all(type(f) is bool for f in flags):
                found = tuple([_read_number(n) for n in numbers])
                return Values(tuple(texts), found, tuple(flags))
        case "range", [low, high]:
            return Range(_read_number(low), None if high is None else _read_number(high))
        case "on", spans:
            return On(tuple([_read_span(span) for span in spans]))
        case "host", patterns:
            if all(type(p) is str for p in patterns):
                return HostIn(tuple([str(p) for p in patterns]))
        case "links", named:
            if all(type(t) is str for t in named):
                return Links(tuple([str(t) for t in named]))
        case "under", [str(folder)]:
            return Under(folder)
        case str(name), [] if name in _BARE:
            return _BARE[name]()
    raise InputError("a condition that is not understood")


def _read_number(value: object) -> Number:
    if type(value) is int:
        return value
    if type(value) is str and len(value) <= 32:
        try:
            return float(value)
        except ValueError:
            pass
    raise InputError("a number of a condition is not understood")


def _read_span(value: object) -> tuple[int, int]:
    match value:
        case [int(first), int(last)] if type(first) is int and type(last) is int:
            return first, last
    raise InputError("a span of days is not understood")
