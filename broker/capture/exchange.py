"""
One request and its answer between two sockets: every byte is handed on as soon as it is here.

Decided here: what of the two heads is changed, in which order things are done, and what happens
when one side ends early. Not decided here: who may ask and for what (``proxy``).

Of the heads, what belongs to a hop is left out, ``Host`` names the upstream, a run's token is
replaced by the key that it stands for, and ``Accept-Encoding`` loses the codings that the record
could not be read in. Nothing else is changed, and no body ever is. An answer that is cut short is
cut short for the agent too; an agent that goes away takes its connection to the model along.

Rules a maintainer keeps: bytes are handed on first and kept second; neither side waits for the
record; neither side's slowness fills our memory: nothing is read for whom nothing can be written.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.capture.http1 import (
    CHUNKED,
    TO_END,
    BodyFraming,
    Field,
    HttpHead,
    WireError,
    answer_head,
    answer_length,
    request_length,
    spelled,
    split_head,
)
from broker.capture.passing import Clock, Passage, Watcher, marks_of
from broker.capture.upstream import ModelUpstream, UpstreamLink, connect
from broker.records.failures import failed

READ_BYTES: Final = 262_144  # bytes that are read at once
REFUSED_S: Final = 10.0  # for the rest of a request that has nowhere to go
_CODINGS: Final = frozenset((b"gzip", b"x-gzip", b"deflate", b"identity"))
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class _AgentGone(Exception):
    """The agent closed its connection."""


@dataclass(frozen=True, slots=True)
class CarryOrder:
    """A request that is to be carried: its head, what came behind it, where to and for what."""

    head: HttpHead
    rest: bytes
    upstream: ModelUpstream
    target: str


@dataclass(frozen=True, slots=True)
class ExchangeEnd:
    """What is left after an exchange: bytes of the next request, and what can be used again."""

    rest: bytes
    link: UpstreamLink | None
    again: bool


class Exchange:
    """
    Carries one request and its answer.

    Args:
        near: the agent's connection.
        order: the request.
        passing: what is remembered of it.
        watcher: who is told.
        clock: a monotonic clock, in nanoseconds.
    """

    def __init__(
        self,
        near: socket.socket,
        order: CarryOrder,
        passing: Passage,
        watcher: Watcher,
        clock: Clock,
    ) -> None:
        self._near = near
        self._head = head = order.head
        self._rest = order.rest
        self._target = order.target
        self._upstream = order.upstream
        self._passing = passing
        self._watcher = watcher
        self._clock = clock
        self._parts: list[memoryview] = []
        self._request = BodyFraming(request_length(head), self._parts.append)
        self._answer: BodyFraming | None = None
        self._begun = b""  # of the head of the answer
        self._to_near = b""
        self._to_far = b""
        self._asked = False
        self._again = b"close" not in head.listed(b"connection")
        self._far_again = True

    # ── the whole of it ──

    def run(self, link: UpstreamLink | None, environ: Mapping[str, str]) -> ExchangeEnd:
        """
        Carry the request and its answer.

        Args:
            link: a connection to the upstream that can be used, if there is one.
            environ: by which a new one is made.
        """
        try:
            used = link or connect(self._upstream, environ)
        except OSError as error:
            return self._refused(502, f"`{self._upstream.where}` cannot be reached: {_why(error)}")
        try:
            self._carry(used)
        except _AgentGone:
            self._passing.failure = failed("aborted", "the agent closed its connection")
            self._again = False
        except WireError as error:
            return self._broken(used, f"`{self._upstream.where}` does not speak HTTP/1.1: {error}")
        except OSError as error:
            return self._broken(used, f"the connection failed: {_why(error)}")
        self._over()
        whole = self._answer is not None and self._answer.done and self._request.done
        if whole and self._far_again and self._passing.failure is None:
            return ExchangeEnd(self._rest, used, self._again)
        used.socket.close()
        return ExchangeEnd(self._rest, None, whole and self._again)

    def _over(self) -> None:
        self._tell_asked()
        self._passing.ended_ns = self._clock()
        self._watcher.answered(self._passing)

    def _tell_asked(self) -> None:
        if not self._asked:
            self._asked = True
            self._watcher.asked(self._passing)

    def _broken(self, link: UpstreamLink, why: str) -> ExchangeEnd:
        """End an exchange whose upstream failed: before its answer began that can be told."""
        link.socket.close()
        if self._answer is None:
            return self._refused(502, why)
        self._passing.failure = failed("network", why)
        self._over()
        return ExchangeEnd(b"", None, again=False)

    def _refused(self, status: int, why: str) -> ExchangeEnd:
        """Answer in the upstream's place, once the request is here."""
        self._passing.failure = failed("network", why)
        self._passing.status = status
        again = self._again
        try:
            self._near.settimeout(REFUSED_S)
            while not self._request.done:
                self._take_request(self._rest or _received(self._near))
            self._near.sendall(refusal(status, "upstream_unreachable", why, close=not again))
        except (OSError, WireError, _AgentGone):
            again = False
        self._over()
        return ExchangeEnd(self._rest, None, again)

    # ── there ──

    def _carry(self, link: UpstreamLink) -> None:
        far = link.socket
        self._near.setblocking(False)
        far.setblocking(False)
        self._to_far = self._onward(link)
        if self._rest:
            self._send_on(self._take_request(self._rest))
        elif self._request.done:
            self._tell_asked()
        self._write_far(far)
        poller = select.poll()
        while not self._complete():
            self._wait(poller, far)
        if self._request.done and self._answer is not None and self._answer.done:
            return
        self._again = False

    def _complete(self) -> bool:
        return self._answer is not None and self._answer.done and not self._to_near

    def _wait(self, poller: select.poll, far: socket.socket) -> None:
        """Wait until something can be read or written, and do that."""
        near_events = (select.POLLOUT if self._to_near else 0) | (
            select.POLLIN if not self._to_far and not self._rest else 0
        )
        hears = not self._to_near and not (self._answer is not None and self._answer.done)
        far_events = (select.POLLOUT if self._to_far else 0) | (select.POLLIN if hears else 0)
        poller.register(self._near, near_events)
        poller.register(far, far_events)
        waiting = hears and isinstance(far, ssl.SSLSocket) and far.pending() > 0
        ready = dict(poller.poll(0 if waiting else None))
        at_far = ready.get(far.fileno(), 0) | (select.POLLIN if waiting else 0)
        at_near = ready.get(self._near.fileno(), 0)
        if at_far & select.POLLOUT:
            self._write_far(far)
        if at_near & select.POLLOUT:
            self._write_near()
        if hears and at_far & (select.POLLIN | _GONE):
            self._read_far(far)
        if at_near & (_GONE | (near_events & select.POLLIN)):
            self._read_near(far)

    def _read_near(self, far: socket.socket) -> None:
        try:
            data = self._near.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            raise _AgentGone from None
        if not data:
            raise _AgentGone
        if self._request.done:
            self._rest += data  # the next request, and no more is read of it for now
            return
        self._send_on(self._take_request(data))
        self._write_far(far)

    def _take_request(self, data: bytes) -> bytes:
        """Return what of some bytes is the request's; the rest waits for its turn."""
        used = self._request.feed(data)
        self._rest = data[used:]
        for part in self._parts:
            self._passing.request.take(part)
        self._parts.clear()
        if self._request.done:
            self._tell_asked()
        return data[:used]

    def _send_on(self, data: bytes) -> None:
        self._to_far = self._to_far + data if self._to_far else data

    def _write_far(self, far: socket.socket) -> None:
        while self._to_far:
            try:
                sent = far.send(self._to_far)
            except (BlockingIOError, InterruptedError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            self._to_far = self._to_far[sent:]

    def _onward(self, link: UpstreamLink) -> bytes:
        """Return the head of the request as the upstream gets it."""
        fields: list[Field] = []
        host = self._upstream.authority.encode()
        for name, value in self._head.onward():
            lower = name.lower()
            if lower == b"host":
                fields.append((name, host))
            elif lower == b"accept-encoding":
                fields.append((name, readable_codings(value)))
            else:
                fields.append((name, self._swapped(value)))
        if not self._head.all(b"host"):
            fields.append((b"Host", host))
        target = self._swapped(self._target.encode("latin-1"))
        words = (self._head.words[0], link.front.encode() + target, b"HTTP/1.1")
        return spelled(words, [*fields, *link.fields])

    def _swapped(self, text: bytes) -> bytes:
        """Return a text with the key in the place of the run's token."""
        for token, key in self._upstream.keys.items():
            text = text.replace(token.encode(), key.encode("latin-1", "replace"))
        return text

    # ── and back ──

    def _read_far(self, far: socket.socket) -> None:
        try:
            data = far.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        if data:
            self._hear(data)
            return
        if self._answer is None:
            raise OSError("it was closed without an answer")
        if self._answer.done:
            self._far_again = False
        elif self._answer.length == TO_END:
            self._answer.done = True
        else:
            raise OSError("the answer ended before its end")

    def _hear(self, data: bytes) -> None:
        before = b""
        if self._answer is None:
            self._begun += data
            while self._answer is None:
                found = split_head(self._begun)
                if found is None:
                    break
                self._begun = found[1]
                before += self._heard(answer_head(found[0]))
            if self._answer is None:
                self._to_near += before
                self._write_near()
                return
            data, self._begun = self._begun, b""
        used = self._answer.feed(data)
        if used < len(data):
            self._far_again = False  # more than it said: whose is it?
            data = data[:used]
        self._to_near += before + data if before else data
        self._write_near()
        if self._parts and self._passing.first_ns is None:
            self._passing.first_ns = self._clock()
        for part in self._parts:
            self._passing.answer.take(part)
        self._parts.clear()

    def _heard(self, head: HttpHead) -> bytes:
        """Take in a head of the upstream's, and return it as the agent gets it."""
        status = head.words[1]
        if status == b"101":
            raise WireError("it becomes another protocol")
        if status.startswith(b"1"):
            return spelled((b"HTTP/1.1", *head.words[1:]), head.onward())
        length = answer_length(head, self._head.words[0])
        if self._request.done is False:
            self._again = False  # it answers before it has heard all; then both are closed
        self._answer = BodyFraming(length, self._parts.append)
        self._passing.status = int(status)
        self._passing.told = marks_of(head)
        old = head.words[0] != b"HTTP/1.1"
        if old and length == CHUNKED:
            raise WireError("an answer of HTTP/1.0 comes in chunks")
        if old or length == TO_END or b"close" in head.listed(b"connection"):
            self._far_again = False
        if length == TO_END:
            self._again = False
        fields = head.onward()
        if not self._again:
            fields.append((b"Connection", b"close"))
        return spelled((b"HTTP/1.1", *head.words[1:]), fields)

    def _write_near(self) -> None:
        while self._to_near:
            try:
                sent = self._near.send(self._to_near)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                raise _AgentGone from None
            self._to_near = self._to_near[sent:] if sent < len(self._to_near) else b""


def _received(near: socket.socket) -> bytes:
    data = near.recv(READ_BYTES)
    if not data:
        raise _AgentGone
    return data


def readable_codings(value: bytes) -> bytes:
    """
    Return which codings an answer may have: of those that were asked for, the readable ones.

    >>> readable_codings(b"gzip, deflate, br, zstd")
    b'gzip, deflate'
    """
    kept = [m.strip() for m in value.split(b",")]
    kept = [m for m in kept if m.partition(b";")[0].strip().lower() in _CODINGS]
    return b", ".join(kept) or b"identity"


def refusal(status: int, kind: str, why: str, *, close: bool) -> bytes:
    """Return an answer of our own, in the shape in which providers tell of errors."""
    said = {"type": "error", "error": {"type": kind, "message": f"broker: {why}"}}
    body = json.dumps(said).encode()
    reason = {404: b"Not Found", 502: b"Bad Gateway", 400: b"Bad Request", 505: b"Unsupported"}
    fields = [
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
        *([(b"Connection", b"close")] if close else []),
    ]
    return spelled((b"HTTP/1.1", b"%d" % status, reason[status]), fields) + body


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed ({error.verify_message})"
    return (error.strerror or str(error) or type(error).__name__).lower()
