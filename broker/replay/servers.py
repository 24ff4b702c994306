"""
What MCP servers said in a recorded run, found again for whoever asks the same.

Decided here: which recorded answer a message gets. One that may act (``broker.mcp.methods``) is
the same by its method and all of its parameters, and is answered once for each time that it was;
what cannot act (the beginning, lists) is answered by its method alone where it must, and as often
as it is asked. What a server said of itself, unasked, is said again behind the message that it
followed then. Not decided here: how messages travel (``broker.mcp.standin``).

Rules a maintainer keeps: nothing is made up: what is not on record is an error that says so; only
what passed the gateway then is on record, and what it refuses now never comes here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.mcp import methods
from broker.mcp.messages import REFUSED, Message, failure, tool_failure, write
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree
from broker.replay.normal import Normal, spelled
from broker.trace.format import Event
from broker.trace.reader import RunReader

_BESIDE: Final = "_meta"
_PING: Final = "ping"

Content = Mapping[str, object]


@dataclass(slots=True)
class KeptMessage:
    """
    What a client sent to a server, and what came of it.

    ``before`` is what the server said before it answered, ``after`` what it said then.
    """

    seq: int
    method: str
    key: str
    reply: Content | None = None
    lost: str = ""
    before: list[Content] = field(default_factory=list)
    after: list[Content] = field(default_factory=list)
    asked: bool = False


@dataclass(frozen=True, slots=True)
class ServedMessage:
    """What is sent for a message. ``counts`` says that it may act; ``why`` that it is refused."""

    lines: tuple[bytes, ...]
    counts: bool = False
    why: str = ""


class RecordedServers:
    """
    The MCP servers of one recorded run. Safe among threads.

    Args:
        reader: the run.
        here: makes what is asked comparable; for the places of the run that asks.
        there: the same, for the places of the run that was recorded.

    Raises:
        TraceError: the run cannot be read.
    """

    def __init__(self, reader: RunReader, here: Normal, there: Normal) -> None:
        self._here = here
        self._lock = threading.Lock()
        self._kept: dict[str, list[KeptMessage]] = {}
        waiting: dict[int, KeptMessage] = {}
        for event in reader.stream():
            if event.attrs.get("allowed") is False:
                continue
            if event.type == "mcp.request":
                self._request(reader, event, there, waiting)
            elif event.type == "mcp.response" and event.text("sender") == "client":
                for kept in (waiting.get(seq) for seq in event.causes):
                    if kept is not None:
                        _answered(reader, event, kept)
        self.recorded = sum(1 for kept in self._all() if _acts(kept.method))

    def _request(
        self, reader: RunReader, event: Event, there: Normal, waiting: dict[int, KeptMessage]
    ) -> None:
        server = self._kept.setdefault(event.text("server"), [])
        payload = None if event.payload is None else reader.payload(event)
        params = payload if isinstance(payload, Mapping) else {}
        if event.text("sender") == "client":
            kept = KeptMessage(event.seq, event.text("method"), _key(event, params, there))
            server.append(kept)
            if event.attrs.get("notification") is not True:
                kept.lost = "it was never answered"
                waiting[event.seq] = kept
        elif server:
            said: dict[str, object] = {"jsonrpc": "2.0", "method": event.text("method")}
            said |= {"id": event.attrs["id"]} if "id" in event.attrs else {}
            said |= {"params": params} if params else {}
            last = server[-1]
            (last.after if last.reply is not None or not last.lost else last.before).append(said)

    def _all(self) -> list[KeptMessage]:
        return [kept for server in self._kept.values() for kept in server]

    @property
    def left(self) -> tuple[int, ...]:
        """The events of the calls that were recorded and not asked for."""
        with self._lock:
            return tuple(k.seq for k in self._all() if not k.asked and _acts(k.method))

    def ask(self, server: str, message: Message) -> ServedMessage:
        """Return what a server says to a message of its client."""
        hidden, _ = hide_tree(dict(message.params), Hider())
        params = hidden if isinstance(hidden, dict) else {}
        key = _form(message.method, params, self._here)
        counts = _acts(message.method)
        with self._lock:
            rows = [k for k in self._kept.get(server, ()) if k.method == message.method]
            kept = _chosen(rows, key, counts=counts)
            first = kept is not None and not kept.asked
            if kept is not None:
                kept.asked = True
        if message.id is None:
            return ServedMessage(_lines([*kept.before, *kept.after] if kept and first else []))
        if kept is not None and kept.reply is not None:
            reply = {"jsonrpc": "2.0", "id": message.id, **kept.reply}
            around = (kept.before, kept.after) if first else ([], [])
            return ServedMessage(_lines([*around[0], reply, *around[1]]), counts)
        if message.method == _PING:
            return ServedMessage(_lines([{"jsonrpc": "2.0", "id": message.id, "result": {}}]))
        why = _why(server, message, kept)
        said = f"not in the recording: {why}"
        calls = message.method == methods.CALL
        line = tool_failure(message.id, said) if calls else failure(message.id, REFUSED, said)
        return ServedMessage((line,), counts, why)


def _chosen(rows: Sequence[KeptMessage], key: str, *, counts: bool) -> KeptMessage | None:
    """Return the recorded message that one is: the earliest that is left."""
    left = [kept for kept in rows if not kept.asked]
    same = [kept for kept in left if kept.key == key]
    if counts:
        return next(iter(same), None)
    again = [kept for kept in rows if kept.key == key]
    return next(iter([*same, *again, *left, *rows[-1:]]), None)


def _acts(method: str) -> bool:
    """Whether a message of a client may act, so that its answer is a result of a tool."""
    return method not in methods.ASKED_HARMLESSLY and method not in methods.TOLD_HARMLESSLY


def _answered(reader: RunReader, event: Event, kept: KeptMessage) -> None:
    payload = None if event.payload is None else reader.payload(event)
    if isinstance(payload, Mapping):
        kept.reply, kept.lost = payload, ""
    else:
        kept.lost = f"its answer was left out of the recording: {event.text('left_out') or 'empty'}"


def _key(event: Event, params: Mapping[str, object], normal: Normal) -> str:
    # What was too long to be told has a key that nothing is the same as.
    left_out = event.text("left_out")
    return f"{event.seq}: {left_out}" if left_out else _form(event.text("method"), params, normal)


def _form(method: str, params: Mapping[str, object], normal: Normal) -> str:
    kept = {name: value for name, value in params.items() if name != _BESIDE}
    return spelled(normal.body([method, kept]))


def _lines(bodies: Sequence[Content]) -> tuple[bytes, ...]:
    return tuple(write(body) for body in bodies)


def _why(server: str, message: Message, kept: KeptMessage | None) -> str:
    name = message.params.get("name")
    what = f"{message.method} {name}" if isinstance(name, str) else message.method
    named = f"`{what}` of `{server}`"
    if kept is not None:
        return f"{named}: {kept.lost or 'it was never answered'}"
    return f"{named} is not left on record with these arguments"
