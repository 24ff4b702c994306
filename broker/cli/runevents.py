"""
`broker runs events`, `checkpoints` and `graph`: what stands in a run, event by event.

Decided here: which events are asked for, and how one is told on one line. Not decided here: what
led to what (``broker.trace.graph``).

Rule a maintainer keeps: events are told while they are read, so that a run of any size takes no
memory; everything that a run says goes through ``printable``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED
from broker.cli.output import err, json_out, out, paint, printable
from broker.cli.runs import Run, opened
from broker.cli.typed import Json
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.trace.format import Event
    from broker.trace.reader import RunReader

EVENTS_EXAMPLES = """\
\b
Examples:
  broker runs events                               the latest run, event by event
  broker runs events 9f2c --type tool.call --turn 3
  broker runs events --type model.request --payload --json | less

\b
With --json every event is one line of JSON: its keys are the format's (see docs/trace.md), and with
--payload its payload stands where a reference to it stood; a request that was kept as what is new
in it is told whole.
Exit code: 0 told, 2 no such run, or it cannot be read.
"""
CHECKPOINTS_EXAMPLES = """\
\b
Examples:
  broker runs checkpoints
  broker runs checkpoints 9f2c --json

\b
A checkpoint is an event at which the run can be taken up again: the conversation up to it is whole,
and its turn has a snapshot of the workspace. `broker replay --from N` begins at one.
Exit code: 0 told, 2 no such run, or it cannot be read.
"""
GRAPH_EXAMPLES = """\
\b
Examples:
  broker runs graph 9f2c                           what led to what, edge by edge
  broker runs graph 9f2c --to 41                   only what led to event 41
  broker runs graph 9f2c --to 41 --inferred --json

\b
An edge is recorded where the event itself names its cause. With --inferred also those are shown
that names and order suggest; they are marked, and nothing is decided by them.
Exit code: 0 told, 2 no such run or event, or it cannot be read.
"""

Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only events of this type; again for more."),
]
OfTurn = Annotated[
    int | None, typer.Option("--turn", metavar="N", min=0, help="Only events of this turn.")
]
Payload = Annotated[bool, typer.Option("--payload", help="Show what the events hold, too.")]
To = Annotated[
    int | None, typer.Option("--to", metavar="N", min=0, help="Only what led to this event.")
]
Inferred = Annotated[bool, typer.Option("--inferred", help="Also edges that only look so.")]

_MOST_CHARS = 160  # of the attributes of one event on a terminal
_MOST_PAYLOAD = 4_000  # of a payload on a terminal


def events(
    run: Run = None,
    *,
    type_: Types = None,
    turn: OfTurn = None,
    payload: Payload = False,
    as_json: Json = False,
) -> int:
    """Tell the events of a run, one a line."""
    from broker.trace.format import EVENT_TYPES

    unknown = sorted(set(type_ or ()) - EVENT_TYPES)
    if unknown:
        raise InputError(f"`{unknown[0]}` is no type of event: {', '.join(sorted(EVENT_TYPES))}")
    reader = opened(run)
    for each in reader.stream():
        if (type_ and each.type not in type_) or (turn is not None and each.turn != turn):
            continue
        if as_json:
            json_out(event_document(each, reader if payload else None))
            continue
        out(event_line(each))
        if payload:
            for line in _payload_lines(reader, each):
                out(line)
    for problem in reader.problems():
        err(f"warning: {printable(problem)}")
    return ALLOWED


def checkpoints(run: Run = None, as_json: Json = False) -> int:
    """Tell where a run can be taken up again."""
    from broker.trace import graph

    reader = opened(run)
    found = graph.checkpoints(reader.events())
    if as_json:
        json_out([{"seq": c.seq, "turn": c.turn, "tree": c.tree or None} for c in found])
        return ALLOWED
    if not found:
        out("no checkpoint: the run recorded no snapshot of the workspace")
    for each in found:
        out(f"{each.seq:>6}  turn {each.turn:<4}  {printable(each.tree[:12])}".rstrip())
    return ALLOWED


def graph_of(
    run: Run = None, *, to: To = None, inferred: Inferred = False, as_json: Json = False
) -> int:
    """Tell what led to what."""
    from broker.trace import graph

    found = opened(run).events()
    if to is not None:
        found = graph.chain(found, to, inferred=inferred)
    edges = graph.edges(found, inferred=inferred)
    if as_json:
        json_out(
            {
                "events": [
                    {"seq": e.seq, "turn": e.turn, "type": e.type, "actor": e.actor} for e in found
                ],
                "edges": [{"cause": e.cause, "effect": e.effect, "kind": e.kind} for e in edges],
            }
        )
        return ALLOWED
    causes: dict[int, list[str]] = {}
    for edge in edges:
        sign = "" if edge.kind == "recorded" else "?"
        causes.setdefault(edge.effect, []).append(f"{edge.cause}{sign}")
    for each in found:
        led = f"  <- {', '.join(causes[each.seq])}" if each.seq in causes else ""
        out(event_line(each) + paint(led, "dim"))
    return ALLOWED


def event_line(each: Event) -> str:
    """
    Return an event as the one line that a person reads.

    >>> from broker.trace.format import Event
    >>> event_line(Event(3, "", 1_500_000, 1, "tool.call", "model", attrs={"name": "ls\\n"}))
    '     3  t1       1.500s  tool.call         name=ls\\\\n'
    """
    told = "  ".join(f"{key}={_short(value)}" for key, value in each.attrs.items())
    if len(told) > _MOST_CHARS:
        told = told[:_MOST_CHARS] + "…"
    head = f"{each.seq:>6}  t{each.turn:<4} {each.mono_us / 1e6:>8.3f}s  {each.type:<16}"
    return f"{head}  {printable(told)}".rstrip()


def event_document(each: Event, reader: RunReader | None = None) -> dict[str, object]:
    """Return an event as JSON data, with its payload if there is a reader to ask."""
    from broker.trace.format import BlobRef

    found: dict[str, object] = {
        "seq": each.seq,
        "ts": each.ts,
        "mono_us": each.mono_us,
        "turn": each.turn,
        "type": each.type,
        "actor": each.actor,
        "causes": list(each.causes),
        "attrs": dict(each.attrs),
    }
    if each.redacted:
        found["redacted"] = list(each.redacted)
    if isinstance(each.payload, BlobRef):
        found["payload"] = each.payload.document()
    elif each.payload is not None:
        found["payload"] = each.payload
    if reader is not None and each.payload is not None:
        found["payload"] = _whole(reader, each)
    return found


def _whole(reader: RunReader, each: Event) -> object:
    """Return a payload as JSON data; bytes as the text that they spell, as far as they do."""
    from broker.errors import TraceError
    from broker.trace.bodies import rebuilt

    try:
        value = rebuilt(reader, each.seq) if each.type == "model.request" else reader.payload(each)
    except TraceError as error:
        return {"unreadable": error.message}
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _payload_lines(reader: RunReader, each: Event) -> Iterator[str]:
    if each.payload is None:
        return
    value = _whole(reader, each)
    text = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
    shown = text[:_MOST_PAYLOAD]
    yield from _indented(shown.splitlines())
    if len(text) > len(shown):
        yield f"        … and {len(text) - len(shown)} more characters: see --json"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"        {printable(line)}" for line in lines)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"
