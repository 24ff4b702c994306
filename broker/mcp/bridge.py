"""
The gateway between a client on our standard streams and a server over streamable HTTP.

Decided here: how lines become requests and answers become lines again. Not decided here: what
becomes of a message (``broker.mcp.gateway``).

What the client only tells, and its first request, are sent one after the other, since a server
must have them in order; every later request has a thread, since an answer may take its time. A
stream that breaks off before its answer is resumed where the server names its events.

Rule a maintainer keeps: every request of the client is answered, by the server or by an error.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Final

from broker.errors import BrokerError
from broker.mcp.gateway import Gateway
from broker.mcp.messages import Message, read_message
from broker.mcp.routing import VERSION, headers_of
from broker.mcp.sse import EventReader
from broker.mcp.stdio import GRACE_S, LineWriter, lines
from broker.mcp.upstream import EVENTS, JSON, SESSION_HEADER, Reply, Upstream

RESUMED: Final = 5  # how often a stream is taken up again for one answer
RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 30.0


class Bridge:
    """Carries one client's messages to a server behind an address, and back."""

    def __init__(self, gateway: Gateway, upstream: Upstream, client: LineWriter) -> None:
        self._gateway = gateway
        self._upstream = upstream
        self._client = client
        self._session: str | None = None
        self._version: str | None = None
        self._replies: set[Reply] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()

    def run(self, client_in: IO[bytes]) -> None:
        """Carry messages until the client hangs up."""
        for line in lines(client_in):
            ruling = self._gateway.from_client(line)
            if not self._client.send(ruling.back):
                break
            if ruling.onward is not None:
                self._pass_on(ruling.onward)

    def end(self) -> None:
        """Leave the server once it has answered, and say so where it keeps a session."""
        until = time.monotonic() + GRACE_S
        while self._gateway.waits() and time.monotonic() < until:
            time.sleep(0.02)
        self._over.set()
        if self._session is not None:
            with suppress(BrokerError):
                self._upstream.ask("DELETE", self._headers()).close()
        with self._lock:
            left = list(self._replies)
        for reply in left:
            reply.close()
        self._client.close()

    def _pass_on(self, line: bytes) -> None:
        message = read_message(line)
        if message.kind == "request" and message.method != "initialize":
            threading.Thread(target=self._ask, args=(line, message), daemon=True).start()
            return
        self._ask(line, message)
        if message.method == "notifications/initialized":
            threading.Thread(target=self._listen, daemon=True).start()

    def _ask(self, line: bytes, message: Message) -> None:
        """Send one message, and see to it that a request is answered."""
        why = "the server's answer broke off"
        try:
            reply = self._upstream.ask("POST", {**self._headers(), **headers_of(message)}, line)
            why = self._take(reply, message) or why
        except BrokerError as error:
            why = str(error)
        if message.kind == "request":
            self._client.send(self._gateway.unanswered(line, why))

    def _take(self, reply: Reply, message: Message) -> str:
        """Pass on what a reply holds; return what was wrong with it."""
        with self._lock:
            self._replies.add(reply)
        try:
            if fault := reply.fault():
                return fault
            self._session = reply.session or self._session
            if not 200 <= reply.status < 300:
                return f"the server answers with status {reply.status}"
            if reply.kind == EVENTS:
                self._stream(reply, message)
            elif (found := reply.body()).strip() and reply.kind == JSON:
                self._deliver(found, message)
            return ""
        finally:
            with self._lock:
                self._replies.discard(reply)
            reply.close()

    def _stream(self, reply: Reply, message: Message | None) -> None:
        """Pass on a stream, and take it up again as long as it owes an answer."""
        last, retry_s = self._events(reply, message, None)
        for _ in range(RESUMED):
            if message is None or last is None or not self._gateway.waits(message.id):
                return
            time.sleep(retry_s)
            again = self._upstream.ask("GET", {**self._headers(), "Last-Event-ID": last})
            try:
                if again.fault() or again.status != 200 or again.kind != EVENTS:
                    return
                last, retry_s = self._events(again, message, last)
            finally:
                again.close()

    def _events(
        self, reply: Reply, message: Message | None, last: str | None
    ) -> tuple[str | None, float]:
        events, retry_s = EventReader(), RETRY_S
        for chunk in reply.chunks():
            for event in events.feed(chunk):
                if event.id is not None:
                    last = event.id.decode("latin-1")
                if event.retry is not None and event.retry.isdigit():
                    retry_s = min(int(event.retry) / 1000, MAX_RETRY_S)
                if event.data:
                    self._deliver(event.data, message)
            if message is not None and message.kind == "request":
                if not self._gateway.waits(message.id):
                    break
        return last, retry_s

    def _deliver(self, raw: bytes, asked: Message | None) -> None:
        """Decide about one message of the server, and pass it on."""
        ruling = self._gateway.from_server(raw)
        if ruling.onward is not None:
            if asked is not None and asked.method == "initialize":
                self._version = _version(ruling.onward) or self._version
            self._client.send(ruling.onward)
        if ruling.back is not None:
            self._upstream.ask("POST", self._headers(), ruling.back).close()

    def _listen(self) -> None:
        """Hear what the server says unasked, where it offers that."""
        while not self._over.is_set():
            try:
                reply = self._upstream.ask("GET", {**self._headers(), "Accept": EVENTS})
            except BrokerError:
                return
            with self._lock:
                self._replies.add(reply)
            try:
                if reply.fault() or reply.status != 200 or reply.kind != EVENTS:
                    return
                _, retry_s = self._events(reply, None, None)
            except BrokerError:
                return
            finally:
                with self._lock:
                    self._replies.discard(reply)
                reply.close()
            self._over.wait(retry_s)

    def _headers(self) -> Mapping[str, str]:
        found = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}
        if self._session is not None:
            found[SESSION_HEADER] = self._session
        if self._version is not None:
            found[VERSION] = self._version
        return found


def _version(raw: bytes) -> str | None:
    """Return the version of the protocol that a server chose, from a message that was read."""
    result = json.loads(raw).get("result")
    found = result.get("protocolVersion") if isinstance(result, dict) else None
    return found if isinstance(found, str) and found.isascii() and found.isprintable() else None
