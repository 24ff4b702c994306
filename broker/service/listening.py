"""
Where a service listens, and what it puts up with from a client.

Decided here: the sockets, TLS, how long a request may take to arrive, how much a head may be, how
many connections there are, and how the service comes to its end. Not decided here: what is answered
(``broker.service.app``). The HTTP itself is uvicorn's.

A client that dawdles, sends a head without end, or is one too many gets a clear answer and is hung
up on. At the end, requests under way are answered, and new ones are not taken.

Rules a maintainer keeps: the unix socket is the user's alone, and the kernel's word for its peer is
asked; an application for it is another one than that for the network, so that no header and no lost
address makes a stranger local; every limit is on before a key has been seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from broker.errors import ConfigError, InputError, StoreError
from broker.limits import (
    MAX_SERVED_CONNECTIONS,
    MAX_SERVED_HEAD_BYTES,
    MAX_SOCKET_PATH_BYTES,
)
from broker.receipt import disk
from broker.service.peer import is_own

REQUEST_S: Final = 10.0  # from connecting, or a request's first byte, until all of it is here
IDLE_S: Final = 60  # that a connection may wait between two requests
GRACE_S: Final = 20  # for requests under way, at the end
BACKLOG: Final = 1_024
Asgi = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a server's certificate and key, and of the authority of its clients' ones."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self) -> ssl.SSLContext:
        """
        Return how connections are opened: TLS 1.2 or newer.

        Raises:
            ConfigError: a file cannot be read, or is not what it should be.
        """
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            made.load_cert_chain(self.certificate, self.key)
            if self.clients is not None:
                made.load_verify_locations(self.clients)
                made.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or str(error)
            raise ConfigError(f"the certificate cannot be used: {why.lower()}") from None
        return made


def network_socket(host: str, port: int) -> socket.socket:
    """
    Return a listening socket of the network.

    Raises:
        InputError: the address is none of this machine, or is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"`{host}:{port}` cannot be listened on: {why.lower()}") from None
    return made


def local_socket(path: Path) -> socket.socket:
    """
    Return a listening unix socket, for this user alone.

    Raises:
        StoreError: it cannot be made; the path is taken or too long, say.
        UnverifiableError: others can put files into its folder.
    """
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise StoreError(f"`{path}` is too long for the name of a socket")
    disk.check_folder(path.parent, "folder of the socket")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(os.fspath(path))
    except OSError as error:
        made.close()
        raise StoreError(f"`{path}` cannot be served: {(error.strerror or '').lower()}") from error
    finally:
        os.umask(before)
    return made


class Listeners:
    """
    Serves until a signal says otherwise. Made with sockets that are bound; ``run`` closes them.

    Args:
        watch: is told, by its ``say``, what the server has to say.
    """

    def __init__(self, say: Callable[..., object]) -> None:
        self._servers: list[tuple[uvicorn.Server, socket.socket]] = []
        self._say = say

    def add(self, app: Asgi, at: socket.socket, *, tls: ssl.SSLContext | None = None) -> None:
        """Serve an application on a socket; a unix socket is for this user's processes."""
        config = uvicorn.Config(
            app,
            http=_OwnPeers if at.family == socket.AF_UNIX else _Limited,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        config.load()
        config.ssl = tls
        self._servers.append((_Quiet(config), at))

    def run(self, started: Callable[[], object], ending: Callable[[], object]) -> None:
        """
        Serve; returns once everything is answered.

        Args:
            started: is called when clients are answered.
            ending: is called when a signal came, before anything is closed.
        """
        handler = _Telling(self._say)
        loggers = [logging.getLogger(name) for name in ("uvicorn.error", "opentelemetry")]
        for logger in loggers:
            logger.propagate = False
            logger.setLevel(logging.WARNING)
            logger.addHandler(handler)
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._serve(started, ending))
        finally:
            for logger in loggers:
                logger.removeHandler(handler)

    async def _serve(self, started: Callable[[], object], ending: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            ending()
            for server, _ in self._servers:
                server.force_exit = server.should_exit  # a second signal does not wait
                server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop)
        serving = [asyncio.create_task(server.serve([at])) for server, at in self._servers]
        while not all(server.started for server, _ in self._servers):
            if any(task.done() for task in serving):
                break
            await asyncio.sleep(0.005)
        started()
        await asyncio.gather(*serving)


class _Quiet(uvicorn.Server):
    """A server that leaves signals to whoever runs several."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Limited(HttpToolsProtocol):
    """A connection whose requests have limits, and which is one of a limited number."""

    _late: asyncio.TimerHandle | None = None
    _whole = False  # nothing of a request is still to come
    _head = True  # its head is still to come
    _received = 0  # bytes since it began
    _refused = False
    _under_way: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > MAX_SERVED_CONNECTIONS:
            self._refuse(503, "busy", "too many connections: try again later")
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        if self._under_way is not None:
            self._under_way.disconnected = True
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Of requests in one go the server knows the last; the one that is answered may be another.
        self._under_way = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._whole:
            self._whole, self._head, self._received = False, True, 0
        super().data_received(data)
        if self._whole or self._refused:
            return
        self._received += len(data)
        if self._head and self._received > MAX_SERVED_HEAD_BYTES:
            self._too_large()
        elif self._late is None:
            self._wait()

    def on_message_begin(self) -> None:
        self._whole, self._head, self._received = False, True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = False
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if size > MAX_SERVED_HEAD_BYTES:
            self._too_large()
        if not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._whole = True
        self._in_time()
        if not self._refused:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "http", "this is not HTTP as we know it")

    def _wait(self) -> None:
        self._late = self.loop.call_later(REQUEST_S, self._too_late)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if (
            self.flow.read_paused
        ):  # it is we who do not read: an earlier request is not answered yet
            self._wait()
            return
        self._refuse(408, "http.timeout", f"no whole request within {REQUEST_S:.0f} seconds")

    def _too_large(self) -> None:
        most = f"a request's head has at most {MAX_SERVED_HEAD_BYTES} bytes"
        self._refuse(431, "limit", most)

    def _refuse(self, status: int, code: str, message: str) -> None:
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._in_time()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps({"error": {"code": code, "message": message}}).encode()
            head = b"content-type: application/json\r\nconnection: close\r\n"
            length = b"content-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + length + body)
        self.transport.close()


class _OwnPeers(_Limited):
    """A connection of the unix socket: its peer is a process of this user."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        found = transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(found.fileno())) as peer:
            if not is_own(peer):
                self._refuse(403, "peer", "only processes of the user who serves are answered")


class _Telling(logging.Handler):
    """Says in our log what the server says in its own."""

    def __init__(self, say: Callable[..., object]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Tell of a record; what raised is named, and its text is left out."""
        fault = record.exc_info[0] if record.exc_info else None
        more: dict[str, object] = {} if fault is None else {"error": fault.__name__}
        self._say("server", level=record.levelname.lower(), message=record.getMessage(), **more)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes loops: uvloop where it is installed, which is quicker."""
    try:
        import uvloop  # noqa: PLC0415 - not every system has it
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def is_loopback(addresses: Sequence[str]) -> bool:
    """
    Whether all of these addresses are this machine's own, which no other can reach.

    >>> is_loopback(["127.0.0.1", "::1"]), is_loopback(["0.0.0.0"])
    (True, False)
    """
    import ipaddress  # noqa: PLC0415 - once in a service's life

    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
