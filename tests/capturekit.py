"""What tests of recording share: a server that says what it is told to, and a proxy before it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from broker.capture.passing import Passage
from broker.capture.proxy import ModelProxy
from broker.capture.upstream import ModelUpstream
from tests.hookkit import within

WORD = "word"
Serve = Callable[[socket.socket], Any]


class Watched:
    """A watcher that keeps what it is told; the bodies of what is over can be asked for."""

    def __init__(self) -> None:
        self.asks: list[Passage] = []
        self.answers: list[Passage] = []
        self.others: list[tuple[str, str]] = []

    def asked(self, passing: Passage) -> None:
        """Keep a request."""
        self.asks.append(passing)

    def answered(self, passing: Passage) -> None:
        """Keep an answer."""
        self.answers.append(passing)

    def unknown(self, method: str, path: str) -> None:
        """Keep what was not passed on."""
        self.others.append((method, path))

    def last(self, count: int = 1) -> Passage:
        """Return the last of so many answers, once they are through."""
        assert within(10, lambda: len(self.answers) >= count)
        return self.answers[-1]


class Server:
    """
    Serves each connection by a function, in a thread. ``connections`` counts them, ``heard`` has
    what ``hear`` read.
    """

    def __init__(self, serve: Serve, wrap: Callable[[socket.socket], socket.socket] | None = None):
        self.connections = 0
        self.heard: list[bytes] = []
        self._serve = serve
        self._wrap = wrap
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Serve nobody any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._one, args=(near,), daemon=True).start()

    def _one(self, near: socket.socket) -> None:
        with suppress(OSError, EOFError):
            if self._wrap is not None:
                near = self._wrap(near)
            self._serve(near)
        near.close()


def hear(near: socket.socket, rest: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """
    Read one request: its head, its body as it was framed, and what is behind it.

    Raises:
        EOFError: there is none.
    """
    data = rest
    while b"\r\n\r\n" not in data:
        data += _more(near)
    head, _, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        while not body.endswith(b"0\r\n\r\n"):
            body += _more(near)
        return head, body, b""
    length = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0].strip() or 0)
    while len(body) < length:
        body += _more(near)
    return head, body[:length], body[length:]


def _more(near: socket.socket) -> bytes:
    data = near.recv(65_536)
    if not data:
        raise EOFError
    return data


def saying(answer: bytes, seen: list[bytes] | None = None) -> Serve:
    """Return what answers each request of a connection with the same bytes, and keeps the heads."""

    def serve(near: socket.socket) -> None:
        rest = b""
        while True:
            head, body, rest = hear(near, rest)
            if seen is not None:
                seen.append(head + b"\r\n\r\n" + body)
            near.sendall(answer)

    return serve


def plain(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    """Return an answer with a body of a known length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def ask(
    path: str = "/v1/messages", body: bytes = b"{}", *fields: str, method: str = "POST"
) -> bytes:
    """Return a request with a body of a known length."""
    lines = [f"{method} /{WORD}/m{path} HTTP/1.1", "Host: here", *fields]
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def proxied(
    folder: Path, url: str, environ: Mapping[str, str] | None = None, **keys: str
) -> Iterator[tuple[ModelProxy, Watched]]:
    """A proxy whose upstream `m` is at an address."""
    watched = Watched()
    proxy = ModelProxy(WORD, environ or {}, folder, watched)
    proxy.bind()
    proxy.upstreams["m"] = ModelUpstream.read("m", url, keys)
    proxy.start()
    try:
        yield proxy, watched
    finally:
        proxy.stop()


def connected(port: int) -> socket.socket:
    """Return a connection to this machine."""
    return socket.create_connection(("127.0.0.1", port), 10)


def read_answer(near: socket.socket, length: int | None = None) -> bytes:
    """Return an answer with a body of a known length, or so many bytes, or all until the end."""
    data = bytearray()
    while length is None or len(data) < length:
        more = near.recv(262_144)
        if not more:
            break
        before = len(data)
        data += more
        end = data.find(b"\r\n\r\n", max(0, before - 3)) if length is None else -1
        if end >= 0:
            found = bytes(data[:end]).lower().partition(b"content-length:")[2]
            said = found.split(b"\r\n")[0].strip()
            length = end + 4 + int(said) if said else None
    return bytes(data)


def talk(port: int, *sent: bytes) -> bytes:
    """Send something on a connection of its own, and return all that comes until it is closed."""
    with connected(port) as near:
        for each in sent:
            near.sendall(each)
        near.settimeout(10)
        data = b""
        with suppress(ConnectionError):
            while more := near.recv(65_536):
                data += more
        return data
