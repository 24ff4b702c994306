"""
The calls of a run, as its receipt and its recording tell of them.

Decided here: which entries are calls of the run, and what is known of each. The canary's calls are
the broker's own and are left out; so is a second decision about a call that was decided already.
Not decided here: whether the entries are authentic (``broker.receipt``), what a call touches
(``broker.replay.reading``).

Rules a maintainer keeps: an entry of another shape is a break and never passed over, since what is
suggested from a run must have room for all of it; arguments are believed only where their digest
is the one that was decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from broker.errors import Break, InputError
from broker.instants import parse_instant
from broker.receipt.entry import Entry
from broker.resolution.arguments import canonical_digest
from broker.trace.reader import RunReader

CANARY: Final = "canary"  # the actor of the calls that try whether an agent is held

Data = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SeenCall:
    """
    One call of a run.

    Args:
        n: the line of the receipt, or the event of the trace, that tells of it.
        at: when it was decided, nanoseconds since the Unix epoch.
        tool: its name, as the agent spelled it.
        server: the MCP server that answers it, where it is known.
        actor: which agent of the run asked.
        call_id: the agent's own name for it; "" where it gave none.
        caveat: what refused it then; "" when it was allowed, or was never decided.
        reason: why.
        digest: hex SHA-256 of the canonical arguments; "" where nobody decided it.
        subjects: what it touched, as the receipt keeps it.
        cost: how many calls it debits.
        arguments: None where only their digest is known.
    """

    n: int
    at: int
    tool: str
    server: str | None = None
    actor: str = ""
    call_id: str = ""
    caveat: str = ""
    reason: str = ""
    digest: str = ""
    subjects: tuple[Data, ...] = ()
    cost: int = 1
    arguments: Mapping[str, object] | None = None

    @property
    def ran(self) -> bool:
        """Whether nothing refused it."""
        return not self.caveat


@dataclass(frozen=True, slots=True)
class SeenRun:
    """
    A run: what it is called, where and under what it was held, and its calls in order.

    ``began_at`` is in nanoseconds since the Unix epoch; ``line`` is what the person typed, as far
    as the receipt shows it; ``scope`` the texts of the root ticket.
    """

    name: str
    workspace: str
    began_at: int
    agent: str = ""
    line: str = ""
    scope: tuple[str, ...] = ()
    calls: tuple[SeenCall, ...] = ()

    @property
    def ran(self) -> tuple[SeenCall, ...]:
        """The calls that nothing refused."""
        return tuple(call for call in self.calls if call.ran)


def seen_run(name: str, entries: Iterable[Entry]) -> SeenRun:
    """
    Return the run that a verified receipt tells of.

    Args:
        name: the session.
        entries: of its receipt, verified, in order.

    Raises:
        Break: an entry that no session writes, or no ``open`` entry at all.
    """
    found: SeenRun | None = None
    line, scope = "", None
    calls: list[SeenCall] = []
    for entry in entries:
        data = entry.data
        if entry.kind == "open":
            found = SeenRun(name, _text(data, "workspace"), entry.at, _text(data, "agent"))
        elif entry.kind == "intent" and isinstance(data.get("line"), str):
            line = _text(data, "line")
        elif entry.kind == "ticket" and scope is None:
            scope = tuple(str(text) for text in _list(data, "caveats"))
        elif entry.kind == "decision" and data.get("actor") != CANARY:
            calls.append(_call(entry))
    if found is None:
        raise Break("schema", "the receipt does not say where the session ran")
    return replace(found, line=line, scope=scope or (), calls=tuple(calls))


def seen_trace(reader: RunReader) -> SeenRun:
    """
    Return the run that a recording alone tells of: every call that a model asked for.

    Nobody decided them, so all of them count as having run.

    Raises:
        TraceError: it cannot be read.
    """
    manifest = reader.manifest
    calls: list[SeenCall] = []
    for event in reader.stream():
        if event.type == "tool.call":
            arguments = reader.payload(event)
            calls.append(
                SeenCall(
                    event.seq,
                    _instant(event.ts),
                    event.text("name"),
                    actor=event.text("conversation"),
                    call_id=event.text("call"),
                    arguments=arguments if isinstance(arguments, dict) else None,
                )
            )
    agent = str(manifest.adapter.get("id", ""))
    began = _instant(manifest.created_at)
    return SeenRun(manifest.run_id, manifest.cwd, began, agent, calls=tuple(calls))


def with_arguments(run: SeenRun, told: Iterable[tuple[str, object]]) -> SeenRun:
    """
    Return the run with the arguments that a trace kept.

    A call takes arguments under its own id, else the first ones not taken that have its digest.
    What has another digest was changed after it was recorded, or cleared of a secret: it is not
    what was decided, and is left out.

    Args:
        run: the run of a receipt.
        told: (call id, arguments) in the order in which the model asked.
    """
    by_digest: dict[str, list[Mapping[str, object]]] = {}
    by_id: dict[tuple[str, str], Mapping[str, object]] = {}
    for call_id, arguments in told:
        if isinstance(arguments, Mapping):
            digest = canonical_digest(arguments)
            by_digest.setdefault(digest, []).append(arguments)
            by_id[call_id, digest] = arguments
    calls: list[SeenCall] = []
    for call in run.calls:
        same = by_digest.get(call.digest, [])
        arguments = by_id.get((call.call_id, call.digest), same[0] if same else None)
        calls.append(replace(call, arguments=arguments))
    return replace(run, calls=tuple(calls))


def _call(entry: Entry) -> SeenCall:
    data = entry.data
    refused = data.get("decision") == "refuse"
    cost = data.get("cost", 1)
    if (not refused and data.get("decision") != "allow") or type(cost) is not int or cost < 1:
        raise Break("schema", "a decision neither allows nor refuses", line=entry.n)
    subjects = _list(data, "subjects")
    if not all(isinstance(subject, dict) for subject in subjects):
        raise Break("schema", "a decision names subjects of an unknown shape", line=entry.n)
    server = data.get("server")
    return SeenCall(
        entry.n,
        entry.at,
        _text(data, "tool"),
        server if isinstance(server, str) else None,
        _text(data, "actor"),
        _text(data, "call"),
        (_text(data, "caveat") or "call") if refused else "",
        _text(data, "reason") if refused else "",
        _text(data, "args"),
        tuple(subject for subject in subjects if isinstance(subject, dict)),
        cost,
    )


def _instant(text: str) -> int:
    """Return an instant of a recording; what is none is the beginning of time."""
    try:
        return parse_instant(text)
    except InputError:
        return 0


def _text(data: Data, name: str) -> str:
    """Return a text of an entry; what a concealing receipt only commits to is empty."""
    value = data.get(name, "")
    if not isinstance(value, str):
        raise Break("schema", f"an entry has a `{name}` that is no text")
    return value


def _list(data: Data, name: str) -> Sequence[object]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise Break("schema", f"an entry has a `{name}` that is no list")
    return value
