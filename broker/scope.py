"""
Scope text to caveats: reading what a person typed.

Decided here: how ``KEY=VALUE`` texts become caveats, and which well-formed scopes are surely
slips. Deliberately not: what the text may look like (``grammar/scope.lark``), what a pattern
means (``broker.globs``, ``broker.hosts``), how a fault is explained
(``broker.language.scopehelp``), where a policy is found (``broker.policy``), how caveats are
written (``broker.language.scopetext``).

Rules a maintainer keeps: sizes and control characters are checked before the text reaches the
parser; every fault is a ``ScopeError`` with its place; nothing is dropped in silence;
``parse_scope(render(x)) == x``. lark is imported inside a function, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from broker.caveats import Caveat
from broker.errors import InputError, PatternError, PolicyError, ScopeError
from broker.globs import check_path, check_tool
from broker.hosts import check_host
from broker.instants import format_instant, parse_until
from broker.language.pieces import Piece, fault, moved, unquote
from broker.language.scopehelp import explain_expect, explain_scope, nearest, split_hint, unseen
from broker.language.scopetext import render, spell
from broker.language.slips import Pair, never_passes, refuse_disjoint_tools, repeated
from broker.limits import (
    MAX_ARGUMENT_DEPTH,
    MAX_CALLS,
    MAX_CAVEATS,
    MAX_SCOPE_CHARS,
    MAX_SCOPE_ITEMS,
    MAX_SCOPE_PATTERNS,
    MAX_SCOPE_TEXTS,
)

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    from broker.language.rulelint import Lookup
    from broker.rules import Rule

__all__ = ["Piece", "Scope", "parse_scope", "render"]

Groups = Mapping[str, frozenset[str]]
Policies = Callable[[str], Sequence[str]]

CHECKS: Final = {
    "tools": check_tool,
    "paths": check_path,
    "reads": check_path,
    "writes": check_path,
    "hosts": check_host,
}
# Rightly spelled, but more likely a slip than a name.
_ODD: Final = re.compile(r"\A[-=>]|[;|]|\A[^\S ]|[^\S ]\Z")


@dataclass(frozen=True, slots=True)
class Scope:
    """What a person typed: the caveats in order, and warnings for whoever typed it."""

    caveats: tuple[Caveat, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reading:
    """What every text of one scope is read against."""

    at: int
    groups: Groups | None
    past_ok: bool
    lookup: Lookup | None


def parse_scope(
    texts: str | Sequence[str],
    *,
    at: int,
    groups: Groups | None = None,
    policies: Policies | None = None,
    past_ok: bool = False,
    lookup: Lookup | None = None,
) -> Scope:
    """
    Read ``KEY=VALUE`` and ``@policy`` texts as caveats, in order.

    Args:
        texts: one text, or a list of them; what was typed, so anything may be in it.
        at: the instant from which durations count, nanoseconds since the Unix epoch.
        groups: the tools behind each ``@group`` name.
        policies: gives the KEY=VALUE texts of a named policy.
        past_ok: read an ``until`` that is over already, as in an old record.
        lookup: what a catalog says of a tool, for rules that look into its arguments; without
            it they are taken as typed, and so is what was rendered before.

    Raises:
        ScopeError: a text is malformed, or nothing could ever pass; says where and what.

    >>> parse_scope(["tools=read, grep", "calls=5"], at=0).caveats[0]
    Caveat(kind='tools', value=('read', 'grep'))
    >>> parse_scope("path=src", at=0)
    Traceback (most recent call last):
    broker.errors.ScopeError: no such key `path`
    """
    reading = _Reading(at, groups, past_ok, lookup)
    caveats: list[Caveat] = []
    warnings: list[str] = []
    typed: list[Pair] = []
    patterns = 0
    for text in _checked_list(texts):
        before = len(caveats)
        if text.lstrip(" ").startswith("@"):
            part = _read_policy(text, reading, policies)
            warnings += part.warnings
            caveats += part.caveats
        else:
            pair = _read_pair(text, reading)
            warnings += pair.warnings
            typed.append(pair)
            caveats.append(pair.caveat)
        if len(caveats) > MAX_CAVEATS:
            raise ScopeError(f"more than {MAX_CAVEATS} caveats in one scope", text=text)
        patterns += sum(len(c.value) for c in caveats[before:] if isinstance(c.value, tuple))
        if patterns > MAX_SCOPE_PATTERNS:
            raise ScopeError(
                f"the lists of a scope hold more than {MAX_SCOPE_PATTERNS} items together: "
                "name folders, or use a wildcard"
            )
    refuse_disjoint_tools(caveats)
    warnings += repeated(typed)
    warnings += never_passes(caveats)
    return Scope(tuple(caveats), tuple(dict.fromkeys(warnings)))


# ── reading ──


def _checked_list(texts: object) -> list[str]:
    """Return the texts as a list: all strings, of a sane size, without control characters."""
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list | tuple):
        raise ScopeError("a scope is a list of texts such as `paths=src/**`")
    if len(texts) > MAX_SCOPE_TEXTS:
        raise ScopeError(f"more than {MAX_SCOPE_TEXTS} texts in one scope")
    for text in texts:
        if not isinstance(text, str):
            kind = type(text).__name__
            raise ScopeError(f"a scope text is a string such as `paths=src/**`, not `{kind}`")
        check_text(text)
    return list(texts)


def check_text(text: str) -> None:
    """
    Check what no parser should be asked to read: size, control and invisible characters.

    Raises:
        ScopeError: too long, or a character that no scope text may hold.
    """
    if len(text) > MAX_SCOPE_CHARS:
        shown = text[: MAX_SCOPE_CHARS + 60]
        raise fault(shown, f"a text has at most {MAX_SCOPE_CHARS} characters", MAX_SCOPE_CHARS)
    hidden = unseen(text)
    if hidden is not None:
        raise fault(text, *hidden)


def _read_policy(text: str, reading: _Reading, policies: Policies | None) -> Scope:
    piece = parse_pieces(text, "scope")[0]
    name = piece.text[1:]
    if policies is None:
        raise fault(text, f"policies cannot be named here: `@{name}`", piece.start)
    try:
        # A policy's texts are flat: what it includes stands in its place already.
        return parse_scope(
            tuple(policies(name)),
            at=reading.at,
            groups=reading.groups,
            past_ok=reading.past_ok,
            lookup=reading.lookup,
        )
    except PolicyError as error:
        raise moved(text, error, piece.start) from error
    except ScopeError as error:
        error.where = error.where or f"@{name}"
        raise


def _read_pair(text: str, reading: _Reading) -> Pair:
    key, *items = parse_pieces(text, "scope")
    first = items[0]
    if first.name == "NONE":
        return Pair(Caveat(key.text, ()))
    if first.name == "COUNT":
        if int(first.text) > MAX_CALLS:
            raise fault(text, f"`calls` is at most {MAX_CALLS}", first.start)
        return Pair(Caveat(key.text, int(first.text)))
    if key.text == "until":
        return Pair(Caveat(key.text, _read_until(text, first, reading)))
    if len(items) > MAX_SCOPE_ITEMS:
        message = f"a list has at most {MAX_SCOPE_ITEMS} items"
        raise fault(text, message, items[MAX_SCOPE_ITEMS].start)
    values: list[str | Rule] = []
    spelled: list[str] = []
    warnings: list[str] = []
    for item in items:
        if item.name == "rule":
            rule, slips = _read_rule(text, item, reading)
            values.append(rule)
            spelled.append(str(rule))
            warnings += slips
            continue
        if item.name == "GROUP":
            values += _read_group(text, item, reading.groups)
            spelled.append(item.text)
            continue
        pattern = _read_item(text, key.text, item)
        values.append(pattern)
        spelled.append(spell(key.text, pattern))
        if item.name == "PLACE" and _ODD.search(item.text):
            warnings.append(
                f"`{item.text}` is read as one name; items are split by commas, "
                f'and a name of that spelling is better quoted: "{item.text}"'
            )
    if any(not isinstance(value, str) for value in values):
        values, slips = _beside(text, items, values, spelled, reading)
        warnings += slips
    values = list(dict.fromkeys(values))
    if len(values) > MAX_SCOPE_ITEMS:
        raise fault(text, f"a list has at most {MAX_SCOPE_ITEMS} items", first.start)
    return Pair(Caveat(key.text, tuple(values)), tuple(spelled), tuple(warnings))


def _read_rule(text: str, item: Piece, reading: _Reading) -> tuple[Rule, list[str]]:
    from broker.language.rulelint import linted  # noqa: PLC0415 - most scopes hold no rule
    from broker.language.rulereading import read_rule  # noqa: PLC0415 - as above

    return linted(text, read_rule(text, item), reading.lookup)


def _beside(
    text: str,
    items: Sequence[Piece],
    values: list[str | Rule],
    spelled: Sequence[str],
    reading: _Reading,
) -> tuple[list[str | Rule], list[str]]:
    """Return what a list with rules comes to as a whole, and what is idle in it."""
    from broker.language.rulelint import needs_reads, overshadowed  # noqa: PLC0415 - as above

    warnings = overshadowed(values, spelled)
    if needs_reads(values) and reading.groups is not None:
        # It speaks of what a tool writes and sends: those that only read stay open, by name.
        start = next(p.start for p in items if p.name == "rule")
        values = [*_read_group(text, Piece("GROUP", "@reads", start), reading.groups), *values]
    return values, warnings


def _read_until(text: str, item: Piece, reading: _Reading) -> int:
    try:
        at = parse_until(item.text, reading.at)
    except InputError as error:
        raise moved(text, error, item.start) from error
    if at <= reading.at and not reading.past_ok:
        raise fault(
            text,
            f"`{item.text}` is not in the future",
            item.start,
            f"it is {format_instant(reading.at)} now; a duration such as `45m` counts from now",
        )
    return at


def _read_group(text: str, item: Piece, groups: Groups | None) -> list[str]:
    name = item.text[1:]
    known = {} if groups is None else groups
    try:
        return sorted(known[name])
    except KeyError:
        hint = nearest(name, known)
        raise fault(
            text, f"no such group of tools `@{name}`", item.start, hint and f"@{hint}"
        ) from None


def _read_item(text: str, kind: str, item: Piece) -> str:
    inner = item.text
    places: Sequence[int] = range(len(inner) + 1)
    if item.name == "QUOTED":
        inner, places = unquote(item.text)
    try:
        return CHECKS[kind](inner)
    except PatternError as error:
        within = places[min(max(error.offset, 0), len(inner))]
        hint = split_hint(inner, CHECKS[kind], quoted=item.name == "QUOTED") or error.hint
        raise fault(text, error.message, item.start + within, hint) from error


# ── the parser ──


@cache
def _grammar() -> Lark:
    from importlib.resources import files  # noqa: PLC0415 - only where a text is parsed

    from lark import Lark  # noqa: PLC0415 - only where a text is parsed

    source = files("broker.grammar").joinpath("scope.lark").read_text(encoding="utf-8")
    return Lark(source, parser="lalr", lexer="contextual", start=["scope", "expect"])


def parse_pieces(text: str, start: str) -> tuple[Piece, ...]:
    """
    Return the parts of a text that the rule ``start`` of the grammar describes.

    Args:
        text: at most ``MAX_SCOPE_CHARS`` characters, which ``check_text`` holds.
        start: ``scope`` or ``expect``.

    Raises:
        ScopeError: the text does not follow the grammar; says where and what.
    """
    from lark.exceptions import UnexpectedInput, UnexpectedToken  # noqa: PLC0415 - as above

    try:
        tree = _grammar().parse(text, start=start)
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        offset = len(text) if at_end else int(error.pos_in_stream or 0)
        explain = explain_scope if start == "scope" else explain_expect
        raise explain(text, offset) from None
    return _piece(text, tree, 0).parts


def _piece(text: str, tree: Tree[Token] | Token, depth: int) -> Piece:
    if depth > MAX_ARGUMENT_DEPTH:
        raise fault(text, f"nested deeper than {MAX_ARGUMENT_DEPTH}", 0)
    if isinstance(tree, str):
        return Piece(tree.type, str(tree), tree.start_pos or 0)
    parts = tuple(_piece(text, child, depth + 1) for child in tree.children)
    return Piece(str(tree.data), "", parts[0].start if parts else 0, parts)
