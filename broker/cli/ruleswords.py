"""
A rule in plain words: what each argument of a tool must be, and what becomes of the others.

Decided here: only the words. What they describe is decided in ``broker.rules``.
"""

from __future__ import annotations

from datetime import date
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from broker.conditions import (
    Absent,
    Free,
    HostIn,
    InIntent,
    Links,
    LinksTyped,
    On,
    Range,
    Test,
    Under,
    Values,
)
from broker.language.ruletext import spell_path, spell_value

if TYPE_CHECKING:
    from broker.rules import Condition, Path, Rule

_WIDTH: Final = 92  # columns of a sentence


def rule_words(rule: Rule) -> list[str]:
    """
    Return what a rule says, one line for each argument.

    >>> from broker.conditions import Free, between, values
    >>> from broker.rules import argument, rule
    >>> pay = rule("pay", argument("to", values("A")), argument("sum", between(0, 5)))
    >>> rule_words(pay)
    ['pay, when', '- to is "A"', '- sum is a number from 0 to 5', '- nothing else is given']
    """
    who = "tools called like " + rule.tool if "*" in rule.tool else rule.tool
    if rule.tool == "*":
        who = "any tool"
    lines = [f"{who}, when"]
    for condition in rule.conditions:
        if not isinstance(condition.test, Free):
            lines += _wrapped(_condition(condition))
    free = [spell_path(_bare(c.path)) for c in rule.conditions if isinstance(c.test, Free)]
    if free:
        lines += _wrapped(f"{', '.join(free)}: anything, or nothing")
    if rule.rest:
        lines += _wrapped(
            "every other name, address and path stands word for word in the line you typed"
        )
    else:
        lines.append("- nothing else is given")
    return lines


def _wrapped(text: str) -> list[str]:
    return wrap(f"- {text}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _bare(path: Path) -> Path:
    from broker.rules import Hop

    return tuple([Hop(step.name) for step in path])


def _condition(condition: Condition) -> str:
    path, test = condition.path, condition.test
    each = path[-1].name is None
    shown = spell_path(_bare(path[:-1] if each else path))
    who = f"each of {shown}" if each else shown
    optional = any(step.optional for step in path)
    if isinstance(test, Absent):
        return f"{who} is not given"
    return f"{who}{', if given,' if optional else ''} {_is(test)}"


def _is(test: Test) -> str:
    match test:
        case Values():
            given = [spell_value(v) for v in (*test.texts, *test.numbers, *test.flags)]
            return f"is {given[0]}" if len(given) == 1 else f"is one of {', '.join(given)}"
        case Range():
            low = spell_value(test.low)
            if test.high is None:
                return f"is a number, {low} or more"
            return f"is a number from {low} to {spell_value(test.high)}"
        case On():
            spans = [_span(first, last) for first, last in test.spans]
            return f"falls on {' or '.join(spans)}, as it is spelled"
        case HostIn():
            return f"leads to {' or '.join(test.patterns)}"
        case Under():
            where = "the workspace" if test.folder == "." else test.folder
            return f"lies in {where}, links followed"
        case Links():
            named = " or ".join(test.texts)
            return f"names no address and no account{' but ' if named else ''}{named}"
        case LinksTyped():
            return "names no address and no account but those in the line you typed"
        case InIntent():
            return "stands word for word in the line you typed"
    raise TypeError("nothing is asked of it")


def _span(first: int, last: int) -> str:
    begin, end = (date.fromordinal(day).isoformat() for day in (first, last))
    return begin if first == last else f"{begin} to {end}"
