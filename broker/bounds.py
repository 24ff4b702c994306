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
from typing import Final

from broker.caveats import BOUNDS, Caveat, covers, show
from broker.errors import AttenuationError
from broker.globs import PathMatcher, ToolMatcher, path_matcher, tool_matcher
from broker.hosts import HostMatcher, host_matcher

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
    """One list of tool patterns, ready to match."""

    patterns: tuple[str, ...]
    match: ToolMatcher


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
    ``named`` are the tools that the root names outright; ``no_network`` says that the root
    limits paths and is silent about hosts; ``seen`` that some caveat needs to see paths or URLs.
    ``stars`` counts the patterns of the whole chain that take more than comparing beginnings: what
    a call is compared with at most. It never falls from a link to the next, so that what is too
    much for a ticket is too much for every narrower one.

    The ``quick_`` fields are names, prefixes and suffixes that are enough for an allow
    (``quick_tools`` None: every tool); what they miss is decided by the bounds.
    """

    lists: Lists
    tools: tuple[ToolBound, ...]
    reads: tuple[PathBound, ...]
    writes: tuple[PathBound, ...]
    hosts: tuple[HostBound, ...]
    named: frozenset[str]
    no_network: bool
    seen: bool
    stars: int
    quick_tools: frozenset[str] | None
    quick_reads: tuple[str, ...]
    quick_writes: tuple[str, ...]
    quick_hosts: frozenset[str]
    quick_suffixes: tuple[str, ...]


@lru_cache(maxsize=_CACHE)
def root_bounds(lists: Lists) -> Bounds:
    """Return the bounds of a root link; several lists of one kind all hold."""
    listed = [patterns for kind, patterns in lists if kind == "tools"]
    named = _NO_NAMES.union(*[tool_matcher(p).exact for p in listed if isinstance(p, tuple)])
    kinds = {c.kind for c in lists}
    no_network = bool(kinds & {"paths", "reads", "writes"}) and "hosts" not in kinds
    return _bounds(lists, named, no_network, _stars(lists))


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
                outside = covers(wide, caveat)
                if outside is not None:
                    raise AttenuationError(
                        f"`{show(caveat)}` widens `{show(wide)}`: `{outside}` is not within it",
                        kind=caveat.kind,
                    )
    fresh = {c.kind for c in lists}
    kept = tuple([c for c in bounds.lists if c.kind not in fresh])
    stars = bounds.stars + _stars(lists)
    return _bounds(kept + lists, bounds.named, bounds.no_network, stars)


def _stars(lists: Lists) -> int:
    found = 0
    for kind, patterns in lists:
        if isinstance(patterns, tuple):
            if kind == "tools":
                tool = tool_matcher(patterns)
                found += len(tool.own) + len(tool.outside)
            elif kind != "hosts":
                found += len(patterns) - len(path_matcher(patterns).prefixes)
    return found


@lru_cache(maxsize=_CACHE)
def _bounds(lists: Lists, named: frozenset[str], no_network: bool, stars: int) -> Bounds:
    of: dict[str, list[tuple[str, ...]]] = {}
    for kind, patterns in lists:
        if isinstance(patterns, tuple):
            of.setdefault(kind, []).append(patterns)
    paths = [_path_bound("paths", p) for p in of.get("paths", ())]
    reads = (*paths, *[_path_bound("reads", p) for p in of.get("reads", ())])
    writes = (*paths, *[_path_bound("writes", p) for p in of.get("writes", ())])
    tools = tuple([ToolBound(p, tool_matcher(p)) for p in of.get("tools", ())])
    hosts = tuple([HostBound(p, host_matcher(p)) for p in of.get("hosts", ())])
    return Bounds(
        lists,
        tools,
        reads,
        writes,
        hosts,
        named,
        no_network,
        bool(reads or writes or hosts),
        stars,
        tools[0].match.exact if len(tools) == 1 else (_NO_NAMES if tools else None),
        _quick(reads),
        _quick(writes),
        *_quick_hosts(hosts, no_network),
    )


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
