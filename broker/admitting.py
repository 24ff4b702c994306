"""
Whether a test admits one value of a call: each kind of test, made ready to be asked.

Decided here: what a test makes of a value, of what the resolver read there, and of the line that
was typed. Not decided here: which tests exist and their form (``broker.conditions``), and how the
arguments are walked (``broker.rulebook``).

Rules a maintainer keeps: what is ready never raises; a test admits only values of its own type;
what the resolver could not read, or a line that is not known, admits nothing. The two that most
conditions are say again, and faster, what ``admits_value`` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from broker.calls import Look
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
from broker.errors import InputError
from broker.hosts import host_matcher
from broker.language.inline import stands_in
from broker.language.links import links_in, links_stand

Admits = Callable[[object, str, Look], bool]
"""Whether a test admits a value; the text is the argument's label in ``Call`` subjects."""


def admitting(test: Test) -> Admits:
    """Return what decides a test, made ready once for every call."""
    match test:
        case Values():
            return _among(test)
        case Range():
            return _between(test)
        case On():
            return lambda value, _label, _look: admits_value(test, value)
        case HostIn():
            match_host = host_matcher(test.patterns).match
            return lambda value, label, look: _reaches(match_host, value, label, look)
        case Under():
            return lambda value, label, look: _below(test, value, label, look)
        case InIntent():
            return lambda value, _label, look: look.line is not None and stands_in(look.line, value)
        case Links():
            known = frozenset(test.texts)
            return lambda value, _label, _look: (
                type(value) is str and known.issuperset(links_in(value))
            )
        case LinksTyped():
            return lambda value, _label, look: type(value) is str and links_stand(look.line, value)
    raise InputError("this condition looks at no value")


def _among(test: Values) -> Admits:
    texts, rest = frozenset(test.texts), Values((), test.numbers, test.flags)

    def admits(value: object, _label: str, _look: Look) -> bool:
        if type(value) is str:
            return value in texts or value.strip(" ") in texts
        return admits_value(rest, value)

    return admits


def _between(test: Range) -> Admits:
    low, high = test.low, math.inf if test.high is None else test.high

    def admits(value: object, _label: str, _look: Look) -> bool:
        if type(value) is int or type(value) is float:
            return low <= value <= high and (type(value) is int or math.isfinite(value))
        return False

    return admits


def _reaches(
    match: Callable[[tuple[str, ...]], bool], value: object, label: str, look: Look
) -> bool:
    if type(value) is not str:
        return False
    spelled = (value, f"https://{value}")  # where a catalog says that the scheme may be missing
    found = look.urls(label, spelled[0]) or look.urls(label, spelled[1])
    return bool(found) and all(url.spelled in spelled and match(url.keys) for url in found)


def _below(test: Under, value: object, label: str, look: Look) -> bool:
    found = look.paths(label, value) if type(value) is str and value else []
    if not found:
        return False
    start = "" if test.folder == "." else test.folder + "/"
    for path in found:
        if not path.places or not all(place.startswith(start) for place in path.places):
            return False
        # A write inside .git runs code later with the person's full rights.
        if path.inner_git and ".git" not in test.folder.split("/"):
            return False
    return True
