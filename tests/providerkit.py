"""
A provider on loopback that does what a test tells it to, and keeps what it received.

It speaks the three protocols through the scripted model, and can fail in each way that a provider
fails: with a status, in the midst of a stream, by dropping the connection, with nonsense.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from broker.loopback.anthropic import Anthropic
from broker.loopback.chat import Chat
from broker.loopback.responses import Responses
from broker.loopback.script import Say, Wire
from broker.loopback.server import events

WIRES: dict[str, Wire] = {
    "/v1/messages": Anthropic(),
    "/v1/chat/completions": Chat(),
    "/v1/responses": Responses(),
}


@dataclass
class Act:
    """One answer: status, headers and body; ``parts`` are sent one after the other."""

    status: int = 200
    kind: str = "application/json"
    parts: list[bytes] = field(default_factory=list)
    drop: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    between: Callable[[int], None] = lambda _: None


def says(path: str, text: str = "hello", *, stream: bool = False) -> Act:
    """Return a good answer of the protocol of a path."""
    wire = WIRES[path]
    answer = wire.write(Say(text), "main-0", "m-1")
    if stream:
        told = events(wire.stream(answer))
        return Act(kind="text/event-stream", parts=[told])
    return Act(parts=[json.dumps(answer).encode()])


def fails(status: int, error: dict[str, Any]) -> Act:
    """Return an answer that is an error."""
    return Act(status, parts=[json.dumps({"type": "error", "error": error}).encode()])


@dataclass
class Provider:
    """What the server does next, and what it has received."""

    acts: list[Act] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def digests(self) -> list[str]:
        """The digest of every body that arrived."""
        return [hashlib.sha256(body).hexdigest() for body in self.received]


@contextmanager
def provider(*acts: Act) -> Iterator[Provider]:
    """Run a provider that does these acts in order, and the last one from then on."""
    state = Provider(list(acts))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            with state.lock:
                state.received.append(body)
                act = state.acts.pop(0) if len(state.acts) > 1 else state.acts[0]
            self.send_response(act.status)
            self.send_header("content-type", act.kind)
            for name, value in act.headers.items():
                self.send_header(name, value)
            size = sum(map(len, act.parts)) + (1_000 if act.drop else 0)
            self.send_header("content-length", str(size))
            self.end_headers()
            for number, part in enumerate(act.parts):
                self.wfile.write(part)
                self.wfile.flush()
                act.between(number)
            if act.drop:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
