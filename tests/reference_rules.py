"""
A naive reading of what a rule means, against which the real code is compared.

Written from docs/scopes.md for a reader and not for speed: no tree, nothing compiled; every
condition is walked from the arguments anew, and what nobody named must be left out.
"""

from __future__ import annotations

from broker.calls import Call
from broker.conditions import (
    Absent,
    Free,
    HostIn,
    InIntent,
    Links,
    LinksTyped,
    On,
    Range,
    Under,
    Values,
)
from broker.rulebook import LOOSE
from broker.rules import Rule
from tests.reference import host_fits, tool_fits

Wanted = list[tuple[tuple, object]]


def rule_admits(rule: Rule, call: Call, line: str | None) -> bool:
    """Whether the tool's name fits, and every argument is what the rule says of it."""
    if not tool_fits(rule.tool, call.tool) or call.arguments is None:
        return False
    wanted = [(condition.path, condition.test) for condition in rule.conditions]
    labels = (call.labels or {}) if rule.rest else None
    return object_fits(wanted, call.arguments, "", call, line, labels)


def left_out(value: object) -> bool:
    return value is None or value in ("", [], {})


def object_fits(wanted: Wanted, values, label, call, line, labels=None) -> bool:
    for name in {*values, *(path[0].name for path, _ in wanted)}:
        mine = [(path, test) for path, test in wanted if path[0].name == name]
        value, here = values.get(name), label + name
        if left_out(value):
            if not all(may_be_left_out(path, test) for path, test in mine):
                return False
        elif mine:
            if not value_fits([(path[1:], test) for path, test in mine], value, here, call, line):
                return False
        elif labels is None or not typed_or_loose(labels.get(name), value, line):
            return False
    return True


def may_be_left_out(path, test) -> bool:
    return path[0].optional or (len(path) == 1 and isinstance(test, Free | Absent))


def value_fits(wanted: Wanted, value, label, call, line) -> bool:
    if any(path and path[0].name is not None for path, _ in wanted):
        return type(value) is dict and object_fits(wanted, value, label + ".", call, line)
    for path, test in wanted:
        if not path:
            if not test_fits(test, value, label, call, line):
                return False
        elif type(value) is not list:
            return False
    lists = [(path[1:], test) for path, test in wanted if path]
    for n, item in enumerate(value if lists else ()):
        free = all(not path and isinstance(test, Free) for path, test in lists)
        if left_out(item) and not free:
            return False
        if not value_fits(lists, item, f"{label}[{n}]", call, line):
            return False
    return True


def test_fits(test, value, label, call, line) -> bool:
    if isinstance(test, Free):
        return True
    if isinstance(test, Absent) or type(value) in (list, dict):
        return False
    if isinstance(test, Values):
        same = {str: test.texts, bool: test.flags, int: test.numbers, float: test.numbers}
        plain = value.strip(" ") if type(value) is str else value
        return any(plain == wanted for wanted in same[type(value)])
    if isinstance(test, Range):
        if type(value) not in (int, float):
            return False
        return test.low <= value and (test.high is None or value <= test.high)
    if isinstance(test, On):
        return type(value) is str and any(a <= day(value) <= b for a, b in test.spans)
    if isinstance(test, InIntent):
        return line is not None and type(value) is not bool and f" {value} " in f" {line} "
    if isinstance(test, Links | LinksTyped):
        # The generated texts name an address where a word of theirs holds a dot.
        named = [word for word in value.split() if "." in word] if type(value) is str else [None]
        known = (line or "").split() if isinstance(test, LinksTyped) else test.texts
        return all(word in known for word in named)
    if isinstance(test, HostIn):
        found = [url for url in call.urls if url.argument == label and url.spelled == value]
        return bool(found) and all(any(host_fits(p, u) for p in test.patterns) for u in found)
    assert isinstance(test, Under)
    folder = test.folder.split("/") if test.folder != "." else []
    found = [path for path in call.paths if path.argument == label]
    return bool(found) and all(
        bool(path.places)
        and all(place.split("/")[: len(folder)] == folder for place in path.places)
        and (not path.inner_git or ".git" in folder)
        for path in found
    )


def day(value: str) -> int:
    """The generated days are those of the year 1, so that the number can be read off."""
    return int(value[8:10]) if value.startswith("0001-01-") else -1


def typed_or_loose(label, value, line) -> bool:
    if label is not None and label.role in LOOSE:
        return True
    if type(value) is list:
        return all(typed_or_loose(None, item, line) for item in value if item is not None)
    if type(value) is dict:
        inner = [*value, *value.values()]
        return all(typed_or_loose(None, item, line) for item in inner if item is not None)
    return line is not None and type(value) is not bool and f" {value} " in f" {line} "
