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
from broker.language.scopehelp import explain_expect, explain_scope, nearest, split_hint, unseen
from broker.language.scopetext import brief, render, spell
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

__all__ = ["Scope", "parse_scope", "render"]

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


@dataclass(frozen=True, slots=True)
class _Pair:
    """One KEY=VALUE text that was read; ``spelled`` are a list's items, groups by their name."""

    caveat: Caveat
    spelled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a parsed text: a terminal, or a rule with parts of its own."""

    name: str
    text: str
    start: int
    parts: tuple[Piece, ...] = ()


def parse_scope(
    texts: str | Sequence[str],
    *,
    at: int,
    groups: Groups | None = None,
    policies: Policies | None = None,
    past_ok: bool = False,
) -> Scope:
    """
    Read ``KEY=VALUE`` and ``@policy`` texts as caveats, in order.

    Args:
        texts: one text, or a list of them; what was typed, so anything may be in it.
        at: the instant from which durations count, nanoseconds since the Unix epoch.
        groups: the tools behind each ``@group`` name.
        policies: gives the KEY=VALUE texts of a named policy.
        past_ok: read an ``until`` that is over already, as in an old record.

    Raises:
        ScopeError: a text is malformed, or nothing could ever pass; says where and what.

    >>> parse_scope(["tools=read, grep", "calls=5"], at=0).caveats[0]
    Caveat(kind='tools', value=('read', 'grep'))
    >>> parse_scope("path=src", at=0)
    Traceback (most recent call last):
    broker.errors.ScopeError: no such key `path`
    """
    reading = _Reading(at, groups, past_ok)
    caveats: list[Caveat] = []
    warnings: list[str] = []
    typed: list[_Pair] = []
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
    _refuse_disjoint_tools(caveats)
    warnings += _repeated(typed)
    warnings += _never_passes(caveats)
    return Scope(tuple(caveats), tuple(dict.fromkeys(warnings)))


# ── reading ──


def _fault(text: str, message: str, offset: int, hint: str | None = None) -> ScopeError:
    return ScopeError(message, text=text, offset=offset, hint=hint)


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
        raise _fault(shown, f"a text has at most {MAX_SCOPE_CHARS} characters", MAX_SCOPE_CHARS)
    hidden = unseen(text)
    if hidden is not None:
        raise _fault(text, *hidden)


def _read_policy(text: str, reading: _Reading, policies: Policies | None) -> Scope:
    piece = parse_pieces(text, "scope")[0]
    name = piece.text[1:]
    if policies is None:
        raise _fault(text, f"policies cannot be named here: `@{name}`", piece.start)
    try:
        # A policy's texts are flat: what it includes stands in its place already.
        return parse_scope(
            tuple(policies(name)), at=reading.at, groups=reading.groups, past_ok=reading.past_ok
        )
    except PolicyError as error:
        raise _moved(text, error, piece.start) from error
    except ScopeError as error:
        error.where = error.where or f"@{name}"
        raise


def _read_pair(text: str, reading: _Reading) -> _Pair:
    key, *items = parse_pieces(text, "scope")
    first = items[0]
    if first.name == "NONE":
        return _Pair(Caveat(key.text, ()))
    if first.name == "COUNT":
        if int(first.text) > MAX_CALLS:
            raise _fault(text, f"`calls` is at most {MAX_CALLS}", first.start)
        return _Pair(Caveat(key.text, int(first.text)))
    if key.text == "until":
        return _Pair(Caveat(key.text, _read_until(text, first, reading)))
    if len(items) > MAX_SCOPE_ITEMS:
        message = f"a list has at most {MAX_SCOPE_ITEMS} items"
        raise _fault(text, message, items[MAX_SCOPE_ITEMS].start)
    values: list[str] = []
    spelled: list[str] = []
    warnings: list[str] = []
    for item in items:
        if item.name == "GROUP":
            values += _read_group(text, item, reading.groups)
            spelled.append(item.text)
            continue
        values.append(_read_item(text, key.text, item))
        spelled.append(spell(key.text, values[-1]))
        if item.name == "PLACE" and _ODD.search(item.text):
            warnings.append(
                f"`{item.text}` is read as one name; items are split by commas, "
                f'and a name of that spelling is better quoted: "{item.text}"'
            )
    values = list(dict.fromkeys(values))
    if len(values) > MAX_SCOPE_ITEMS:
        raise _fault(text, f"a list has at most {MAX_SCOPE_ITEMS} items", first.start)
    return _Pair(Caveat(key.text, tuple(values)), tuple(spelled), tuple(warnings))


def _read_until(text: str, item: Piece, reading: _Reading) -> int:
    try:
        at = parse_until(item.text, reading.at)
    except InputError as error:
        raise _moved(text, error, item.start) from error
    if at <= reading.at and not reading.past_ok:
        raise _fault(
            text,
            f"`{item.text}` is not in the future",
            item.start,
            f"it is {format_instant(reading.at)} now; a duration such as `45m` counts from now",
        )
    return at


def _moved(text: str, error: InputError, start: int) -> ScopeError:
    """Return an error about a part of the text as one about the whole."""
    offset, hint = error.detail.get("offset"), error.detail.get("hint")
    within = offset if isinstance(offset, int) else 0
    return _fault(text, error.message, start + within, hint if isinstance(hint, str) else None)


def _read_group(text: str, item: Piece, groups: Groups | None) -> list[str]:
    name = item.text[1:]
    known = {} if groups is None else groups
    try:
        return sorted(known[name])
    except KeyError:
        hint = nearest(name, known)
        raise _fault(
            text, f"no such group of tools `@{name}`", item.start, hint and f"@{hint}"
        ) from None


def _read_item(text: str, kind: str, item: Piece) -> str:
    inner = item.text
    places: Sequence[int] = range(len(inner) + 1)
    if item.name == "QUOTED":
        inner, places = _unquote(item.text)
    try:
        return CHECKS[kind](inner)
    except PatternError as error:
        within = places[min(max(error.offset, 0), len(inner))]
        hint = split_hint(inner, CHECKS[kind], quoted=item.name == "QUOTED") or error.hint
        raise _fault(text, error.message, item.start + within, hint) from error


def _unquote(quoted: str) -> tuple[str, Sequence[int]]:
    r"""Return what stands between the quotes, ``\"`` as a quote, and each character's place."""
    inner: list[str] = []
    places: list[int] = []
    place, end = 1, len(quoted) - 1
    while place < end:
        width = 2 if quoted[place] == "\\" else 1
        unit = quoted[place : place + width]
        kept = '"' if unit == '\\"' else unit
        places += range(place + width - len(kept), place + width)
        inner.append(kept)
        place += width
    return "".join(inner), [*places, end]


# ── slips that are spelled rightly ──


def _repeated(typed: Sequence[_Pair]) -> list[str]:
    """Return a warning for each key that was typed more than once."""
    warnings = []
    by_kind: dict[str, list[_Pair]] = {}
    for pair in typed:
        by_kind.setdefault(pair.caveat.kind, []).append(pair)
    for kind, several in by_kind.items():
        if len(several) < 2:
            continue
        if isinstance(several[0].caveat.value, tuple):
            either = list(dict.fromkeys(item for pair in several for item in pair.spelled))
            how = f"to allow either, write one list: {brief(kind, either or ['none'])}"
        else:
            how = "the smaller one counts" if kind == "calls" else "the earlier one counts"
        warnings.append(f"`{kind}` is given {len(several)} times and all must hold; {how}")
    return warnings


def _refuse_disjoint_tools(caveats: Sequence[Caveat]) -> None:
    """Refuse lists of plain tool names that have none in common: no call can ever pass."""
    common: set[str] | None = None
    for caveat in caveats:
        names = caveat.value
        if caveat.kind != "tools" or not isinstance(names, tuple) or not names:
            continue
        if any("*" in name for name in names):
            continue
        shared = set(names) if common is None else common.intersection(names)
        if not shared:
            text = brief("tools", [spell("tools", name) for name in names])
            raise _fault(
                text,
                "no tool stands in every `tools` list, so no call could ever pass",
                text.index("=") + 1,
                "all lists must hold; to allow either, write one list",
            )
        common = shared


def _never_passes(caveats: Sequence[Caveat]) -> list[str]:
    return [
        f"`{render([caveat])[0]}` allows no call at all"
        for caveat in caveats
        if (caveat.kind == "calls" and caveat.value == 0)
        or (caveat.kind == "tools" and caveat.value == ())
    ]


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
        raise _fault(text, f"nested deeper than {MAX_ARGUMENT_DEPTH}", 0)
    if isinstance(tree, str):
        return Piece(tree.type, str(tree), tree.start_pos or 0)
    parts = tuple(_piece(text, child, depth + 1) for child in tree.children)
    return Piece(str(tree.data), "", parts[0].start if parts else 0, parts)
