"""
A ticket's caveats in normal form: what ``authorize`` looks at.

Decided here: how a chain of links becomes a few matchers. Since a link was proved to permit no
more than the links before it, its lists replace theirs, `until` and `calls` keep the smaller,
and nothing is ever united. What was typed at the root settles two things for the whole tree:
which tools a person named outright, and whether the network was left out.

A rule a maintainer keeps: ``narrow_rules`` is called only after the widening check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from broker.caveats import Caveat
from broker.globs import PathMatcher, ToolMatcher, path_matcher, tool_matcher
from broker.hosts import HostMatcher, host_matcher

_CACHE: Final = 1_024


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


@dataclass(frozen=True, slots=True)
class Rules:
    """
    The normal form of a chain. Every bound of a tuple must admit.

    ``reads`` and ``writes`` hold the `paths` caveats too. ``limits`` has one entry per link.
    ``named`` are the tools that the root names outright; ``no_network`` says that the root
    limits paths and is silent about hosts.
    """

    tools: tuple[ToolBound, ...] = ()
    reads: tuple[PathBound, ...] = ()
    writes: tuple[PathBound, ...] = ()
    hosts: tuple[HostBound, ...] = ()
    until: int | None = None
    limits: tuple[int | None, ...] = ()
    limited: bool = False
    named: frozenset[str] = frozenset()
    no_network: bool = False
    seen: bool = False  # some caveat needs to see paths or URLs


@lru_cache(maxsize=_CACHE)
def path_bound(kind: str, patterns: tuple[str, ...]) -> PathBound:
    """Return the bound for ``patterns``; equal ones are shared between tickets."""
    return PathBound(kind, patterns, path_matcher(patterns))


@lru_cache(maxsize=_CACHE)
def tool_bound(patterns: tuple[str, ...]) -> ToolBound:
    """Return the bound for ``patterns``; equal ones are shared between tickets."""
    return ToolBound(patterns, tool_matcher(patterns))


@lru_cache(maxsize=_CACHE)
def host_bound(patterns: tuple[str, ...]) -> HostBound:
    """Return the bound for ``patterns``; equal ones are shared between tickets."""
    return HostBound(patterns, host_matcher(patterns))


def root_rules(step: Sequence[Caveat]) -> Rules:
    """Return the normal form of a root link."""
    rules = narrow_rules(Rules(), step)
    if not rules.tools and not rules.seen:
        return rules
    named: frozenset[str] = frozenset().union(*(b.match.exact for b in rules.tools))
    limits_paths = bool(rules.reads or rules.writes)
    return replace(rules, named=named, no_network=limits_paths and not rules.hosts)


def narrow_rules(rules: Rules, step: Sequence[Caveat]) -> Rules:
    """Return the normal form of a chain that has been extended by one link."""
    tools, reads, writes, hosts = rules.tools, rules.reads, rules.writes, rules.hosts
    until, limit = rules.until, None
    fresh: dict[str, list[tuple[str, ...]]] = {}
    for caveat in step:
        value = caveat.value
        if not isinstance(value, int):
            fresh.setdefault(caveat.kind, []).append(value)
        elif caveat.kind == "until":
            until = value if until is None or value < until else until
        else:
            limit = value if limit is None or value < limit else limit
    if fresh:
        if "tools" in fresh:
            tools = tuple([tool_bound(p) for p in fresh["tools"]])
        if "hosts" in fresh:
            hosts = tuple([host_bound(p) for p in fresh["hosts"]])
        reads = _replaced(reads, "reads", fresh)
        writes = _replaced(writes, "writes", fresh)
    return Rules(
        tools,
        reads,
        writes,
        hosts,
        until,
        (*rules.limits, limit),
        rules.limited or limit is not None,
        rules.named,
        rules.no_network,
        bool(reads or writes or hosts),
    )


def _replaced(
    bounds: tuple[PathBound, ...], own: str, fresh: dict[str, list[tuple[str, ...]]]
) -> tuple[PathBound, ...]:
    for kind in ("paths", own):
        if kind in fresh:
            kept = tuple([b for b in bounds if b.kind != kind])
            bounds = kept + tuple([path_bound(kind, p) for p in fresh[kind]])
    return bounds
