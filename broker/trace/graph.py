"""
Turns, checkpoints, and what led to what, from the events of a run.

Decided here: where a run can be taken up again, and which edges are recorded and which are only
inferred. Not decided here: which events there are (``broker.trace.reader``).

Turns, checkpoints, snapping and chains are as the format says (§3), so that every reader names the
same place. An inferred edge is a guess from names and order; it is marked as one and nothing is
decided by it.

Rules a maintainer keeps: pure functions of events; a request without an answer ends what can be
forked; a fork never begins later than it was asked to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from broker.errors import InputError
from broker.trace.format import Event

Kind = Literal["recorded", "inferred"]


@dataclass(frozen=True, slots=True)
class RunTurn:
    """One turn of the model: its events in their order."""

    turn: int
    events: tuple[Event, ...]

    @property
    def start_seq(self) -> int:
        """The number of its first event."""
        return self.events[0].seq

    @property
    def end_seq(self) -> int:
        """The number of its last event."""
        return self.events[-1].seq


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """An event at which a run can be taken up: a whole conversation, and a tree of its turn."""

    seq: int
    turn: int
    tree: str = ""  # of the workspace; empty where the snapshot named none


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One event led to another: it says so itself, or it looks so."""

    cause: int
    effect: int
    kind: Kind = "recorded"


def turns_of(events: Iterable[Event]) -> list[RunTurn]:
    """
    Return the turns of a run in their order.

    >>> a, b = (Event(n, "", 0, 5, "note", "orca") for n in (0, 1))
    >>> [(t.turn, t.start_seq, t.end_seq) for t in turns_of([b, a])]
    [(5, 0, 1)]
    """
    found: dict[int, list[Event]] = {}
    for each in _ordered(events):
        found.setdefault(each.turn, []).append(each)
    return [RunTurn(turn, tuple(of_turn)) for turn, of_turn in sorted(found.items())]


def checkpoints(events: Iterable[Event]) -> list[ForkPoint]:
    """
    Return every event at which the run can be taken up (§3).

    The first request that was not answered is the last of them: it can be asked again.

    >>> tree = Event(0, "", 0, 0, "fs.snapshot", "orca", attrs={"tree": "a" * 40})
    >>> [c.seq for c in checkpoints([tree, Event(1, "", 0, 0, "note", "orca")])]
    [0, 1]
    """
    ordered = _ordered(events)
    last = _unanswered(ordered)
    found: list[ForkPoint] = []
    snapshot: Event | None = None
    for each in ordered:
        if last is not None and each.seq > last:
            break
        if each.type == "fs.snapshot":
            snapshot = each
        # A tree vouches for its own turn only: in a later one, work has gone on.
        if snapshot is not None and snapshot.turn == each.turn:
            found.append(ForkPoint(each.seq, each.turn, snapshot.text("tree")))
    return found


def snap(found: Sequence[ForkPoint], seq: int) -> tuple[ForkPoint, bool]:
    """
    Return the checkpoint from which a fork at an event begins, and whether that is an earlier one.

    Raises:
        InputError: there is none at the event or before it.

    >>> snap([ForkPoint(1, 0), ForkPoint(4, 1)], 3)
    (ForkPoint(seq=1, turn=0, tree=''), True)
    """
    if not found:
        raise InputError(
            f"no fork can begin at {seq}: the run has no checkpoint, since it recorded no snapshot",
            code="trace.checkpoint",
        )
    before = [each for each in found if each.seq <= seq]
    if not before:
        first = min(each.seq for each in found)
        raise InputError(
            f"there is no checkpoint at {seq} or before it: the first is at {first}",
            code="trace.checkpoint",
        )
    best = max(before, key=lambda each: each.seq)
    return best, best.seq != seq


def edges(events: Iterable[Event], *, inferred: bool = True) -> list[Edge]:
    """
    Return what led to what: what events say themselves, and what else looks so.

    >>> call = Event(3, "", 0, 1, "tool.call", "model", attrs={"call": "c1", "name": "ls"})
    >>> done = Event(4, "", 0, 1, "tool.result", "harness", attrs={"call": "c1"})
    >>> edges([call, done])
    [Edge(cause=3, effect=4, kind='inferred')]
    """
    ordered = _ordered(events)
    known = {each.seq for each in ordered}
    found = [
        Edge(cause, each.seq)
        for each in ordered
        for cause in sorted(set(each.causes))
        if cause in known and cause < each.seq
    ]
    if inferred:
        told = {(edge.cause, edge.effect) for edge in found}
        found += [edge for edge in _inferred(ordered) if (edge.cause, edge.effect) not in told]
    return sorted(found)


def chain(events: Iterable[Event], seq: int, *, inferred: bool = False) -> list[Event]:
    """
    Return an event and all that led to it, the oldest first.

    Args:
        events: of the run.
        seq: the event's number.
        inferred: also follow edges that only look so.

    Raises:
        InputError: there is no such event.
    """
    ordered = _ordered(events)
    index = {each.seq: each for each in ordered}
    if seq not in index:
        raise InputError(f"there is no event {seq} in this run", code="trace.event")
    causes: dict[int, list[int]] = {}
    if inferred:
        for edge in edges(ordered):
            causes.setdefault(edge.effect, []).append(edge.cause)
    seen = {seq}
    waiting = deque([seq])
    while waiting:
        at = waiting.popleft()
        for cause in (*index[at].causes, *causes.get(at, ())):
            # A cause may be missing, since a line was bad, or lie ahead, since a file may lie.
            if cause in index and cause not in seen:
                seen.add(cause)
                waiting.append(cause)
    return [each for each in ordered if each.seq in seen]


def _ordered(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda each: each.seq)


def _unanswered(ordered: Sequence[Event]) -> int | None:
    """
    Return the number of the first request that has no answer.

    The n-th request is answered by the n-th answer, if that came after it: so says the format.
    """
    answers = iter([each.seq for each in ordered if each.type == "model.response"])
    for each in ordered:
        if each.type == "model.request":
            if next(answers, -1) <= each.seq:
                return each.seq
    return None


# What an event usually follows, and by which attributes the two belong together.
_FOLLOWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "model.response": ("model.request", ("conversation",)),
    "tool.call": ("model.response", ("conversation",)),
    "tool.result": ("tool.call", ("call",)),
    "mcp.response": ("mcp.request", ("server", "id")),
    "shell.result": ("shell.exec", ("pid",)),
    "net.response": ("net.request", ("host", "port")),
    "fs.change": ("fs.snapshot", ()),
}


def _inferred(ordered: Sequence[Event]) -> Iterator[Edge]:
    """Yield the edges that names and order suggest, of events that say no such cause."""
    latest: dict[tuple[str, object], int] = {}
    types = {each.seq: each.type for each in ordered}
    for each in ordered:
        for before, names in _wanted(each):
            if any(types.get(cause) == before for cause in each.causes):
                continue
            values = tuple(repr(each.attrs.get(name)) for name in names)
            cause = latest.get((before, (names, values)))
            if cause is not None:
                yield Edge(cause, each.seq, "inferred")
        for names in _NAMES.get(each.type, ()):
            values = tuple(repr(each.attrs.get(name)) for name in names)
            latest[each.type, (names, values)] = each.seq


def _wanted(each: Event) -> Iterator[tuple[str, tuple[str, ...]]]:
    if each.type in _FOLLOWS:
        yield _FOLLOWS[each.type]
    if each.type == "note" and each.text("kind") == "authority.decision" and each.text("call"):
        yield "tool.call", ("call",)


# By which attributes each type is looked for.
_NAMES: dict[str, set[tuple[str, ...]]] = {}
for _before, _by in _FOLLOWS.values():
    _NAMES.setdefault(_before, set()).add(_by)
