"""
The caveat kinds: what each says, and when one is at least as strict as another.

Decided here: which kinds exist, what a value of each kind looks like, and ``covers``, the
comparison by meaning that delegation stands on. Not decided here: whether a call is admitted
(``broker.authorize``), how a person types a caveat (``broker.scope``).

Rules a maintainer keeps: a caveat can only take authority away; a kind that is absent means
unrestricted, an empty list means nothing; comparison is by the language that the patterns
describe, never by their spelling. Equal spelling is only ever a shortcut to *yes*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import InputError
from broker.globs import check_path, check_tool, paths_cover, tools_cover
from broker.hosts import check_host, hosts_cover
from broker.limits import MAX_CALLS

if TYPE_CHECKING:
    from broker.rules import Rule

KINDS: Final = ("tools", "paths", "reads", "writes", "hosts", "calls", "until")
LISTS: Final = frozenset(("tools", "paths", "reads", "writes", "hosts"))
NUMBERS: Final = frozenset(("calls", "until"))

# A caveat of the kind on the left must also fit under the kinds on the right: who may write
# below `paths` alone may not be handed a `writes` that reaches outside of it.
BOUNDS: Final = {
    "tools": ("tools",),
    "paths": ("paths",),
    "reads": ("reads", "paths"),
    "writes": ("writes", "paths"),
    "hosts": ("hosts",),
    "calls": ("calls",),
    "until": ("until",),
}


class Caveat(NamedTuple):
    """
    One condition that can only take authority away.

    ``value`` is a tuple of canonical patterns for the list kinds (empty: nothing), a number of
    calls for ``calls``, nanoseconds since the Unix epoch for ``until``. An item of ``tools`` may
    be a rule instead of a pattern. Build one with the functions below, which check what they are
    given.

    >>> paths("./src/**", "docs")
    Caveat(kind='paths', value=('src/**', 'docs'))
    """

    kind: str
    value: tuple[str | Rule, ...] | int


def patterns(items: tuple[str | Rule, ...]) -> tuple[str, ...]:
    """Return the patterns of a list, without the rules in it."""
    return tuple([item for item in items if isinstance(item, str)])


def rules(items: tuple[str | Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules of a `tools` list."""
    return tuple([item for item in items if not isinstance(item, str)])


def _once(items: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def tools(*items: str | Rule) -> Caveat:
    """Admit calls of tools whose name fits one pattern, or that fit one rule; none given: none."""
    return Caveat("tools", tuple(dict.fromkeys(map(_tool, items))))


def _tool(item: str | Rule) -> str | Rule:
    if isinstance(item, str):
        return check_tool(item)
    from broker.rules import check_rule  # noqa: PLC0415 - most lists hold none

    return check_rule(item)


def paths(*items: str) -> Caveat:
    """Admit calls all of whose paths fit one pattern; none given: no path."""
    return Caveat("paths", _once([check_path(p) for p in items]))


def reads(*items: str) -> Caveat:
    """Admit calls that read only paths that fit one pattern."""
    return Caveat("reads", _once([check_path(p) for p in items]))


def writes(*items: str) -> Caveat:
    """Admit calls that write only paths that fit one pattern."""
    return Caveat("writes", _once([check_path(p) for p in items]))


def hosts(*items: str) -> Caveat:
    """Admit calls all of whose URLs lead to a host that fits one pattern."""
    return Caveat("hosts", _once([check_host(p) for p in items]))


def calls(number: int) -> Caveat:
    """
    Admit a call while fewer than ``number`` calls were allowed in the whole ticket tree.

    Raises:
        InputError: not a whole number from 0 to 2^31-1.
    """
    if type(number) is not int or not 0 <= number <= MAX_CALLS:
        raise InputError(f"`calls` is a whole number from 0 to {MAX_CALLS}")
    return Caveat("calls", number)


def until(at: int) -> Caveat:
    """
    Admit a call before the instant ``at``, nanoseconds since the Unix epoch, UTC.

    Raises:
        InputError: not a whole number of nanoseconds.
    """
    if type(at) is not int:
        raise InputError("`until` is a whole number of nanoseconds since 1970")
    return Caveat("until", at)


def covers(wide: Caveat, narrow: Caveat) -> str | None:
    """
    Return None when every call that ``narrow`` admits is admitted by ``wide``, by meaning.

    Otherwise return the value of ``narrow`` that widens, for a message. ``wide`` may be of a
    kind that bounds ``narrow``'s (see ``BOUNDS``); other pairs do not compare.

    >>> covers(paths("src/**"), paths("src/*.py", "src/a/b"))
    >>> covers(tools("read", "grep"), tools("grep", "shell"))
    'shell'

    Raises:
        InputError: the two kinds do not compare, or a kind is unknown.
    """
    if wide.kind not in BOUNDS.get(narrow.kind, ()):
        raise InputError(f"a `{narrow.kind}` caveat does not compare with `{wide.kind}`")
    if wide.value == narrow.value:
        # Equal patterns describe the same places, but a write inside .git counts only where
        # a pattern names .git, which holds for both alike.
        return None
    if isinstance(wide.value, int) or isinstance(narrow.value, int):
        return _number_covers(wide, narrow)
    held, asked = patterns(wide.value), patterns(narrow.value)
    if narrow.kind == "tools":
        outside = tools_cover(held, asked)
        if outside is not None or len(asked) == len(narrow.value):
            return outside
        from broker.language.rulecover import rules_cover  # noqa: PLC0415 - most lists hold none

        return rules_cover(wide.value, rules(narrow.value))
    if narrow.kind == "hosts":
        return hosts_cover(held, asked)
    return paths_cover(held, asked, git=narrow.kind != "reads")


def _number_covers(wide: Caveat, narrow: Caveat) -> str | None:
    if not (isinstance(wide.value, int) and isinstance(narrow.value, int)):
        raise InputError(f"the value of a `{narrow.kind}` caveat has the wrong type")
    return None if narrow.value <= wide.value else str(narrow.value)


def show(caveat: Caveat) -> str:
    """
    Return the caveat as ``KEY=VALUE`` for a message; long lists are shortened.

    >>> show(tools("read", "grep")), show(hosts())
    ('tools=read,grep', 'hosts=none')
    """
    if isinstance(caveat.value, int):
        if caveat.kind == "until":
            from broker.instants import format_instant  # noqa: PLC0415 - only for messages

            return f"until={format_instant(caveat.value)}"
        return f"{caveat.kind}={caveat.value}"
    if not caveat.value:
        return f"{caveat.kind}=none"
    shown = ",".join(map(str, caveat.value[:6]))
    more = len(caveat.value) - 6
    return f"{caveat.kind}={shown}" + (f" and {more} more" if more > 0 else "")
