"""
Rules: a tool with conditions on its arguments, as one item of a `tools` list.

Decided here: what a rule is, its canonical form, and the tree that it comes to. Not decided here:
whether it admits a call (``broker.rulebook``), what each condition asks of one value
(``broker.conditions``), when rules cover a rule (``broker.language.rulecover``), how they are
typed (``broker.scope``) and which arguments of a tool are free text (a catalog, when the rule is
typed).

A rule is **closed**: an argument that it does not name must be left out or empty, at every depth.
So is an unknown argument, and a misspelled one. With ``rest`` the arguments that are not named
may hold what stands in the typed line, and whatever a catalog that is vouched for calls loose.

Rules a maintainer keeps: equal meaning need not be equal form, but equal form is equal meaning to
the type; a rule that asks one argument to be two things is an error when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from broker.admitting import Admits, admitting
from broker.conditions import (
    Absent,
    Free,
    HostIn,
    InIntent,
    LinksTyped,
    Test,
    Under,
    checked,
)
from broker.errors import InputError
from broker.language.patterns import first_unseen
from broker.language.toolnames import check_tool
from broker.limits import MAX_CONDITION_STEPS, MAX_CONDITIONS, MAX_TOOL_CHARS

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop to an argument: into a field by name, or (None) into each element of a list."""

    name: str | None
    optional: bool = False


Path = tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """What one argument must be. A list's condition is asked of every element."""

    path: Path
    test: Test


@dataclass(frozen=True, slots=True)
class Rule:
    """
    A tool's name or pattern, and what its arguments must be.

    >>> from broker.conditions import between, values
    >>> str(rule("pay", argument("to", values("A")), argument("amount", between(0, 50))))
    'pay(to="A", amount<=50)'
    """

    tool: str
    conditions: tuple[Condition, ...]
    rest: bool = False

    def __str__(self) -> str:
        from broker.language.ruletext import spell_rule  # noqa: PLC0415 - only for messages

        return spell_rule(self)

    @property
    def reads_line(self) -> bool:
        """Whether the rule looks at the line that a person typed."""
        return self.rest or any(isinstance(c.test, InIntent | LinksTyped) for c in self.conditions)


def argument(name: str, test: Test, *, optional: bool = False) -> Condition:
    """Return the condition on an argument of that name, at the top."""
    return Condition((Hop(name, optional),), test)


def rule(tool: str, *conditions: Condition, rest: bool = False) -> Rule:
    """
    Return a rule in canonical form.

    Raises:
        PatternError: the tool is no tool pattern.
        InputError: a condition is malformed, or two of them cannot stand together.
    """
    return check_rule(Rule(tool, conditions, rest))


@lru_cache(maxsize=1_024)
def check_rule(given: Rule) -> Rule:
    """
    Return a rule in canonical form; its own form is itself.

    Raises:
        PatternError, InputError: as ``rule``.
    """
    if not given.conditions and not given.rest:
        raise InputError("a rule without a condition is the tool's name alone")
    if len(given.conditions) > MAX_CONDITIONS:
        raise InputError(f"a rule has at most {MAX_CONDITIONS} conditions")
    conditions = tuple([_checked_condition(c) for c in given.conditions])
    found = Rule(check_tool(given.tool), conditions, bool(given.rest))
    node_of(found)  # two conditions that contradict each other's shape
    return found


def _checked_condition(given: Condition) -> Condition:
    path = given.path
    if not 0 < len(path) <= MAX_CONDITION_STEPS:
        raise InputError(f"a condition is 1 to {MAX_CONDITION_STEPS} steps deep")
    if path[0].name is None:
        raise InputError("a condition begins with an argument's name")
    for step in path:
        if step.name is None:
            if step.optional:
                raise InputError("an argument may be left out, an element of a list cannot")
        elif not 0 < len(step.name) <= MAX_TOOL_CHARS or first_unseen(step.name) >= 0:
            raise InputError("an argument's name is empty, too long, or holds invisible characters")
    if isinstance(given.test, Absent) and path[-1].name is None:
        raise InputError("an argument may be absent, an element of a list cannot")
    return Condition(path, checked(given.test))


# ── a rule as a tree ──


class Node:
    """
    What one place in the arguments must be: an object, a list, or one value.

    ``fields`` (an object's), ``each`` (a list's elements) and ``tests`` (a value's) exclude each
    other; all empty: free where ``free``, else absent.
    """

    __slots__ = (
        *("each", "fields", "free", "needed", "optional", "placed", "ready", "required", "tests"),
    )

    def __init__(self, optional: bool) -> None:
        self.optional = optional
        self.fields: dict[str, Node] = {}
        self.required: tuple[str, ...] = ()
        self.each: Node | None = None
        self.tests: list[Test] = []
        self.ready: tuple[Admits, ...] = ()
        self.needed = 0  # 1 where it may not be left out
        self.placed = False  # whether a test looks at the subject that was read here
        self.free = False

    @property
    def absent(self) -> bool:
        """Whether nothing may stand here."""
        return not (self.fields or self.each or self.tests or self.free)

    def child(self, step: Hop) -> Node:
        """Return the node of a step, made when it is not there."""
        if step.name is None:
            self.each = self.each or Node(False)
            return self.each
        found = self.fields.setdefault(step.name, Node(True))
        found.optional = found.optional and step.optional
        return found


@lru_cache(maxsize=1_024)
def node_of(rule: Rule) -> Node:
    """
    Return the tree of a rule.

    Raises:
        InputError: two conditions want one argument to be different things.
    """
    root = Node(False)
    absent: list[Node] = []
    for condition in rule.conditions:
        node = root
        for step in condition.path:
            node = node.child(step)
        test = condition.test
        if isinstance(test, Absent):
            absent.append(node)
            node.optional = True
        elif isinstance(test, Free):
            node.free = node.optional = True
        elif any(type(test) is type(other) for other in node.tests):
            raise InputError(f"`{_label(condition.path)}` is given twice: join the two")
        else:
            node.tests.append(test)
    if any(not node.absent for node in absent):
        raise InputError("an argument is to be absent, and something else too")
    _finish(root)
    return root


def _finish(node: Node) -> None:
    shapes = (bool(node.fields), node.each is not None, bool(node.tests), node.free)
    if sum(shapes) > 1:
        raise InputError("one argument is asked to be a value, a list and an object at once")
    node.required = tuple(name for name, child in node.fields.items() if not child.optional)
    node.ready = tuple([admitting(test) for test in node.tests])
    node.placed = any(isinstance(test, HostIn | Under) for test in node.tests)
    node.needed = int(not node.optional)
    for child in (*node.fields.values(), *([node.each] if node.each else ())):
        _finish(child)


def _label(path: Path) -> str:
    from broker.language.ruletext import spell_path  # noqa: PLC0415 - only for messages

    return spell_path(path)
