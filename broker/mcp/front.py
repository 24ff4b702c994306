"""
The gateway between a client and a server that both speak streamable HTTP.

Decided here: who may ask, how a request and its answer travel, and which connection a message
belongs to. Not decided here: what becomes of a message (``broker.mcp.gateway``).

It listens on this machine only, and answers nobody who asks for another host or comes from a
page of the web: a page could otherwise reach it under a name that it lets point here. Each MCP
session has a gateway of its own; a request outside of one has one to itself.

Rules a maintainer keeps: a body goes on only after it was read as a message, or where no client
reads one (an answer that is no success); an answer that cannot be read is an error, not nothing.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

from broker.boundary import contained
from broker.errors import BrokerError, InputError, StoreError
from broker.limits import MAX_REQUEST_BYTES
from broker.mcp.gateway import Gateway
from broker.mcp.messages import read_message
from broker.mcp.routing import METHOD, NAME, contradicts
from broker.mcp.sse import EventReader, ServerEvent
from broker.mcp.upstream import EVENTS, JSON, SESSION_HEADER, Reply, Upstream

MAX_SESSIONS: Final = 1_024
HOSTS: Final = frozenset(("127.0.0.1", "localhost", "::1"))
_WATCH_S: Final = 1.0


class Front(ThreadingHTTPServer):
    """
    Listens for one server's clients.

    Args:
        port: on this machine; 0 takes a free one.
        path: the one path that is answered.
        upstream: the server.
        fresh: makes the gateway of one more session.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self, port: int, path: str, upstream: Upstream, fresh: Callable[[], Gateway]
    ) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise StoreError(f"port {port} cannot be listened on: {error.strerror}") from error
        self.path = path
        self.upstream = upstream
        self._fresh = fresh
        self._known: OrderedDict[str, Gateway] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address that a client is given."""
        return f"http://127.0.0.1:{self.server_address[1]}{self.path}"

    def gateway(self, session: str | None) -> Gateway:
        """Return the gateway of a session, or a new one."""
        if session is None:
            return self._fresh()
        with self._lock:
            found = self._known.get(session)
            if found is None:
                found = self._known[session] = self._fresh()
            self._known.move_to_end(session)
            while len(self._known) > MAX_SESSIONS:
                self._known.popitem(last=False)
            return found

    def keep(self, session: str | None, gateway: Gateway) -> None:
        """Remember whose gateway it is, once the server has named the session."""
        if session is not None:
            with self._lock:
                self._known.setdefault(session, gateway)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"
    timeout = 600  # seconds in which a client sends its next request

    def setup(self) -> None:
        super().setup()
        with suppress(OSError):
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_POST(self) -> None:
        self._held(self._post)

    def do_GET(self) -> None:
        self._held(partial(self._carry, "GET"))

    def do_DELETE(self) -> None:
        self._held(partial(self._carry, "DELETE"))

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: standard error is the person's."""

    # ── who asks ──

    def _held(self, work: Callable[[], None]) -> None:
        fault = self._stranger()
        if fault:
            self.close_connection = True
            self._send(403, fault.encode(), "text/plain")
        elif self.path != self.server.path:
            self.close_connection = True
            self._send(404, b"no such place", "text/plain")
        else:
            contained(work, self._broken)

    def _stranger(self) -> str:
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if host not in HOSTS:
            return "this is for clients on this machine: ask for 127.0.0.1"
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).hostname not in HOSTS:
            return "this is not for pages of the web"
        return ""

    def _broken(self, error: Exception) -> None:
        self.close_connection = True
        if isinstance(error, BrokerError):
            with suppress(OSError):
                self._send(502, str(error).encode(), "text/plain")

    # ── a message of the client ──

    def _post(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            return self._send(411, b"say how long the message is", "text/plain")
        if int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True
            return self._send(413, b"the message is too long", "text/plain")
        raw = self.rfile.read(int(length))
        if self._contradicted(raw):
            return self._send(400, b"the headers say something else than the message", "text/plain")
        gateway = self.server.gateway(self.headers.get(SESSION_HEADER))
        ruling = gateway.from_client(raw)
        if ruling.onward is not None:
            return self._carry("POST", ruling.onward, gateway)
        if ruling.back is None:
            return self._send(202, b"", "")
        status = 400 if b'"id":null' in ruling.back[:40] else 200
        return self._send(status, ruling.back, JSON)

    def _contradicted(self, raw: bytes) -> bool:
        methods, names = self.headers.get_all(METHOD, []), self.headers.get_all(NAME, [])
        if not methods and not names:
            return False
        try:
            message = read_message(raw)
        except InputError:
            return False  # the gateway says what is wrong with it
        return (
            len(methods) > 1
            or len(names) > 1
            or contradicts(next(iter(methods), None), next(iter(names), None), message)
        )

    def _carry(
        self, method: str, body: bytes | None = None, gateway: Gateway | None = None
    ) -> None:
        """Send a request on, and its answer back."""
        gateway = gateway or self.server.gateway(self.headers.get(SESSION_HEADER))
        headers = dict(self.headers.items())
        try:
            reply = self.server.upstream.ask(method, headers, body)
        except StoreError as error:
            return self._lost(str(error), body, gateway)
        try:
            fault = reply.fault()
            if fault:
                return self._lost(fault, body, gateway)
            self.server.keep(reply.session, gateway)
            if 200 <= reply.status < 300 and reply.kind == EVENTS:
                return self._stream(reply, gateway)
            return self._whole(reply, gateway, body)
        finally:
            reply.close()

    def _lost(self, why: str, body: bytes | None, gateway: Gateway) -> None:
        answer = None if body is None else gateway.unanswered(body, why)
        if answer is None:
            return self._send(502, why.encode(), "text/plain")
        return self._send(502, answer, JSON)

    def _whole(self, reply: Reply, gateway: Gateway, asked: bytes | None) -> None:
        """Pass on an answer that is no stream."""
        try:
            found = reply.body()
        except StoreError as error:
            return self._lost(str(error), asked, gateway)
        if not 200 <= reply.status < 300 or not found.strip():
            if asked is not None:
                gateway.unanswered(asked, "")
            return self._reply(reply, found)
        if reply.kind != JSON:
            return self._lost("the server's answer is neither JSON nor events", asked, gateway)
        ruling = gateway.from_server(found)
        if ruling.onward is None:
            return self._lost("the server's answer cannot be read", asked, gateway)
        return self._reply(reply, found if ruling.onward == found.strip() else ruling.onward)

    def _stream(self, reply: Reply, gateway: Gateway) -> None:
        """Pass on a stream of events, as they come."""
        self.close_connection = True
        self.send_response(reply.status)
        for name, value in reply.headers():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        over = threading.Event()
        threading.Thread(target=self._watch, args=(reply, over), daemon=True).start()
        events = EventReader()
        try:
            for chunk in reply.chunks():
                for event in events.feed(chunk):
                    self._chunk(event.raw if not event.data else self._judged(event, gateway))
            self.wfile.write(b"0\r\n\r\n")
        except (OSError, BrokerError):
            return
        finally:
            over.set()

    def _judged(self, event: ServerEvent, gateway: Gateway) -> bytes:
        ruling = gateway.from_server(event.data)
        if ruling.back is not None:
            self._tell_server(ruling.back)
        return event.holding(ruling.onward)

    def _tell_server(self, answer: bytes) -> None:
        """Answer what the server asked its client and may not."""
        kept = ("mcp-", "authorization", "cookie")
        headers = {k: v for k, v in self.headers.items() if k.lower().startswith(kept)}
        headers |= {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}
        with suppress(BrokerError):
            self.server.upstream.ask("POST", headers, answer).close()

    def _watch(self, reply: Reply, over: threading.Event) -> None:
        """Leave the server when the client has left us; a silent stream would not show it."""
        while not over.wait(0):
            with suppress(OSError, ValueError):
                ready, _, _ = select.select([self.connection], [], [], _WATCH_S)
                if not ready or self.connection.recv(1, socket.MSG_PEEK):
                    over.wait(_WATCH_S)
                    continue
            return reply.close()
        return None

    # ── bytes ──

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    def _reply(self, reply: Reply, body: bytes) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
