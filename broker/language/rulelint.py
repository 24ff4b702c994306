"""
What a catalog knows of a tool, held against a rule that was typed for it.

Decided here: which rules are surely slips and so errors (an argument that the tool does not have,
a condition of the wrong kind, one that can never hold), and what a rule means by what the
catalog says: that a list's condition is asked of each element, that an address may be spelled
with or without ``https://``, and which arguments are free text and so stay open.

Rules a maintainer keeps: only a catalog that is vouched for is believed (ADR-0007); what opens an
argument is written into the rule, so that a ticket says all by itself and a catalog that changes
later changes no ticket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

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
    values,
)
from broker.errors import InputError
from broker.globs import tools_cover
from broker.language.conjunction import satisfiable
from broker.language.pieces import fault
from broker.language.rulereading import Typed, TypedRule
from broker.language.ruletext import spell_path, spell_value
from broker.language.scopehelp import nearest
from broker.rules import Hop, Path, Rule


class KnownArgument(Protocol):
    """What a catalog says of one argument."""

    @property
    def role(self) -> str:
        """What it means: one of the roles of a catalog."""
        ...

    @property
    def many(self) -> bool:
        """Whether it is a list."""
        ...

    @property
    def fields(self) -> Mapping[str, KnownArgument] | None:
        """What is inside it, when it holds an object."""
        ...


class KnownTool(Protocol):
    """What a catalog says of one tool."""

    @property
    def arguments(self) -> Mapping[str, KnownArgument]:
        """The arguments that are listed."""
        ...

    @property
    def others(self) -> str:
        """``text`` where arguments that are not listed are plain text."""
        ...

    @property
    def vouched(self) -> bool:
        """Whether the person or the package stands behind it."""
        ...


Lookup = Callable[[str], KnownTool | None]

_TEXT: Final = frozenset(("text", "search-regex"))
_ADDRESSES: Final = frozenset(("url", "address", "proxy-url", "file-url"))
_NUMBERS: Final = frozenset(("amount", "identifier", "text"))
_DAYS: Final = frozenset(("date", "text"))
_TEXTS_ONLY: Final = frozenset(("recipient", "date"))


def linted(text: str, typed: TypedRule, lookup: Lookup | None) -> tuple[Rule, list[str]]:
    """
    Return the rule that is meant, and warnings for whoever typed it.

    Args:
        text: the scope text, for the places in messages.
        typed: the rule as it was typed.
        lookup: what is known of a tool by its name; None: nothing is looked up.

    Raises:
        ScopeError: the rule is surely a slip.
    """
    warnings: list[str] = []
    if lookup is not None and "*" not in typed.tool:
        known = lookup(typed.tool)
        if known is not None and known.vouched:
            typed = _by_catalog(text, typed, known)
        else:
            warnings.append(
                f"no catalog describes `{typed.tool}`: whatever its rule does not name is refused"
            )
    rule = typed.rule(text)
    _refuse_impossible(text, typed)
    warnings += _starred(typed)
    return rule, warnings


def _starred(typed: TypedRule) -> Iterator[str]:
    """Yield a warning for each value that was meant for a pattern: none is one."""
    for condition in typed.conditions:
        for value in condition.test.texts if isinstance(condition.test, Values) else ():
            if "*" in value:
                yield (
                    f"`{spell_path(condition.path)}` of `{typed.tool}`: {spell_value(value)} is "
                    "that very text, for a `*` in a value stands for itself"
                )


def _refuse_impossible(text: str, typed: TypedRule) -> None:
    at: dict[Path, list[Typed]] = {}
    for condition in typed.conditions:
        at.setdefault(condition.path, []).append(condition)
    for path, asked in at.items():
        tests = [c.test for c in asked if not isinstance(c.test, Absent | Free)]
        if tests and not satisfiable(tests):
            message = f"what is asked of `{spell_path(path)}` can never hold"
            raise fault(text, message, asked[-1].asked)


# ── by what a catalog says ──


def _by_catalog(text: str, typed: TypedRule, known: KnownTool) -> TypedRule:
    conditions = [_placed(text, typed, c, known) for c in typed.conditions]
    if not typed.rest:
        conditions += _open(known.arguments, (), conditions)
    return replace(typed, conditions=tuple(conditions))


def _placed(text: str, typed: TypedRule, given: Typed, known: KnownTool) -> Typed:
    """Return the condition with each list looked into, and its values as the role reads them."""
    path: list[Hop] = []
    steps = list(given.path)
    fields: Mapping[str, KnownArgument] | None = known.arguments
    argument: KnownArgument | None = None
    loose = known.others == "text"
    while steps:
        step = steps.pop(0)
        if step.name is None:
            if argument is not None:
                message = f"`{spell_path(tuple(path))}` of `{typed.tool}` is no list"
                raise fault(text, message, given.start, "leave the `[]` out")
            path.append(step)
            continue
        if fields is None or step.name not in fields:
            if loose and not path:
                return given
            inside = f"`{spell_path(tuple(path))}` of " if path else ""
            where = f"{inside}`{typed.tool}`"
            raise _no_argument(text, given, where, step.name, fields or {})
        path.append(step)
        argument, loose = fields[step.name], False
        fields = argument.fields
        ends_whole = not steps and isinstance(given.test, Free | Absent)
        if argument.many and not ends_whole:
            if steps and steps[0].name is None:
                steps.pop(0)
            path.append(Hop(None))
    test = (
        given.test if argument is None else _fitting(text, given, argument, spell_path(given.path))
    )
    return replace(given, path=tuple(path), test=test)


def _no_argument(
    text: str, given: Typed, where: str, name: str, fields: Mapping[str, KnownArgument]
) -> InputError:
    meant = nearest(name, fields)
    if meant is None and fields:
        meant = f"its arguments are {', '.join(sorted(fields))}"
    return fault(text, f"{where} has no argument `{name}`", given.start, meant)


def _fitting(text: str, given: Typed, argument: KnownArgument, name: str) -> Test:
    test, role = given.test, argument.role
    if isinstance(test, Free | Absent):
        return test
    if argument.fields is not None:
        inside = next(iter(argument.fields), "name")
        message = f"`{name}` holds an object: say what of it is meant"
        raise fault(text, message, given.start, f"such as `{name}{'[]' * argument.many}.{inside}`")
    path = role.startswith("path-") or role in ("cwd", "glob-in", "link-target")
    wrong = None
    if isinstance(test, Range) and role not in _NUMBERS:
        wrong = "is no number"
    elif isinstance(test, On) and role not in _DAYS:
        wrong = "is no date"
    elif isinstance(test, HostIn) and role not in _ADDRESSES:
        wrong = "is no address"
    elif isinstance(test, Under) and not path:
        wrong = "is no path"
    elif isinstance(test, Links | LinksTyped) and role not in _TEXT:
        wrong = "is no free text"
    elif isinstance(test, Values):
        if role == "amount" and (test.texts or test.flags):
            wrong = "is a number; write it without quotes"
        elif (path or role in _ADDRESSES | _TEXTS_ONLY) and (test.numbers or test.flags):
            wrong = "is a text; write it in quotes"
        elif role in _ADDRESSES:
            return values(*dict.fromkeys(v for t in test.texts for v in _addresses(t)))
    if wrong is not None:
        raise fault(text, f"`{name}` {wrong} ({role})", given.asked)
    return test


def _addresses(text: str) -> Iterator[str]:
    """Yield the spellings of one address: with a scheme where it has none, a bare host with `/`."""
    scheme, there, _ = text.partition("://")
    for full in (text,) if there and scheme else (text, f"https://{text}", f"http://{text}"):
        yield full
        rest = full.partition("://")[2] or full
        if rest and not any(sign in rest for sign in "/?#"):
            yield full + "/"


def _open(
    fields: Mapping[str, KnownArgument], inside: Path, conditions: Sequence[Typed]
) -> Iterator[Typed]:
    """Yield what keeps free text open: beside what is named, and inside what is looked into."""
    depth = len(inside)
    for name, argument in fields.items():
        named = [c for c in conditions if _below(c.path, inside) and _name(c.path, depth) == name]
        if not named:
            if argument.role in _TEXT:
                path = (*inside, Hop(name))
                yield Typed(path, Free(), conditions[0].start, conditions[0].asked)
        elif argument.fields is not None:
            deeper = next((c.path for c in named if len(c.path) > depth + 1), None)
            if deeper is not None:
                end = depth + (2 if deeper[depth + 1].name is None else 1)
                yield from _open(argument.fields, deeper[:end], conditions)


def _below(path: Path, inside: Path) -> bool:
    return [s.name for s in path[: len(inside)]] == [s.name for s in inside]


def _name(path: Path, depth: int) -> str | None:
    return path[depth].name if len(path) > depth else None


# ── beside one another ──


def overshadowed(items: Sequence[str | Rule], spelled: Sequence[str]) -> list[str]:
    """
    Return a warning for each rule that another item of the list makes idle.

    Args:
        items: the patterns and rules of one list.
        spelled: the items as typed, groups by their name.
    """
    plain = tuple([item for item in items if isinstance(item, str)])
    rules = [item for item in items if not isinstance(item, str)]
    warnings = []
    for rule in rules:
        if plain and tools_cover(plain, (rule.tool,)) is None:
            by = next((p for p in plain if tools_cover((p,), (rule.tool,)) is None), plain[0])
            group = next((s for s in spelled if s.startswith("@")), "")
            named = f"`{by}`" if by in spelled or not group else f"`{group}`"
            warnings.append(
                f"the conditions on `{rule.tool}` change nothing: {named} allows it without any"
            )
            continue
        wider = next(
            (
                r.tool
                for r in rules
                if r.tool != rule.tool and tools_cover((r.tool,), (rule.tool,)) is None
            ),
            None,
        )
        if wider is not None:
            warnings.append(
                f"`{rule.tool}` passes by its own rule or by that of `{wider}`: either is enough"
            )
    return warnings


def reads_line(items: Sequence[str | Rule]) -> bool:
    """Whether a rule of the list looks at the line that a person typed."""
    return any(not isinstance(item, str) and item.reads_line for item in items)


def needs_reads(items: Sequence[str | Rule]) -> bool:
    """Whether the list holds ``*(... in intent)``, which speaks of what writes and sends alone."""
    return any(
        not isinstance(i, str) and i.tool == "*" and i.rest and not i.conditions for i in items
    )


__all__ = ["InIntent", "KnownTool", "Lookup", "linted", "needs_reads", "overshadowed", "reads_line"]
