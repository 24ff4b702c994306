"""
What a ticket's lists come to: the matchers that ``authorize`` looks at.

Decided here: how the list caveats of a chain become a few matchers, and that a link which
permits more than the links before it is refused by name. Since each link was proved to lie
within the ones before, its lists replace theirs and nothing is ever united. What was typed at
the root settles two things for the whole tree: which tools a person named outright, and whether
the network was left out.

Bounds depend on the lists alone and are shared by all tickets that say the same, so a chain
costs a look-up per link however often it is verified.

Rules a maintainer keeps: bounds come from ``root_bounds`` and ``narrow`` only; the ``quick_``
fields may only ever be stricter than the lists that they shorten, because ``authorize`` allows
by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.caveats import BOUNDS, Caveat, covers, patterns, rules, show
from broker.errors import AttenuationError, LimitError
from broker.globs import PathMatcher, ToolMatcher, path_matcher, tool_matcher
from broker.hosts import HostMatcher, host_matcher

if TYPE_CHECKING:
    from broker.rulebook import RuleBook
    from broker.rules import Rule

_CACHE: Final = 4_096
_ALL: Final = ("",)  # every place starts with the empty string
_NO_NAMES: Final[frozenset[str]] = frozenset()

Lists = tuple[Caveat, ...]


@dataclass(frozen=True, slots=True)
class PathBound:
    """One list of path patterns, ready to match; ``kind`` is the caveat it came from."""

    kind: str
    patterns: tuple[str, ...]
    match: PathMatcher


@dataclass(frozen=True, slots=True)
class ToolBound:
    """One list of tool patterns, ready to match; ``book`` holds its rules, if it has any."""

    patterns: tuple[str | Rule, ...]
    match: ToolMatcher
    book: RuleBook | None = None

    def admits_some(self, name: str, tool: str, server: str | None) -> bool:
        """Whether some call of a tool could pass, whatever its arguments must be."""
        if name in self.match.exact or self.match.match(tool, server):
            return True
        return self.book is not None and bool(self.book.of(name, tool, server))


@dataclass(frozen=True, slots=True)
class HostBound:
    """One list of host patterns, ready to match."""

    patterns: tuple[str, ...]
    match: HostMatcher


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """
    The lists of a chain, ready to match. Every bound of a tuple must admit.

    ``lists`` are the caveats in force. ``reads`` and ``writes`` hold the `paths` caveats too.
    ``named`` are the tools that the root names outright, those by a rule alone for what one of
    ``named_if`` admits; ``no_network`` says that the root limits paths and is silent about hosts;
    ``seen`` that some caveat needs to see paths or URLs.
    ``stars`` counts the patterns of the whole chain that take more than comparing beginnings: what
    a call is compared with at most, and ``rules`` its rules. Neither ever falls from a link to the
    next, so that what is too much for a ticket is too much for every narrower one. ``reads_line``
    says that some rule of the chain looks at the line that a person typed.

    The ``quick_`` fields are names, prefixes and suffixes that are enough for an allow
    (``quick_tools`` None: every tool); what they miss is decided by the bounds.
    """

    lists: Lists
    tools: tuple[ToolBound, ...]
    reads: tuple[PathBound, ...]
    writes: tuple[PathBound, ...]
    hosts: tuple[HostBound, ...]
    named: frozenset[str]
    named_if: RuleBook | None
    no_network: bool
    seen: bool
    stars: int
    rules: int
    reads_line: bool
    quick_tools: frozenset[str] | None
    quick_reads: tuple[str, ...]
    quick_writes: tuple[str, ...]
    quick_hosts: frozenset[str]
    quick_suffixes: tuple[str, ...]


@lru_cache(maxsize=_CACHE)
def root_bounds(lists: Lists) -> Bounds:
    """Return the bounds of a root link; several lists of one kind all hold."""
    listed = [v for k, v in lists if k == "tools" and isinstance(v, tuple)]
    plain = _NO_NAMES.union(*[tool_matcher(patterns(items)).exact for items in listed])
    # A rule that stands beside a pattern such as `*` names the tool for its own arguments alone.
    asking = [one for items in listed for one in rules(items)]
    ruled = tuple([one for one in asking if "*" not in one.tool and one.tool not in plain])
    named = plain.union([one.tool for one in ruled])
    kinds = {c.kind for c in lists}
    no_network = bool(kinds & {"paths", "reads", "writes"}) and "hosts" not in kinds
    return _bounds(lists, _Whole(named, ruled, no_network, 0, 0, False))


@lru_cache(maxsize=_CACHE)
def narrow(bounds: Bounds, lists: Lists) -> Bounds:
    """
    Return the bounds of a chain that one more link with ``lists`` was added to.

    Raises:
        AttenuationError: a list permits more than what is there; ``kind`` names it.
    """
    for caveat in lists:
        for wide in bounds.lists:
            if wide.kind in BOUNDS[caveat.kind]:
                try:
                    outside = covers(wide, caveat)
                except LimitError as error:
                    raise AttenuationError(f"`{show(caveat)}`: {error}", kind=caveat.kind) from None
                if outside is not None:
                    raise AttenuationError(
                        f"`{show(caveat)}` widens `{show(wide)}`: `{outside}` is not within it",
                        kind=caveat.kind,
                    )
    fresh = {c.kind for c in lists}
    kept = tuple([c for c in bounds.lists if c.kind not in fresh])
    ruled = () if bounds.named_if is None else bounds.named_if.rules
    so_far = (bounds.no_network, bounds.stars, bounds.rules, bounds.reads_line)
    whole = _Whole(bounds.named, ruled, *so_far)
    return _bounds(kept + lists, whole, lists)


class _Whole(NamedTuple):
    """What a chain comes to as a whole, before a link is added to it."""

    named: frozenset[str]
    ruled: tuple[Rule, ...]
    no_network: bool
    stars: int
    rules: int
    reads_line: bool


def _stars(lists: Lists) -> int:
    found = 0
    for kind, items in lists:
        if isinstance(items, tuple):
            if kind == "tools":
                tool = tool_matcher(patterns(items))
                found += len(tool.own) + len(tool.outside)
                found += sum("*" in one.tool for one in rules(items))
            elif kind != "hosts":
                found += len(items) - len(path_matcher(patterns(items)).prefixes)
    return found


@lru_cache(maxsize=_CACHE)
def _bounds(lists: Lists, whole: _Whole, added: Lists | None = None) -> Bounds:
    """Return the bounds of the lists in force; ``added`` are those of the last link, or all."""
    added = lists if added is None else added
    fresh = [one for k, v in added if k == "tools" and isinstance(v, tuple) for one in rules(v)]
    of: dict[str, list[tuple[str, ...]]] = {}
    tools = tuple([_tool_bound(v) for k, v in lists if k == "tools" and isinstance(v, tuple)])
    for kind, items in lists:
        if kind != "tools" and isinstance(items, tuple):
            of.setdefault(kind, []).append(patterns(items))
    paths = [_path_bound("paths", p) for p in of.get("paths", ())]
    reads = (*paths, *[_path_bound("reads", p) for p in of.get("reads", ())])
    writes = (*paths, *[_path_bound("writes", p) for p in of.get("writes", ())])
    hosts = tuple([HostBound(p, host_matcher(p)) for p in of.get("hosts", ())])
    return Bounds(
        lists,
        tools,
        reads,
        writes,
        hosts,
        whole.named,
        _book(whole.ruled),
        whole.no_network,
        bool(reads or writes or hosts),
        whole.stars + _stars(added),
        whole.rules + len(fresh),
        whole.reads_line or any(one.reads_line for one in fresh),
        tools[0].match.exact if len(tools) == 1 else (_NO_NAMES if tools else None),
        _quick(reads),
        _quick(writes),
        *_quick_hosts(hosts, whole.no_network),
    )


def _tool_bound(items: tuple[str | Rule, ...]) -> ToolBound:
    plain, conditional = patterns(items), rules(items)
    return ToolBound(items, tool_matcher(plain), _book(conditional))


def _book(conditional: tuple[Rule, ...]) -> RuleBook | None:
    if not conditional:
        return None
    from broker.rulebook import rule_book  # noqa: PLC0415 - most lists hold none

    return rule_book(conditional)


def _path_bound(kind: str, patterns: tuple[str, ...]) -> PathBound:
    return PathBound(kind, patterns, path_matcher(patterns))


def _quick(bounds: tuple[PathBound, ...]) -> tuple[str, ...]:
    if not bounds:
        return _ALL
    return bounds[0].match.prefixes if len(bounds) == 1 else ()


def _quick_hosts(
    bounds: tuple[HostBound, ...], no_network: bool
) -> tuple[frozenset[str], tuple[str, ...]]:
    if no_network or len(bounds) > 1:
        return _NO_NAMES, ()
    if not bounds:
        return _NO_NAMES, _ALL
    return bounds[0].match.exact, bounds[0].match.suffixes
