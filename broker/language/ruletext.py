"""
Rules to scope text: the one way each rule, condition and value is written.

Decided here: the spelling. The law that a maintainer keeps: what is written here, ``parse_scope``
reads as the same rule. A message shows long sets in part, and that is no scope text any more.
"""

from __future__ import annotations

import json
import re
from datetime import date
from decimal import Decimal
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

if TYPE_CHECKING:
    from broker.rules import Condition, Path, Rule

REST: Final = "... in intent"
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS: Final = frozenset(("in", "on", "under", "host", "absent", "intent", "links"))


def spell_rule(rule: Rule, *, most: int | None = None) -> str:
    """
    Return a rule as it is typed; ``most`` shows at most so many values of a set.

    >>> from broker.conditions import InIntent
    >>> from broker.rules import argument, rule
    >>> spell_rule(rule("send", argument("to", InIntent()), rest=True))
    'send(to in intent, ... in intent)'
    """
    parts = [part for c in rule.conditions for part in _condition(c, most)]
    return f"{rule.tool}({', '.join([*parts, *([REST] if rule.rest else [])])})"


def _condition(condition: Condition, most: int | None) -> list[str]:
    way, test = spell_path(condition.path), condition.test
    if isinstance(test, Range) and test.low != 0 and test.high is not None:
        return [f"{way}>={spell_value(test.low)}", f"{way}<={spell_value(test.high)}"]
    return [way + spell_test(test, most)]


def spell_path(path: Path) -> str:
    """Return the way to an argument, such as ``attachments[].file_id``."""
    text = ""
    for step in path:
        if step.name is None:
            text += "[]"
            continue
        plain = _PLAIN.fullmatch(step.name) and step.name not in _WORDS
        name = step.name if plain else _quoted(step.name)
        text += ("." if text else "") + name + ("?" if step.optional else "")
    return text


def spell_test(test: Test, most: int | None = None) -> str:
    """Return what stands behind an argument's name."""
    match test:
        case Free():
            return ""
        case Absent():
            return " absent"
        case InIntent():
            return " in intent"
        case Under():
            return f" under {_quoted(test.folder if test.folder == '.' else test.folder + '/')}"
        case Range():
            return _range(test)
        case On():
            return f" on {_set([_span(*s) for s in test.spans], most)}"
        case HostIn():
            return f" host in {_braced(list(test.patterns), most)}"
        case LinksTyped():
            return " links in intent"
        case Links():
            named = [_quoted(text) for text in test.texts]
            return f" links in {_braced(named, most)}" if named else " links absent"
        case Values():
            given = [*test.texts, *test.numbers, *test.flags]
            spelled = [spell_value(v) for v in given]
            return f"={spelled[0]}" if len(spelled) == 1 else f" in {_braced(spelled, most)}"
    raise TypeError("no such condition")


def spell_value(value: object) -> str:
    """Return a value as it is typed; one of another kind, or a very long one, for a message."""
    if type(value) is str:
        return _quoted(value)
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int and value.bit_length() <= 128:
        return str(value)
    if type(value) is float and value - value == 0:
        return format(Decimal(repr(value)), "f")
    return "what is given"


def _range(test: Range) -> str:
    high = None if test.high is None else f"<={spell_value(test.high)}"
    if high is not None and test.low == 0:
        return high  # where no lower end is typed, it is zero
    low = f">={spell_value(test.low)}"
    return low if high is None else f"{low} and {high}"


def _span(first: int, last: int) -> str:
    begin, end = (date.fromordinal(day).isoformat() for day in (first, last))
    return begin if first == last else f"{begin}..{end}"


def _set(spelled: list[str], most: int | None) -> str:
    return spelled[0] if len(spelled) == 1 else _braced(spelled, most)


def _braced(spelled: list[str], most: int | None) -> str:
    shown = spelled if most is None else spelled[:most]
    more = len(spelled) - len(shown)
    return "{" + ", ".join(shown) + (f" and {more} more" if more else "") + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
