"""
What a rule may ask of one argument: the kinds of tests, and the form of each.

Decided here: which tests exist, their canonical form, and what those admit that look at nothing
but the value. Not decided here: what the others admit (``broker.admitting``), which argument a test
looks at and that all others stay empty (``broker.rulebook``), when one rule is as strict as another
(``broker.language.rulecover``), how a test is typed.

Rules a maintainer keeps: a test admits only values of its own type, so a list, an object or a
null passes none, ``True`` is no number and ``"5"`` is not 5; what is not a finite number is no
number; texts are compared by their characters, nothing is folded, and only blanks (U+0020)
around them are dropped. Tests compare by class and value: ``1`` and ``true`` must never meet in
a cache, which is why values are kept apart by their type.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final

from broker.errors import InputError
from broker.hosts import check_host
from broker.language.links import link_form, links_in
from broker.language.patterns import check_path, first_unseen
from broker.limits import MAX_CONDITION_VALUES, MAX_SAFE_INT, MAX_VALUE_CHARS

_DAY_CHARS: Final = 64  # characters of the longest text that is read as a day
Number = int | float
Days = tuple[int, int]  # first and last day, counted from 0001-01-01, both included

# A calendar day as spelled, alone or with a time of day behind it.
_DAY: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?)?"
)


@dataclass(frozen=True, slots=True)
class Free:
    """Any value at all, or none."""


@dataclass(frozen=True, slots=True)
class Absent:
    """No value: left out, null, or an empty text, list or object."""


@dataclass(frozen=True, slots=True)
class Values:
    """One of these values, each of its own type; the fields are never empty all three."""

    texts: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    flags: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """A finite number from ``low`` to ``high``, both included; ``high`` None: no upper end."""

    low: Number
    high: Number | None


@dataclass(frozen=True, slots=True)
class On:
    """A day, as spelled at the beginning of the text, within one of these spans of days."""

    spans: tuple[Days, ...]


@dataclass(frozen=True, slots=True)
class HostIn:
    """An address that the resolver read, of a host that one pattern fits."""

    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Under:
    """A path that the resolver read, at or below one folder of the workspace."""

    folder: str


@dataclass(frozen=True, slots=True)
class InIntent:
    """A text or number that stands, as a whole word, in the line that a person typed."""


@dataclass(frozen=True, slots=True)
class Links:
    """A text that names no other addresses and accounts than these."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinksTyped:
    """A text of which each address and account stands in the line that a person typed."""


Test = Free | Absent | Values | Range | On | HostIn | Under | InIntent | Links | LinksTyped


def empty(value: object) -> bool:
    """
    Whether an argument counts as left out.

    >>> [empty(v) for v in (None, "", [], {}, 0, False, " ", [None])]
    [True, True, True, True, False, False, False, False]
    """
    return value is None or value == "" or (type(value) in (list, dict) and not value)


# ── canonical form ──


def values(*given: object) -> Values:
    """
    Return the test that admits exactly these values.

    >>> values("a", 1, True, "a")
    Values(texts=('a',), numbers=(1,), flags=(True,))

    Raises:
        InputError: none is given, or one is no text, number or flag that a rule may hold.
    """
    texts: dict[str, None] = {}
    numbers: dict[Number, None] = {}
    flags: dict[bool, None] = {}
    for value in given:
        if type(value) is str:
            texts[_text(value)] = None
        elif type(value) is bool:
            flags[value] = None
        else:
            numbers[number(value)] = None
    if not 0 < len(texts) + len(numbers) + len(flags) <= MAX_CONDITION_VALUES:
        raise InputError(f"a set holds 1 to {MAX_CONDITION_VALUES} values")
    return Values(tuple(texts), tuple(numbers), tuple(flags))


def _text(value: str) -> str:
    if len(value) > MAX_VALUE_CHARS:
        raise InputError(f"a value has at most {MAX_VALUE_CHARS} characters")
    if first_unseen(value) >= 0:
        raise InputError("a value holds a control or invisible character")
    if not value.strip(" "):
        raise InputError("an empty text is written `absent`")
    return value.strip(" ")


def number(value: object) -> Number:
    """
    Return a number in its one form: whole ones as int, no minus before zero.

    >>> number(5.0), number(-0.0), number(0.5)
    (5, 0, 0.5)

    Raises:
        InputError: no finite number, or a whole one that a receipt could not hold.
    """
    if type(value) is float and math.isfinite(value):
        if not value.is_integer():
            return value
        value = int(value)
    if type(value) is not int or abs(value) > MAX_SAFE_INT:
        raise InputError("a number is finite, and a whole one within 2^53")
    return value


def between(low: object, high: object) -> Range:
    """
    Return the test for numbers from ``low`` to ``high`` (None: no upper end).

    Raises:
        InputError: no numbers, or none lies between them.
    """
    bottom, top = number(low), None if high is None else number(high)
    if top is not None and top < bottom:
        raise InputError(f"no number is at least {bottom} and at most {top}")
    return Range(bottom, top)


def on(*spans: Days) -> On:
    """
    Return the test for days; spans that meet become one.

    >>> on((3, 4), (1, 2), (9, 9))
    On(spans=((1, 4), (9, 9)))

    Raises:
        InputError: none is given, or one ends before it begins.
    """
    joined: list[Days] = []
    for first, last in sorted(spans):
        if not 1 <= first <= last <= date.max.toordinal():
            raise InputError("a span of days ends before it begins")
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    if not 0 < len(joined) <= MAX_CONDITION_VALUES:
        raise InputError(f"a condition names 1 to {MAX_CONDITION_VALUES} spans of days")
    return On(tuple(joined))


def host_in(*patterns: str) -> HostIn:
    """
    Return the test for an address of one of these hosts, written as in `hosts`.

    Raises:
        PatternError: one is no host pattern.
        InputError: none is given, or too many.
    """
    found = tuple(dict.fromkeys(check_host(p) for p in patterns))
    if not 0 < len(found) <= MAX_CONDITION_VALUES:
        raise InputError(f"a set holds 1 to {MAX_CONDITION_VALUES} values")
    return HostIn(found)


def under(folder: str) -> Under:
    """
    Return the test for a path at or below a folder of the workspace (``.``: anywhere in it).

    >>> under("./src/")
    Under(folder='src')

    Raises:
        PatternError: not a plain folder's path.
    """
    found = check_path(folder)
    if re.search(r"[*?\[\\]", found):
        raise InputError("`under` names one folder; it takes no wildcards")
    return Under(found)


def links(*texts: str) -> Links:
    """
    Return the test for texts that name these addresses and accounts at most.

    >>> links("https://a.test/", "bob@b.test")
    Links(texts=('a.test', 'bob@b.test'))

    Raises:
        InputError: one is no address and no account, or there are too many.
    """
    if len(texts) > MAX_CONDITION_VALUES:
        raise InputError(f"a set holds at most {MAX_CONDITION_VALUES} values")
    for text in texts:
        if links_in(_text(text)) != (link_form(_text(text)),):
            raise InputError("that is no address and no account number")
    return Links(tuple(dict.fromkeys(link_form(_text(text)) for text in texts)))


def checked(test: Test) -> Test:
    """
    Return the test in canonical form; equal tests have equal forms.

    Raises:
        InputError: it is none that a rule may hold.
    """
    match test:
        case Values():
            if any(type(n) is bool for n in test.numbers):
                raise InputError("a flag is no number")
            return values(*test.texts, *test.numbers, *test.flags)
        case Range():
            return between(test.low, test.high)
        case On():
            return on(*test.spans)
        case HostIn():
            return host_in(*test.patterns)
        case Under():
            return under(test.folder)
        case Links():
            return links(*test.texts)
        case Free() | Absent() | InIntent() | LinksTyped():
            return test
    raise InputError("no such condition")


# ── what each admits ──


def day_of(value: str) -> int | None:
    """
    Return the day that a text begins with, when it is a day, with or without a time.

    >>> day_of("0001-01-02"), day_of("0001-01-02 10:30"), day_of("0001-01-02x")
    (2, 2, None)
    """
    found = _DAY.fullmatch(value) if len(value) <= _DAY_CHARS else None
    if found is None:
        return None
    try:
        return date.fromisoformat(found[1]).toordinal()
    except ValueError:
        return None


@lru_cache(maxsize=1_024)
def _day_of(value: str) -> int | None:
    return day_of(value.strip(" "))


def is_number(value: object) -> bool:
    """Whether a value is a finite number, and not a flag."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def admits_value(test: Values | Range | On, value: object) -> bool:
    """Whether a test that looks at nothing but the value admits it."""
    if isinstance(test, Values):
        kind = type(value)
        if kind is str:
            return str(value).strip(" ") in test.texts
        if kind is bool:
            return value in test.flags
        return is_number(value) and value in test.numbers
    if isinstance(test, Range):
        return (
            isinstance(value, int | float)
            and is_number(value)
            and test.low <= value
            and (test.high is None or value <= test.high)
        )
    day = _day_of(value) if type(value) is str and len(value) <= _DAY_CHARS else None
    return day is not None and any(first <= day <= last for first, last in test.spans)
