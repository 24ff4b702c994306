"""
Executions and the decisions that let them run, held against each other.

A trace says what a model asked for and what came of it; a receipt says what was allowed and
refused. Two records of one run, made in two places: here each call of the one looks for its
decision in the other.

Decided here: which call goes with which decision, and what is left over. Not decided here: whether
the receipt stands (``broker.receipt``), and what a left-over means for an exit code.

A call is matched by its id, which the provider gave and the hook saw; else by tool and arguments;
else by arguments alone where one name holds the other, since a server's tool has another name at
the model than at its gateway; else, where secrets were taken out of the arguments, by tool and
order; else by time: the trace notes when each decision was made, and some agents tell their hooks
neither ids nor the model's own names. The earliest decision that fits is taken.

Rules a maintainer keeps: pure; a decision answers for one call of each layer; what cannot be
matched is said, never passed over.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from broker.errors import TraceError
from broker.resolution.arguments import canonical_digest
from broker.trace.format import Event

Layer = Literal["model", "mcp"]
How = Literal["id", "content", "arguments", "order", "time"]

DECISION: Final = "authority.decision"  # the kind of the note that tells a decision
_HEX64: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A call as the trace has it: asked for by the model, or sent to an MCP server."""

    seq: int
    layer: Layer
    tool: str
    call: str = ""  # the provider's id
    args: str = ""  # the canonical digest of its arguments; empty where secrets were hidden
    answered: bool = False  # a result came back
    opened: int = -1  # the event with which it may have begun: the request that it answers
    closed: int | None = None  # the event of its result


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision as the receipt has it, in line ``n``; an empty text was kept out of it."""

    n: int
    call: str
    tool: str
    args: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class Pairing:
    """A call, the decision that goes with it, and how the two were found to be the same."""

    execution: TracedCall
    decision: Decided
    how: How


@dataclass(frozen=True, slots=True)
class Joined:
    """
    What came of holding a trace against a receipt.

    Attributes:
        matches: the calls that have a decision.
        undecided: calls that were answered and have none: they ran past the gate, or a record is
            not whole.
        unanswered: calls that have neither a decision nor an answer; nobody saw them run.
        idle: decisions that allowed a call which the trace has not: it never ran (the agent's own
            rules may have said no), or the trace is not whole.
        refused: decisions that refused a call which the trace has not.
        told: notes of the trace that tell another decision than the receipt has.
    """

    matches: tuple[Pairing, ...] = ()
    undecided: tuple[TracedCall, ...] = ()
    unanswered: tuple[TracedCall, ...] = ()
    idle: tuple[Decided, ...] = ()
    refused: tuple[Decided, ...] = ()
    told: tuple[str, ...] = ()


def executions(
    events: Iterable[Event], payload: Callable[[Event], object]
) -> tuple[list[TracedCall], list[Event]]:
    """
    Return the calls of a trace, and the notes in it that tell decisions.

    Args:
        events: of the run, in their order.
        payload: returns the payload of one; may raise ``TraceError``.

    >>> call = Event(0, "", 0, 1, "tool.call", "model", attrs={"name": "ls", "call": "c1"})
    >>> executions([call], lambda event: event.payload)[0]
    [TracedCall(seq=0, layer='model', tool='ls', call='c1', args='', answered=False, opened=0, \
closed=None)]
    """
    found: list[TracedCall] = []
    notes: list[Event] = []
    answered: dict[tuple[Layer, object], int] = {}
    asked: dict[int, int] = {}
    for each in events:
        if each.type == "model.response":
            asked[each.seq] = min(each.causes, default=each.seq)
        elif each.type == "tool.call":
            args = _digest(each, payload, ())
            name, called = each.text("name"), each.text("call")
            opened = min((asked.get(cause, each.seq) for cause in each.causes), default=each.seq)
            found.append(TracedCall(each.seq, "model", name, called, args, opened=opened))
        elif each.type == "tool.result":
            for mark in (*each.causes, each.text("call")):
                answered.setdefault(("model", mark), each.seq)
        elif each.type == "mcp.request" and each.attrs.get("method") == "tools/call":
            tool, args = _named(each, payload), _digest(each, payload, ("arguments",))
            found.append(TracedCall(each.seq, "mcp", tool, "", args, opened=each.seq))
        elif each.type == "mcp.response":
            for cause in each.causes:
                answered.setdefault(("mcp", cause), each.seq)
        elif each.type == "note" and each.attrs.get("kind") == DECISION:
            notes.append(each)
    answered.pop(("model", ""), None)
    marked = []
    for call in found:
        closed = answered.get((call.layer, call.seq), answered.get((call.layer, call.call)))
        marked.append(replace(call, answered=closed is not None, closed=closed))
    return marked, notes


def join(
    found: Sequence[TracedCall], decisions: Sequence[Decided], notes: Iterable[Event] = ()
) -> Joined:
    """
    Hold the calls of a trace against the decisions of a receipt.

    >>> done = TracedCall(4, "model", "ls", "c1", "", answered=True)
    >>> join([done], [Decided(3, "c1", "ls", "", True)]).matches[0].how
    'id'
    >>> join([done], []).undecided[0].seq
    4
    """
    matches: list[Pairing] = []
    lost: list[TracedCall] = []
    answering: set[int] = set()
    notes = list(notes)
    for layer in ("model", "mcp"):
        of_layer = [each for each in found if each.layer == layer]
        pairs, left = _matched(of_layer, decisions)
        if layer == "model":
            taken = {pair.decision.n for pair in pairs}
            free = {each.n: each for each in decisions if each.n not in taken}
            meanwhile, left = _timed(left, free, notes)
            pairs += meanwhile
        matches += pairs
        lost += left
        answering |= {pair.decision.n for pair in pairs}
    # One call may be decided twice: by its hook, and again where the hook was asked again.
    ids = {match.execution.call for match in matches if match.execution.call}
    rest = [d for d in decisions if d.n not in answering and not (d.call and d.call in ids)]
    return Joined(
        tuple(sorted(matches, key=lambda match: match.execution.seq)),
        tuple(each for each in lost if each.answered),
        tuple(each for each in lost if not each.answered),
        tuple(each for each in rest if each.allowed),
        tuple(each for each in rest if not each.allowed),
        tuple(_other_told(notes, {each.n: each for each in decisions})),
    )


@dataclass(slots=True)
class _Waiting:
    """Decisions that wait for their call, by what they are found by; the earliest first."""

    taken: set[int] = field(default_factory=set)
    queues: dict[tuple[str, ...], deque[Decided]] = field(default_factory=dict)

    def add(self, key: tuple[str, ...], decision: Decided) -> None:
        if all(key):
            self.queues.setdefault(key, deque()).append(decision)

    def take(
        self, key: tuple[str, ...], fits: Callable[[Decided], bool] = lambda _: True
    ) -> Decided | None:
        queue = self.queues.get(key)
        while queue and queue[0].n in self.taken:
            queue.popleft()
        for each in queue or ():
            if each.n not in self.taken and fits(each):
                self.taken.add(each.n)
                return each
        return None


def _matched(
    found: Sequence[TracedCall], decisions: Sequence[Decided]
) -> tuple[list[Pairing], list[TracedCall]]:
    """Pairing the calls of one layer, the surest ways first."""
    waiting = _Waiting()
    for made in decisions:
        waiting.add(("id", made.call), made)
        waiting.add(("content", made.tool, made.args), made)
        waiting.add(("arguments", made.args), made)
        waiting.add(("order", made.tool), made)
    pairs: list[Pairing] = []
    left = list(found)
    ways: tuple[tuple[How, Callable[[TracedCall], Decided | None]], ...] = (
        ("id", lambda e: waiting.take(("id", e.call))),
        ("content", lambda e: waiting.take(("content", e.tool, e.args))),
        (
            "arguments",
            lambda e: waiting.take(("arguments", e.args), lambda d: _akin(e.tool, d.tool)),
        ),
        ("order", lambda e: None if e.args else waiting.take(("order", e.tool))),
    )
    for how, way in ways:
        still: list[TracedCall] = []
        for each in left:
            decision = way(each)
            if decision is None:
                still.append(each)
            else:
                pairs.append(Pairing(each, decision, how))
        left = still
    return pairs, left


def _timed(
    found: Sequence[TracedCall], free: dict[int, Decided], notes: Sequence[Event]
) -> tuple[list[Pairing], list[TracedCall]]:
    """Match calls with decisions that were made while they were open; names that fit go first."""
    pairs: list[Pairing] = []
    left = list(found)
    notes = [note for note in notes if isinstance(n := note.attrs.get("n"), int) and n in free]
    for strict in (True, False):
        still: list[TracedCall] = []
        for call in left:
            made = next(
                (
                    decision
                    for note in notes
                    if call.opened < note.seq
                    and (call.closed is None or note.seq < call.closed)
                    and isinstance(n := note.attrs.get("n"), int)
                    and (decision := free.get(n)) is not None
                    and not _other(call, decision)
                    and (not strict or _akin(call.tool, decision.tool))
                ),
                None,
            )
            if made is None:
                still.append(call)
            else:
                del free[made.n]
                pairs.append(Pairing(call, made, "time"))
        left = still
    return pairs, left


def _other(call: TracedCall, decision: Decided) -> bool:
    """Whether two ids say that these are two calls; a mere number is one of the broker's own."""
    return bool(call.call and decision.call) and not decision.call.isdecimal()


def _akin(one: str, other: str) -> bool:
    """Whether one of two names holds the other, as `mcp__notes__add` does `add`."""
    short, long = sorted((one.casefold(), other.casefold()), key=len)
    return bool(short) and re.search(rf"(?<![A-Za-z0-9]){re.escape(short)}\Z", long) is not None


def _digest(each: Event, payload: Callable[[Event], object], inside: tuple[str, ...]) -> str:
    """Return the digest of a call's arguments; empty where the trace does not have them whole."""
    told = each.text("args")
    if _HEX64.match(told):
        return told
    if each.payload is None or any(path.startswith("payload") for path in each.redacted):
        return ""
    value = _payload(each, payload)
    for key in inside:
        value = value.get(key, {}) if isinstance(value, Mapping) else None
    if isinstance(value, str):  # some wires spell the arguments as a text
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return ""
    return canonical_digest(value) if isinstance(value, Mapping) else ""


def _named(each: Event, payload: Callable[[Event], object]) -> str:
    value = _payload(each, payload)
    name = value.get("name") if isinstance(value, Mapping) else None
    return name if isinstance(name, str) else each.text("name")


def _payload(each: Event, payload: Callable[[Event], object]) -> object:
    try:
        return payload(each)
    except TraceError:
        return None  # a missing blob is told where blobs are checked


def _other_told(notes: Iterable[Event], decisions: Mapping[int, Decided]) -> Iterable[str]:
    """Yield what notes of the trace tell otherwise than the receipt."""
    for note in notes:
        n = note.attrs.get("n")
        decision = decisions.get(n) if isinstance(n, int) else None
        if decision is None:
            yield f"event {note.seq} tells of a decision in line {n!r}, and there is none"
        elif note.attrs.get("allowed") is not decision.allowed:
            yield f"event {note.seq} tells the decision in line {n} as the opposite of what it is"
        elif decision.call and note.text("call") not in ("", decision.call):
            yield f"event {note.seq} tells the decision in line {n} as one of another call"
