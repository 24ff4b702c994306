"""
Whether a rule admits a call, and the rules of a list, ready to be asked.

Decided here: how a call's arguments are walked beside a rule's tree. Not decided here: what a rule
is (``broker.rules``), what each condition asks of one value (``broker.conditions``).

Rules a maintainer keeps: nothing here raises for any call; a value of another type than the rule
expects is refused before it is looked at; a list is looked into only where the rule says so, and
then every element must pass; what the resolver could not read, a condition does not admit; words
are only looked for once a call is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.calls import Look
from broker.conditions import InIntent, Links, LinksTyped, Test, empty
from broker.language.inline import stands_in
from broker.language.links import links_in, links_stand
from broker.language.toolnames import ToolMatcher, tool_matcher
from broker.rules import Node, Rule, node_of

if TYPE_CHECKING:
    from broker.calls import Call, Label

LOOSE: Final = frozenset(
    ("text", "search-regex", "amount", "date", "permission", "nested-calls", "escape")
)
"""Roles whose values name nobody and nothing: `... in intent` leaves them alone."""
_MOST: Final = 80  # characters of a value in a message
_MOST_VALUES: Final = 6  # values of a set in a message


class Unmet(NamedTuple):
    """Where a call does not fit a rule, and what is wrong there, in words."""

    label: str
    reason: str


def judge(given: Rule, look: Look) -> Unmet | None:
    """
    Return where the call does not fit the rule, or None when it fits. Total.

    >>> from broker.calls import Call
    >>> from broker.conditions import values
    >>> from broker.rules import argument, rule
    >>> r = rule("pay", argument("to", values("A")))
    >>> judge(r, Look(Call("pay", arguments={"to": "A"})))
    >>> judge(r, Look(Call("pay", arguments={"to": "A", "cc": "B"}))).label
    'cc'
    """
    return _judge(node_of(given), given.rest, look)


def _judge(root: Node, rest: bool, look: Look) -> Unmet | None:
    arguments = look.call.arguments
    if arguments is None:
        return Unmet("", "its arguments are not known")
    return _object(root, arguments, "", look, (look.call.labels or {}) if rest else None)


def _object(
    node: Node,
    values: Mapping[str, object],
    label: str,
    look: Look,
    rest: Mapping[str, Label] | None,
) -> Unmet | None:
    """Judge an object; ``rest`` are the labels of what is not named, or None: it must be empty."""
    fields, seen = node.fields, 0
    for name, value in values.items():
        child = fields.get(name)
        if child is not None and child.ready:  # most are so; no test admits what is empty
            here = f"{label}{name}" if child.placed else ""
            for admits in child.ready:
                if not admits(value, here, look):
                    break
            else:
                seen += child.needed
                continue
        if empty(value):
            continue
        if child is not None:
            unmet = _value(child, value, f"{label}{name}", look)
            seen += child.needed
        elif rest is None:
            unmet = Unmet(f"{label}{name}", "the rule does not name it, so it must be left out")
        else:
            unmet = _rest(rest.get(name), value, f"{label}{name}", look)
        if unmet is not None:
            return unmet
    if seen == len(node.required):
        return None
    missing = next(name for name in node.required if empty(values.get(name)))
    return Unmet(f"{label}{missing}", "it is missing (`?` behind its name lets it be left out)")


def _value(node: Node, value: object, label: str, look: Look) -> Unmet | None:
    if node.ready:
        if type(value) in (list, dict):
            kind = "a list" if type(value) is list else "an object"
            return Unmet(label, f"one value is due, not {kind}")
        for admits, test in zip(node.ready, node.tests, strict=True):
            if not admits(value, label, look):
                return Unmet(label, _why(test, value, look))
        return None
    if node.each is not None:
        if not isinstance(value, list):
            return Unmet(label, "a list is due")
        return _each(node.each, value, label, look)
    if node.fields:
        if not isinstance(value, dict):
            return Unmet(label, "an object is due")
        return _object(node, value, f"{label}.", look, None)
    return None if node.free else Unmet(label, "it must be left out")


def _each(node: Node, items: list[object], label: str, look: Look) -> Unmet | None:
    plain = node.ready and not node.placed
    for n, item in enumerate(items):
        if plain:
            for admits in node.ready:
                if not admits(item, "", look):
                    break
            else:
                continue
        here = f"{label}[{n}]"
        hollow = empty(item) and not node.free
        unmet = Unmet(here, "it is empty") if hollow else _value(node, item, here, look)
        if unmet is not None:
            return unmet
    return None


def _why(test: Test, value: object, look: Look) -> str:
    from broker.language.ruletext import spell_test, spell_value  # noqa: PLC0415 - for messages

    if isinstance(test, InIntent) and look.line is None:
        return "`in intent` cannot be checked: the line that the person typed is not here"
    if isinstance(test, Links | LinksTyped) and type(value) is str:
        return _why_links(test, value, look.line)
    said = value if type(value) is not str or len(value) <= _MOST else value[:_MOST] + "…"
    return f"{spell_value(said)} is not {spell_test(test, _MOST_VALUES).strip().removeprefix('=')}"


def _why_links(test: Links | LinksTyped, text: str, line: str | None) -> str:
    from broker.language.ruletext import spell_test, spell_value  # noqa: PLC0415 - for messages

    if isinstance(test, Links):
        named = next(link for link in links_in(text) if link not in test.texts)
    else:
        named = next(link for link in links_in(text) if not links_stand(line, link))
    said = named if len(named) <= _MOST else named[:_MOST] + "…"
    return f"it names {spell_value(said)}, and may have{spell_test(test, _MOST_VALUES)}"


def _rest(known: Label | None, value: object, label: str, look: Look) -> Unmet | None:
    """Judge an argument that `... in intent` speaks of: every value in it, and every name."""
    if known is not None and known.fields is not None:
        items = value if isinstance(value, list) else [value]
        for n, item in enumerate(items):
            if not isinstance(item, dict):
                return Unmet(f"{label}[{n}]", "an object is due")
            for name, inner in item.items():
                found = known.fields.get(name)
                unmet = None if empty(inner) else _rest(found, inner, f"{label}.{name}", look)
                if unmet is not None:
                    return unmet
        return None
    if known is not None and known.role in LOOSE:
        return None
    if look.line is None:
        return Unmet(label, _why(InIntent(), value, look))
    for said in _said(value):
        if not stands_in(look.line, said):
            return Unmet(label, _why(InIntent(), said, look))
    return None


def _said(value: object) -> Iterator[object]:
    """Yield every value below lists and objects, and the names in those."""
    stack = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            stack += (*here, *here.values())
        elif isinstance(here, list):
            stack += here
        elif here is not None:
            yield here


# ── all rules of a list ──


class Ready(NamedTuple):
    """A rule with its tree, so that deciding looks nothing up."""

    rule: Rule
    root: Node


class RuleBook:
    """The rules of one `tools` list, ready to be asked."""

    __slots__ = ("_exact", "_like", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._exact: dict[str, list[Ready]] = {}
        self._like: list[tuple[ToolMatcher, Ready]] = []
        for one in rules:
            ready = Ready(one, node_of(one))
            if "*" in one.tool:
                self._like.append((tool_matcher((one.tool,)), ready))
            else:
                self._exact.setdefault(one.tool, []).append(ready)

    def of(self, name: str, tool: str, server: str | None) -> list[Ready]:
        """Return the rules for a tool, by its whole name and as the call has it."""
        found = self._exact.get(name, [])
        if self._like:
            found = [*found, *[r for matcher, r in self._like if matcher.match(tool, server)]]
        return found

    def judge(self, found: list[Ready], call: Call, line: str | None) -> Unmet | None:
        """Return None when one of the rules admits the call, else why the first one does not."""
        first: Unmet | None = None
        look = Look(call, line)
        for ready in found:
            unmet = _judge(ready.root, ready.rule.rest, look)
            if unmet is None:
                return None
            first = first or unmet
        return first


@lru_cache(maxsize=1_024)
def rule_book(rules: tuple[Rule, ...]) -> RuleBook:
    """Return the book of these rules, made once."""
    return RuleBook(rules)
