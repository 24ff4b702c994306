"""
What a harness meant to send, and what went over the wire, held against each other.

A harness that keeps records writes down the digest of each request before it leaves, in its own
process; the recorder writes down the digest of what passed it. The two never spoke, so where they
agree, nothing was changed, added or lost on the way.

Decided here: which request goes with which record: equal digests, in order. Not decided here: what
a left-over means for an exit code, and where the records lie.

Rule a maintainer keeps: pure; a record answers for one request.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.trace.format import Event

_HEX64: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class MeantRequest:
    """A request as the harness recorded it before it left."""

    id: str
    sha256: str


@dataclass(frozen=True, slots=True)
class WireJoin:
    """
    What came of holding the records of a harness against a trace.

    Attributes:
        matched: ids of records with the number of the event of the same digest.
        unmeant: events that no record answers for: somebody else asked the model, or what was
            sent was changed on the way.
        unsent: records of requests that never came by.
        undigested: events that say no digest of what was sent.
    """

    matched: tuple[tuple[str, int], ...]
    unmeant: tuple[int, ...]
    unsent: tuple[str, ...]
    undigested: tuple[int, ...]


def join_wire(events: Iterable[Event], meant: Iterable[MeantRequest]) -> WireJoin:
    """
    Hold the requests of a trace against what a harness recorded.

    >>> sent = Event(3, "", 0, 1, "model.request", "agent", attrs={"sha256": "a" * 64})
    >>> join_wire([sent], [MeantRequest("r1", "a" * 64), MeantRequest("r2", "b" * 64)])
    WireJoin(matched=(('r1', 3),), unmeant=(), unsent=('r2',), undigested=())
    """
    waiting: dict[str, deque[str]] = {}
    order: list[str] = []
    for each in meant:
        waiting.setdefault(each.sha256, deque()).append(each.id)
        order.append(each.id)
    matched: list[tuple[str, int]] = []
    unmeant: list[int] = []
    undigested: list[int] = []
    for sent in events:
        if sent.type != "model.request":
            continue
        digest = sent.text("sha256")
        if not _HEX64.match(digest):
            undigested.append(sent.seq)
        elif waiting.get(digest):
            matched.append((waiting[digest].popleft(), sent.seq))
        else:
            unmeant.append(sent.seq)
    left = {id_ for ids in waiting.values() for id_ in ids}
    unsent = tuple(id_ for id_ in order if id_ in left)
    return WireJoin(tuple(matched), tuple(unmeant), unsent, tuple(undigested))
