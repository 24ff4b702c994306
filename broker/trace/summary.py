"""
A run in a few figures: what was asked, what was called, what it took.

Decided here: what is counted. Not decided here: how it is told.

Rule a maintainer keeps: one pass over the events, in memory that does not grow with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.trace.format import Event

_MOST_NAMES = 64  # tools and models that are told by name


@dataclass(slots=True)
class Summary:
    """The figures of one run."""

    events: int = 0
    turns: int = 0
    duration_us: int = 0
    requests: int = 0
    failed_requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    refused: int = 0
    allowed: int = 0
    shell: int = 0
    failed_shell: int = 0
    snapshots: int = 0
    changes: int = 0
    ended: bool = False  # the recorder saw the end of the run
    types: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    conversations: set[str] = field(default_factory=set)


def summary(events: Iterable[Event]) -> Summary:
    """
    Return the figures of a run.

    >>> summary([Event(0, "", 0, 1, "tool.call", "model", attrs={"name": "ls"})]).tools
    Counter({'ls': 1})
    """
    found = Summary()
    for each in events:
        found.events += 1
        found.turns = max(found.turns, each.turn)
        found.duration_us = max(found.duration_us, each.mono_us)
        found.types[each.type] += 1
        _count(found, each)
    return found


def _count(found: Summary, each: Event) -> None:
    kind = each.type
    if kind == "model.request":
        found.requests += 1
        _name(found.models, each.text("model"))
        if (name := each.text("conversation")) and len(found.conversations) < _MOST_NAMES:
            found.conversations.add(name)
    elif kind == "model.response":
        found.failed_requests += _whole(each, "status") >= 400 or bool(each.text("error"))
        found.input_tokens += _whole(each, "input_tokens")
        found.output_tokens += _whole(each, "output_tokens")
    elif kind == "tool.call":
        found.calls += 1
        _name(found.tools, each.text("name"))
    elif kind == "note" and each.text("kind") == "authority.decision":
        found.allowed += each.attrs.get("allowed") is True
        found.refused += each.attrs.get("allowed") is False
    elif kind == "shell.result":
        found.shell += 1
        found.failed_shell += _whole(each, "exit_code") != 0 or bool(each.attrs.get("signal"))
    elif kind == "fs.snapshot":
        found.snapshots += 1
    elif kind == "fs.change":
        found.changes += 1
    elif kind == "run.end":
        found.ended = True


def _name(names: Counter[str], name: str) -> None:
    if name and (name in names or len(names) < _MOST_NAMES):
        names[name] += 1


def _whole(each: Event, name: str) -> int:
    value = each.attrs.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
