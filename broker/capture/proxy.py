"""
A server on loopback that an agent asks in place of its model.

Decided here: who may ask, for what, and which model a path leads to. Not decided here: how a
request and its answer pass (``exchange``), and what is kept of them (``scribe``).

A path is ``/WORD/NAME/REST``: a word that is new for each run, so that no other user of the
machine speaks to the person's model; the name of an upstream; and what that one is asked for. A
path that no model is asked by is answered with 404, and so is whatever would leave HTTP: another
protocol, a tunnel, an address of another server.

Each connection has a thread, and a connection of its own to its model. Threads are enough: an
agent has a few of them, bytes wait in the kernel, and all that is done to them releases the lock.

Rules a maintainer keeps: it listens on 127.0.0.1 alone; it is bound before the agent's process is
made and serves after, since no thread may run meanwhile; a thread that breaks cuts its connection
and no other.
"""

from __future__ import annotations

import hmac
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from broker.boundary import contained
from broker.capture.exchange import CarryOrder, Exchange, ExchangeEnd, refusal
from broker.capture.http1 import HttpHead, WireError, request_head, split_head
from broker.capture.passing import Clock, Passage, Watcher, marks_of
from broker.capture.tape import Tape
from broker.capture.upstream import ModelUpstream, UpstreamLink
from broker.errors import LaunchError
from broker.limits import MAX_CAPTURE_CONNECTIONS

IDLE_S: Final = 300.0  # until a request begins
STALE_S: Final = 4.0  # after which an idle connection to a model is not used again
ENDING_S: Final = 2.0  # for what still passes when the run is over
_DRAIN_BYTES: Final = 2**20  # of a body that goes nowhere, so that its sender reads our answer
_DRAIN_S: Final = 2.0

# What a model is asked by: how a path ends, or what it says before the name of a model.
_POSTED: Final = (
    *("/messages", "/messages/count_tokens", "/chat/completions", "/completions", "/responses"),
    *("/responses/compact", "/responses/input_tokens", "/embeddings", "/rerank"),
    *(":generateContent", ":streamGenerateContent", ":countTokens", ":embedContent"),
    ":batchEmbedContents",
)
_LISTED: Final = ("/models", "/model/info")


class _Kept(NamedTuple):
    """A connection to a model that can be used again, and since when it is idle."""

    name: str
    link: UpstreamLink
    since_s: float


class ModelProxy:
    """
    Serves one run. ``bind``, then name the upstreams, ``start``, and at the end ``stop``.

    Args:
        word: the secret that begins every path.
        environ: the agent's environment, for proxies and certificates.
        folder: where long bodies wait.
        watcher: who is told of what passes.
        clock: a monotonic clock, in nanoseconds.
    """

    def __init__(
        self,
        word: str,
        environ: Mapping[str, str],
        folder: Path,
        watcher: Watcher,
        clock: Clock = time.monotonic_ns,
    ) -> None:
        self.upstreams: dict[str, ModelUpstream] = {}
        self.port = 0
        self._word = word
        self._environ = dict(environ)
        self._folder = folder
        self._watcher = watcher
        self._clock = clock
        self._listener: socket.socket | None = None
        self._accepting: threading.Thread | None = None
        self._slots = threading.BoundedSemaphore(MAX_CAPTURE_CONNECTIONS)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._stopping = False

    def bind(self) -> None:
        """
        Listen. Whoever connects now waits until ``start``.

        Raises:
            LaunchError: it cannot be done.
        """
        try:
            listener = socket.create_server(("127.0.0.1", 0), backlog=MAX_CAPTURE_CONNECTIONS)
        except OSError as error:
            raise LaunchError(f"no server can listen on 127.0.0.1: {error}") from error
        self._listener = listener
        self.port = int(listener.getsockname()[1])

    def url(self, name: str) -> str:
        """Return the address that stands for an upstream's, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}/{self._word}/{name}"

    def start(self) -> None:
        """Begin to serve, in threads of its own."""
        assert self._listener is not None  # noqa: S101 - bind comes first
        self._accepting = threading.Thread(
            target=self._accept, args=(self._listener,), name="capture", daemon=True
        )
        self._accepting.start()

    def lost(self) -> str | None:
        """Return why an agent cannot reach its model any more, or None."""
        thread = self._accepting
        if thread is None or self._stopping or thread.is_alive():
            return None
        return "the broker's server in front of its model has ended"

    def stop(self) -> None:
        """Take no more connections, let what passes come to its end for a moment, and cut it."""
        self._stopping = True
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        until_s = time.monotonic() + ENDING_S
        # The agent is gone, so its side of each connection is closed and its thread about to end.
        while self._connections() and time.monotonic() < until_s:
            time.sleep(0.005)
        for each in self._connections():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        until_s = time.monotonic() + ENDING_S
        while self._connections() and time.monotonic() < until_s:
            time.sleep(0.005)

    def _connections(self) -> list[socket.socket]:
        with self._lock:
            return list(self._open)

    # ── connections ──

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping:
            self._slots.acquire()
            try:
                near, _ = listener.accept()
                with self._lock:
                    self._open.add(near)
                threading.Thread(target=self._served, args=(near,), daemon=True).start()
            except (OSError, RuntimeError):
                self._slots.release()
                time.sleep(0.01)  # out of descriptors or threads, or stopped

    def _served(self, near: socket.socket) -> None:
        try:
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            contained(partial(self._serve, near), lambda error: None)
        finally:
            with self._lock:
                self._open.discard(near)
            near.close()
            self._slots.release()

    def _serve(self, near: socket.socket) -> None:
        rest = b""
        kept: _Kept | None = None
        try:
            again = True
            while again and not self._stopping:
                head, rest = _next_head(near, rest)
                if head is None:
                    return
                ended = self._exchanged(near, head, rest, kept)
                kept = None
                if ended is None:
                    return
                rest, again = ended.rest, ended.again
                if ended.link is not None:
                    name = self._named(head.words[1].decode("latin-1"))[0]
                    kept = _Kept(name, ended.link, time.monotonic())
        except WireError as error:
            _answer(near, refusal(400, "invalid_request_error", str(error), close=True))
        finally:
            if kept is not None:
                kept.link.socket.close()

    def _exchanged(
        self, near: socket.socket, head: HttpHead, rest: bytes, kept: _Kept | None
    ) -> ExchangeEnd | None:
        """Carry one request, or answer that it is none of ours; then None."""
        method, target = head.words[0].decode(), head.words[1].decode("latin-1")
        name, inner = self._named(target)
        upstream = self.upstreams.get(name)
        path = urlsplit(inner).path
        if upstream is None or not _passed_on(head, path):
            if kept is not None:
                kept.link.socket.close()
            self._watcher.unknown(method, path if upstream is not None else "")
            _answer(near, refusal(404, "not_found_error", "no model is asked by it", close=True))
            return None
        if head.words[2] != b"HTTP/1.1":
            _answer(near, refusal(505, "invalid_request_error", "HTTP/1.1 is spoken", close=True))
            return None
        link = _usable(kept, name)
        passing = Passage(
            name,
            method,
            path,
            marks_of(head),
            Tape(self._folder),
            Tape(self._folder),
            self._clock(),
        )
        order = CarryOrder(head, rest, upstream, _asked_for(upstream, inner))
        exchange = Exchange(near, order, passing, self._watcher, self._clock)
        return exchange.run(link, self._environ)

    def _named(self, target: str) -> tuple[str, str]:
        """Return which upstream a target names, and what that is asked for; "" for none."""
        slash, word, name, *more = [*target.split("/", 3), "", "", ""]
        if slash or not hmac.compare_digest(word.encode(), self._word.encode()):
            return "", ""
        return name, f"/{more[0]}"


def _next_head(near: socket.socket, data: bytes) -> tuple[HttpHead | None, bytes]:
    """
    Wait for the head of the next request, and return it with what is behind it.

    Raises:
        WireError: what comes is none.
    """
    near.settimeout(IDLE_S)
    with suppress(OSError):
        while (found := split_head(data)) is None:
            more = near.recv(65_536)
            if not more:
                return None, b""
            data += more
        return request_head(found[0]), found[1]
    return None, b""


def _usable(kept: _Kept | None, name: str) -> UpstreamLink | None:
    """Return a kept connection if it leads to the right place and nothing has happened to it."""
    if kept is None:
        return None
    poller = select.poll()
    poller.register(kept.link.socket, select.POLLIN)
    idle_s = time.monotonic() - kept.since_s
    if kept.name == name and idle_s < STALE_S and not poller.poll(0):
        return kept.link
    kept.link.socket.close()
    return None


def _passed_on(head: HttpHead, path: str) -> bool:
    """Return whether a model is asked by a request."""
    if b"upgrade" in head.listed(b"connection") or head.all(b"upgrade"):
        return False
    method = head.words[0]
    if method == b"POST":
        return path.endswith(_POSTED)
    return method in (b"GET", b"HEAD") and (path.endswith(_LISTED) or "/models/" in path)


def _asked_for(upstream: ModelUpstream, inner: str) -> str:
    """Return the target behind an upstream's base, with the query that the base may have."""
    path, mark, query = inner.partition("?")
    joined = "&".join(part for part in (upstream.query, query) if part)
    return upstream.base + path + ("?" if mark or joined else "") + joined


def _answer(near: socket.socket, answer: bytes) -> None:
    """Send an answer of our own, and hear the rest of what was asked, so that it is read."""
    with suppress(OSError):
        near.settimeout(_DRAIN_S)
        near.sendall(answer)
        near.shutdown(socket.SHUT_WR)
        until_s, heard = time.monotonic() + _DRAIN_S, 0
        while heard < _DRAIN_BYTES and time.monotonic() < until_s:
            more = near.recv(65_536)
            if not more:
                return
            heard += len(more)
