"""
Writes what passed the proxy, and what was decided meanwhile, into a run's trace.

Decided here: which events a request and its answer become, and in which order. Not decided here:
how they pass (``proxy``), what is hidden and how it is kept (``broker.trace``).

What passes is only noted by the threads that carry it; one thread reads it, clears it of secrets
and writes. It may fall behind, and waits for nobody: nobody waits for it but the end of the run.

Rules a maintainer keeps: what breaks here costs an event and never the run, and is told in the
trace where that can still be written; the digest of a body is that of the bytes that were sent,
whatever is kept of them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.boundary import contained
from broker.capture.calling import OpenCalls
from broker.capture.conversation import MAIN, Conversations, owner_of
from broker.capture.passing import Passage
from broker.capture.tape import Tape
from broker.capture.wires import reading
from broker.capture.wires.said import CallResult, ModelCall, SaidReply, WireReader
from broker.events import CallDecided, Event
from broker.records.failures import answered as failure_of
from broker.records.model import Failure
from broker.trace.hiding import ABSENT
from broker.trace.requests import Requests
from broker.trace.writer import RunWriter

OTHER: Final = "other"  # the protocol of a request that no model answers in words
ENDING_S: Final = 60.0  # for what is not written yet when the run is over
_OCTETS: Final = "application/octet-stream"
_MAX_ASIDE: Final = 64  # paths that nobody is asked by, of which the trace tells

Turned = Callable[[int], object]


class Scribe:
    """
    The one who writes of model calls. It is the proxy's watcher, and a subscriber of the bus.

    Args:
        run: the run.
        turned: is told of each turn of the main conversation before its request is written.
        open_calls: is told of each call, and of its end.

    ``requests`` and ``calls`` count what was written.
    """

    def __init__(
        self, run: RunWriter, turned: Turned = bool, open_calls: OpenCalls | None = None
    ) -> None:
        self.requests = 0
        self.calls = 0
        self._run = run
        self._turned = turned
        self._open_calls = open_calls or OpenCalls()
        self._kept = Requests(run)
        self._conversations = Conversations()
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._open: dict[int, _Open] = {}
        self._latest: dict[str, int] = {}
        self._called: dict[str, int] = {}
        self._unknown: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Begin to write, in a thread of its own."""
        self._thread = threading.Thread(target=self._write, name="scribe", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """Write what is left, and return whether all of it was written in time."""
        self._queue.put(None)
        if self._thread is None:
            self._write()
            return True
        self._thread.join(ENDING_S)
        return not self._thread.is_alive()

    # ── told by others, in their threads ──

    def asked(self, passing: Passage) -> None:
        """Note that a request is through."""
        self._queue.put(partial(self._asked, passing))

    def answered(self, passing: Passage) -> None:
        """Note that an answer is through."""
        self._queue.put(partial(self._answered, passing))

    def unknown(self, method: str, path: str) -> None:
        """Note that something was asked for that is not passed on."""
        self._queue.put(partial(self._aside, method, path))

    def hear(self, event: Event) -> None:
        """Note a decision; a subscriber of the session's bus."""
        if isinstance(event, CallDecided):
            self._queue.put(partial(self._decided, event))

    # ── written here ──

    def _write(self) -> None:
        while (work := self._queue.get()) is not None:
            contained(work, self._broken)

    def _broken(self, error: Exception) -> None:
        """Tell of what broke, if the trace is not what broke."""
        attrs: dict[str, object] = {"kind": "recorder", "error": type(error).__name__}
        contained(partial(self._tell, attrs), lambda _: None)

    def _tell(self, attrs: dict[str, object]) -> None:
        if not self._run.broken:
            self._run.event("error", "orca", attrs=attrs)

    def _asked(self, passing: Passage) -> None:
        tape = passing.request
        attrs: dict[str, object] = {
            "api": OTHER,
            "method": passing.method,
            "path": passing.path,
            "upstream": passing.upstream,
            "sha256": tape.sha256(),
            "bytes": tape.size_bytes,
        }
        wire = reading.wire_of(passing.method, passing.path)
        content = _content(tape, passing.marks.get("content-encoding", ""), attrs)
        tape.close()
        body = None if content is None else reading.json_of(content)
        self.requests += 1
        if wire is None or not isinstance(body, dict):
            self._open[id(passing)] = _Open(self._plain(attrs, content, passing), "", None)
            return
        said = reading.asked(wire, body, passing.path)
        new = self._conversations.asked(wire.api, said, owner_of(passing.marks))
        if new.name == MAIN:
            self._turned(self._run.new_turn())
        for call in new.calls:
            self._call(call, new.name, [self._latest.get(new.name, -1)], {"seen": "request"})
        causes = [self._result(result, new.name) for result in new.results]
        attrs |= {
            "api": wire.api,
            "model": said.model,
            "messages": len(said.messages),
            "tools": len(said.tools),
            **({"stream": True} if said.stream else {}),
            **({"anew": True} if new.anew else {}),
        }
        seq = self._kept.write(
            new.name, body, causes=causes or [self._latest.get(new.name, -1)], attrs=attrs
        )
        self._open[id(passing)] = _Open(seq, new.name, wire)

    def _plain(self, attrs: dict[str, object], content: bytes | None, passing: Passage) -> int:
        """Write a request that no model answers in words."""
        kind = _kind(passing.marks.get("content-type", "")) or _OCTETS
        payload = content if content else ABSENT
        return self._run.event(
            "model.request", "agent", attrs=attrs, payload=payload, media_type=kind
        )

    def _answered(self, passing: Passage) -> None:
        asked = self._open.pop(id(passing))
        tape = passing.answer
        kind = _kind(passing.told.get("content-type", ""))
        attrs: dict[str, object] = {
            **({"status": passing.status} if passing.status is not None else {}),
            "sha256": tape.sha256(),
            "bytes": tape.size_bytes,
            "duration_us": (passing.ended_ns - passing.began_ns) // 1_000,
            **({"content_type": kind} if kind else {}),
            **({"conversation": asked.conversation} if asked.conversation else {}),
        }
        if passing.first_ns is not None:
            attrs["first_byte_us"] = (passing.first_ns - passing.began_ns) // 1_000
        content = _content(tape, passing.told.get("content-encoding", ""), attrs)
        tape.close()
        reply = _reply(asked.wire, passing, content, kind)
        attrs |= _told(reply)
        if asked.wire is not None and "event-stream" in kind:
            attrs["stream"] = True
        seq = self._run.event(
            "model.response",
            "model",
            causes=[asked.seq],
            attrs=attrs,
            payload=content if content else ABSENT,
            media_type=kind or _OCTETS,
        )
        if asked.conversation:
            self._latest[asked.conversation] = seq
            calls = self._conversations.answered(asked.conversation, reply)
            for at, call in enumerate(calls):
                self._call(call, asked.conversation, [seq], {"index": at})

    def _call(
        self, call: ModelCall, conversation: str, causes: list[int], more: dict[str, object]
    ) -> None:
        attrs = {"name": call.name, "call": call.id, "conversation": conversation, **more}
        self._called[call.id] = self._run.event(
            "tool.call", "model", causes=causes, attrs=attrs, payload=call.arguments
        )
        self._open_calls.begun(self._called[call.id], call.arguments)
        self.calls += 1

    def _result(self, result: CallResult, conversation: str) -> int:
        content = result.content
        text = content if isinstance(content, str) else None
        attrs = {
            "name": result.name,
            "call": result.id,
            "conversation": conversation,
            **({} if result.failed is None else {"ok": not result.failed}),
            **({} if text is None else {"bytes": len(text.encode("utf-8", "surrogatepass"))}),
        }
        causes = [self._called.pop(result.id, -1)]
        self._open_calls.ended(causes[0])
        return self._run.event(
            "tool.result", "harness", causes=causes, attrs=attrs, payload=content
        )

    def _decided(self, event: CallDecided) -> None:
        refusal = event.decision.refusal
        attrs = {
            "kind": "authority.decision",
            "n": event.n,
            "call": event.call,
            "tool": event.tool,
            "allowed": event.decision.allowed,
            **({} if refusal is None else {"caveat": refusal.caveat}),
            "ticket": event.ticket,
            "actor": event.actor,
            "sid": event.sid,
        }
        cause = self._called.get(event.call, -1)
        self._run.event("note", "gateway", causes=[cause], attrs=attrs)

    def _aside(self, method: str, path: str) -> None:
        if (method, path) in self._unknown or len(self._unknown) >= _MAX_ASIDE:
            return
        self._unknown.add((method, path))
        attrs = {"kind": "not passed on", "method": method, "path": path}
        self._run.event("note", "orca", attrs=attrs)


class _Open:
    """A request that was written and has no answer yet."""

    __slots__ = ("conversation", "seq", "wire")

    def __init__(self, seq: int, conversation: str, wire: WireReader | None) -> None:
        self.seq = seq
        self.conversation = conversation
        self.wire = wire


def _content(tape: Tape, encoding: str, attrs: dict[str, object]) -> bytes | None:
    """Return what a body says, or None with the reason among the attributes."""
    content = tape.content()
    if content is None:
        attrs["left_out"] = tape.lost
        return None
    if not encoding:
        return content
    attrs["encoding"] = encoding
    found = reading.undone(content, encoding)
    if found is None:
        attrs["left_out"] = f"its encoding cannot be undone: {encoding}"
    return found


def _reply(
    wire: WireReader | None, passing: Passage, content: bytes | None, kind: str
) -> SaidReply:
    """Return what an answer says, and why it is none where it is none."""
    if passing.failure is not None:
        # What came before the end was sent on, and an agent may have acted on it.
        said = _read(wire, content, kind) if passing.status == 200 else SaidReply()
        return SaidReply(said.text, said.calls, None, failure=passing.failure)
    status = passing.status or 0
    if not 200 <= status < 300:
        return SaidReply(failure=failure_of(status, (content or b"").decode("utf-8", "replace")))
    return _read(wire, content, kind)


def _read(wire: WireReader | None, content: bytes | None, kind: str) -> SaidReply:
    if wire is None or content is None:
        return SaidReply()
    return reading.reply(wire, content, kind)


def _told(reply: SaidReply) -> dict[str, object]:
    failure: Failure | None = reply.failure
    found: dict[str, object] = {
        "stop_reason": reply.finish,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "error": None if failure is None else failure.kind,
        "message": None if failure is None else failure.message,
    }
    return {key: value for key, value in found.items() if value is not None}


def _kind(content_type: str) -> str:
    """
    Return the media type that a field names, without what is behind it.

    >>> _kind("Application/JSON; charset=utf-8")
    'application/json'
    """
    return content_type.partition(";")[0].strip().lower()
