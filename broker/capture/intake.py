"""
What shells and MCP gateways tell, and the events that it becomes.

Decided here: what one teller may tell, its limits, and how it is written. Not decided here: how it
arrives (``broker.capture.door``).

Whoever runs as this user can tell something, so only shells' and MCP's own events are written
whatever is told, each with the fields that are named here.

Rules a maintainer keeps: nothing told chooses an event's type, its actor or what it was caused by;
every size has a limit, and all tellers of a run have one together; a command whose end nobody told
was killed, or is running still, and the record says which.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker.capture.calling import OpenCalls
from broker.errors import InputError
from broker.limits import MAX_RECORDED_BYTES
from broker.redaction.hiding import clipped
from broker.trace.hiding import ABSENT
from broker.trace.writer import RunWriter

MAX_STREAM_BYTES: Final = 2**20  # of each stream of a command
MAX_WORD_CHARS: Final = 1_024  # of one word of a command among the attributes
MAX_WORDS: Final = 64
MAX_EVENTS: Final = 100_000  # that all tellers of a run may cause
MAX_TOLD_BYTES: Final = 8 * MAX_RECORDED_BYTES  # that all tellers of a run may tell
MAX_WAITING: Final = 1_024  # requests of one gateway whose answer has not been told
_UNSURE_BYTES: Final = 4_096  # at a cut, where a secret may have lost its form
_MCP_TEXTS: Final = ("server", "method", "call", "caveat", "sender", "left_out")
_MCP_FLAGS: Final = ("allowed", "ok", "notification", "filtered")
_RESULT_COUNTS: Final = ("duration_ms", "stdout_bytes", "stderr_bytes")
_RESULT_FLAGS: Final = ("merged", "left_running")

Header = Mapping[str, object]
Monotonic = Callable[[], float]


class Allowance:
    """What all tellers of a run may still tell."""

    def __init__(self, events: int = MAX_EVENTS, octets: int = MAX_TOLD_BYTES) -> None:
        self._events = events
        self._octets = octets
        self._lock = threading.Lock()

    def take(self, octets: int) -> bool:
        """Whether one more event of so many bytes may be told."""
        with self._lock:
            self._events -= 1
            self._octets -= octets
            return self._events >= 0 and self._octets >= 0


class Intake:
    """
    Takes what one teller tells: one shell, or one gateway. Not safe among threads.

    Args:
        run: what is written into.
        allowance: shared by all tellers of the run.
        monotonic: a clock that never goes back, in seconds.
        open_calls: which call of the model's a shell carries out.
    """

    def __init__(
        self,
        run: RunWriter,
        allowance: Allowance,
        monotonic: Monotonic = time.monotonic,
        open_calls: OpenCalls | None = None,
    ) -> None:
        self._run = run
        self._allowance = allowance
        self._monotonic = monotonic
        self._open_calls = open_calls or OpenCalls()
        self._command = -1  # the event of the shell that has begun
        self._words: list[str] = []
        self._call = -1  # the event of the call that it carries out
        self._began_s = 0.0
        self._ended = False
        self._streams: dict[int, bytearray] = {}
        self._waiting: OrderedDict[str, int] = OrderedDict()

    def take(self, header: Header, parts: Sequence[bytes]) -> None:
        """
        Take one frame.

        Raises:
            InputError: it is none that can be read.
            TraceError: the trace takes no more.
        """
        if not self._allowance.take(sum(map(len, parts))):
            raise InputError("more was told than a run keeps")
        kind = header.get("kind")
        if kind == "shell.exec" and len(parts) == 2 and self._command < 0:
            self._begun(header, parts[0], parts[1])
        elif kind == "shell.output" and len(parts) == 1 and self._command >= 0:
            self._output(header, parts[0])
        elif kind == "shell.result" and self._command >= 0 and not self._ended:
            self._result(header)
        elif kind in ("mcp.request", "mcp.response") and len(parts) <= 1:
            self._frame(str(kind), header, parts[0] if parts else None)
        else:
            raise InputError("what was told is none of the frames that the recorder takes")

    def over(self, *, running: bool) -> None:
        """
        End: the teller has gone.

        Args:
            running: it was we who hung up; else nobody was left to tell the end of its command.
        """
        if self._command < 0 or self._ended:
            return
        took_ms = int((self._monotonic() - self._began_s) * 1000)
        attrs: dict[str, object] = {"duration_ms": took_ms, "untold": True}
        attrs |= {"left_running": True} if running else {"signal": "SIGKILL"}
        self._write_result(attrs)

    # ── shells ──

    def _begun(self, header: Header, said: bytes, cwd: bytes) -> None:
        words = [_text(word) for word in said.split(b"\0")]
        attrs: dict[str, object] = {
            "argv": [clipped(word, MAX_WORD_CHARS, "…") for word in words[:MAX_WORDS]],
            "cwd": _text(cwd),
            "pid": _count(header, "pid"),
        }
        whole = _count(header, "bytes")
        payload: object = ABSENT
        if attrs["argv"] != words:
            payload = {"argv": words if whole == len(said) else _cut(words)}
        if whole != len(said):
            attrs["left_out"] = f"of {whole} bytes, {whole - len(said)} at the end"
        self._began_s = self._monotonic()
        self._words, self._call = words, self._open_calls.cause(words)
        self._command = self._run.event(
            "shell.exec", "harness", causes=[self._call], attrs=attrs, payload=payload
        )

    def _output(self, header: Header, data: bytes) -> None:
        kept = self._streams.setdefault(_count(header, "stream"), bytearray())
        kept += data[: MAX_STREAM_BYTES - len(kept)]

    def _result(self, header: Header) -> None:
        attrs: dict[str, object] = {}
        if "signal" in header:
            attrs["signal"] = _signal_name(_count(header, "signal"))
        else:
            attrs["exit_code"] = _count(header, "exit_code")
        attrs |= {name: _count(header, name) for name in _RESULT_COUNTS if name in header}
        attrs |= {name: True for name in _RESULT_FLAGS if header.get(name) is True}
        self._write_result(attrs)

    def _write_result(self, attrs: dict[str, object]) -> None:
        payload = {}
        for number, name in ((1, "stdout"), (2, "stderr")):
            kept = bytes(self._streams.get(number, b""))
            count = attrs.setdefault(f"{name}_bytes", len(kept)) if kept else 0
            if isinstance(count, int) and count > len(kept):
                kept = kept[: max(0, len(kept) - _UNSURE_BYTES)]
                attrs[f"{name}_left_out"] = count - len(kept)
            payload[name] = _text(kept)
        self._ended = True
        self._streams.clear()
        causes = [self._command]
        if self._call < 0:  # the call may have been written meanwhile
            causes.append(self._open_calls.cause(self._words))
        self._run.event("shell.result", "harness", causes=causes, attrs=attrs, payload=payload)

    # ── MCP ──

    def _frame(self, kind: str, header: Header, body: bytes | None) -> None:
        attrs: dict[str, object] = {
            name: _words(header, name) for name in _MCP_TEXTS if name in header
        }
        attrs |= {name: header[name] for name in _MCP_FLAGS if isinstance(header.get(name), bool)}
        ident = header.get("id")
        if isinstance(ident, str | int) and not isinstance(ident, bool):
            attrs["id"] = ident if isinstance(ident, int) else ident[:256]
        key = f"{attrs.get('sender')} {json.dumps(ident)}"
        payload = ABSENT if body is None else _document(body)
        if kind == "mcp.response":
            causes = [self._waiting.pop(key, -1)]
            self._run.event(kind, "gateway", causes=causes, attrs=attrs, payload=payload)
            return
        seq = self._run.event(kind, "agent", attrs=attrs, payload=payload)
        if ident is not None:
            self._waiting[key] = seq
            while len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)


def _text(said: bytes) -> str:
    """Return bytes as a text that can be made bytes again."""
    return said.decode("utf-8", "surrogateescape")


def _cut(words: list[str]) -> list[str]:
    """Return words of which the last one was cut, without the end that may be half a secret."""
    last = words[-1]
    return [*words[:-1], last[: max(0, len(last) - _UNSURE_BYTES)]]


def _count(header: Header, name: str) -> int:
    value = header.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InputError(f"`{name}` is no count")
    return value


def _words(header: Header, name: str) -> str:
    value = header.get(name)
    if not isinstance(value, str):
        raise InputError(f"`{name}` is no text")
    return clipped(value, MAX_WORD_CHARS, "…")


def _document(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("a frame of MCP is JSON") from error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)  # one of those without a name
