"""
What agent frameworks tell of their own structure: nodes of a graph, handoffs, guardrails.

Two packages for two frameworks append a line of JSON to the file that ``ORCA_AGENT_SPANS`` names,
for each thing that begins or ends. So a framework that has one of them is recorded as it is.

Decided here: which lines become which events, and how the file is followed while it grows. Not
decided here: when that begins and ends (``broker.capture.world``).

Rules a maintainer keeps: a line that cannot be read costs that line; the file has a limit; what a
line says never chooses an event's type or actor but by the table here.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.errors import TraceError
from broker.trace.writer import RunWriter

VARIABLE: Final = "ORCA_AGENT_SPANS"
MAX_LINE_BYTES: Final = 2**20
MAX_SPANS_BYTES: Final = 256 * 2**20  # of all lines of a run
MAX_SPANS: Final = 10_000  # that an end, or an inner one, may still name
_POLL_S: Final = 0.2
_STOP_S: Final = 5.0
# What a span's type becomes: the event, the kind if it is a note, and the names of its data.
_EVENTS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "LangGraphNodeStart": ("note", "graph.node.start", ("node", "step")),
    "LangGraphNodeEnd": ("note", "graph.node.end", ("node", "step", "error")),
    "AgentSpanData": ("agent.start", "", ("name", "handoffs", "tools", "output_type")),
    "HandoffSpanData": ("agent.handoff", "", ("from_agent", "to_agent")),
    "GuardrailSpanData": ("agent.guardrail", "", ("name", "triggered")),
}
_OTHERS: Final = frozenset(("trace.start", "trace.end", "dropped"))


class Spans:
    """
    Follows the file of one run. ``begin``, then ``start``, and at the end ``stop``.

    Args:
        run: what is written into.
        path: the file, which is made.
    """

    def __init__(self, run: RunWriter, path: Path) -> None:
        self.path = path
        self._run = run
        self._fd = -1
        self._rest = b""
        self._read_bytes = 0
        self._unreadable = 0
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """
        Make the file.

        Raises:
            OSError: it cannot be made.
        """
        flags = os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)

    def start(self) -> None:
        """Begin to follow the file, in a thread of its own."""
        self._thread = threading.Thread(target=self._follow, name="spans", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read what is left, and say how many lines could not be read."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        with suppress(OSError):
            os.close(self._fd)

    def _follow(self) -> None:
        with suppress(TraceError, OSError):
            while not self._over.wait(_POLL_S):
                self.read()
            self.read()
            self.finish()

    def read(self) -> None:
        """
        Write what has come since.

        Raises:
            TraceError: the trace takes no more.
            OSError: the file cannot be read.
        """
        while self._read_bytes < MAX_SPANS_BYTES and (more := os.read(self._fd, 2**18)):
            self._read_bytes += len(more)
            *lines, self._rest = (self._rest + more).split(b"\n")
            for line in lines:
                self._line(line)
            if len(self._rest) > MAX_LINE_BYTES:
                self._rest = b""  # the end of it will be no JSON, and is counted then

    def finish(self) -> None:
        """
        Take a last line that was not ended, and tell of what could not be read.

        Raises:
            TraceError: the trace takes no more.
        """
        rest, self._rest = self._rest, b""
        self._line(rest)
        if self._unreadable or self._read_bytes >= MAX_SPANS_BYTES:
            attrs = {"kind": "spans.unreadable", "count": self._unreadable}
            self._run.event("note", "orca", attrs=attrs)

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or len(line) > MAX_LINE_BYTES:
            self._unreadable += 1
        elif said.get("kind") == "span" and isinstance(said.get("type"), str):
            self._span(said, str(said["type"]))
        elif said.get("kind") in _OTHERS:
            attrs = {key: value for key, value in said.items() if _short(value) and key != "kind"}
            self._run.event("note", "agent", attrs={**attrs, "kind": f"spans.{said['kind']}"})
        else:
            self._unreadable += 1

    def _span(self, said: Mapping[str, object], kind: str) -> None:
        event, note, names = _EVENTS.get(kind, ("note", "spans.span", ()))
        found = said.get("data")
        data: Mapping[str, object] = found if isinstance(found, dict) else {}
        attrs = {name: data[name] for name in names if _told(data.get(name))}
        if note:
            attrs["kind"] = note
        if not names:
            attrs["span_type"] = kind[:256]
        for key in ("span_id", "parent_id", "trace_id", "started_at", "ended_at"):
            if _short(value := said.get(key)):
                attrs[key] = value
        own, above = (said.get(key) for key in ("span_id", "parent_id"))
        cause = self._seen.get(str(own), self._seen.get(str(above), -1))
        seq = self._run.event(event, "agent", causes=[cause], attrs=attrs, payload=dict(data))
        if isinstance(own, str):
            self._seen.setdefault(own[:256], seq)
            if len(self._seen) > MAX_SPANS:
                self._seen.popitem(last=False)


def _short(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 256)


def _told(value: object) -> bool:
    """Whether a value is short enough to stand among the attributes, a list of names too."""
    if isinstance(value, list):
        return len(value) <= 64 and all(map(_short, value))
    return _short(value)
