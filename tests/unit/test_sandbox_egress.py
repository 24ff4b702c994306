"""The proxy: what is carried, what is refused, and in which words, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.errors import InputError
from broker.limits import MAX_EGRESS_HEAD_BYTES
from broker.sandbox.admission import Admission
from broker.sandbox.egress import Egress, read_head


class Origin:
    """A server that keeps what it was sent, and answers each connection once."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(0.5)
                data = b""
                try:
                    while more := connection.recv(65_536):
                        data += more
                except TimeoutError:
                    pass
                self.got.append(data)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


@pytest.fixture
def origin() -> Iterator[Origin]:
    """A server on loopback."""
    found = Origin()
    yield found
    found.close()


Ask = Callable[..., bytes]


class Proxy:
    """An egress proxy with what it told."""

    def __init__(self, folder: Path, admission: Admission, addresses: dict[str, list[str]]) -> None:
        self.told: list[str] = []
        self.egress = Egress(
            folder / "egress", admission, self.told.append, lambda host, _: addresses[host]
        )
        self.egress.bind()
        self.egress.start()

    def ask(self, request: bytes) -> bytes:
        """Send a request, and return all that comes back."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(self.egress.path))
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            data = b""
            while more := client.recv(65_536):
                data += more
            return data


@pytest.fixture
def proxy(tmp_path: Path, origin: Origin) -> Iterator[Proxy]:
    """A proxy that admits one server, and a name that leads inside."""
    hosts = (f"127.0.0.1:{origin.port}", "inner.example", "outer.example")
    found = Proxy(tmp_path, Admission((hosts,), True), {"inner.example": ["10.0.0.1"]})
    yield found
    found.egress.stop()


def test_a_plain_request_is_carried(proxy: Proxy, origin: Origin) -> None:
    """The server sees a path and the judged host, and none of the headers meant for the proxy."""
    answer = proxy.ask(
        f"GET http://127.0.0.1:{origin.port}/a?b HTTP/1.1\r\nHost: evil.test\r\n"
        "Proxy-Authorization: x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"
        "X-Kept: 2\r\n\r\n".encode()
    )
    assert answer.endswith(b"ok")
    (got,) = origin.got
    assert got.startswith(b"GET /a?b HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{origin.port}".encode() in got
    assert b"X-Kept" in got
    for word in (b"evil", b"Proxy", b"X-Hop"):
        assert word not in got


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_one_request_for_each_connection(proxy: Proxy, origin: Origin, framing: str) -> None:
    """What follows the body is never sent on, however the body's length is told."""
    start = f"POST http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n"
    second = "GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n"
    if framing == "length":
        request = f"{start}Content-Length: 4\r\n\r\nbody{second}"
    else:
        request = f"{start}Transfer-Encoding: chunked\r\n\r\n4;x=y\r\nbody\r\n0\r\n\r\n{second}"
    proxy.ask(request.encode())
    (got,) = origin.got
    assert b"body" in got
    assert b"GET" not in got


def test_a_tunnel_carries_bytes(proxy: Proxy, origin: Origin) -> None:
    """What is in a tunnel is not looked at."""
    answer = proxy.ask(f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\n\x16\x03\x01x".encode())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert origin.got == [b"\x16\x03\x01x"]


def test_a_refusal_names_the_caveat(proxy: Proxy) -> None:
    """A host out of scope is a readable 403, and is told of once."""
    for _ in range(3):
        answer = proxy.ask(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n").decode()
        assert answer.startswith("HTTP/1.1 403 Forbidden: refused (hosts): host `evil.test`")
        assert "do not work around this" in answer
    assert len(proxy.told) == 1
    assert proxy.egress.refused == 3


def test_a_name_that_leads_inside_is_refused(proxy: Proxy) -> None:
    """A name in scope whose address is not public is refused, by the address it leads to."""
    answer = proxy.ask(b"GET http://inner.example/ HTTP/1.1\r\n\r\n")
    assert b" 403 " in answer
    assert b"10.0.0.1" in answer


def test_nobody_there_is_not_a_refusal(tmp_path: Path) -> None:
    """An admitted server that does not answer is a bad gateway."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    proxy = Proxy(tmp_path, Admission(((f"127.0.0.1:{port}",),), True), {})
    assert b" 502 " in proxy.ask(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode())
    proxy.egress.stop()


@pytest.mark.parametrize(
    "request_line",
    [
        *(
            b"GET / HTTP/1.1",
            b"GET https://outer.example/ HTTP/1.1",
            b"CONNECT outer.example HTTP/1.1",
        ),
        *(b"GET http://outer.example/", b"nonsense", b"G\x00T http://outer.example/ HTTP/1.1"),
        *(b"GET http://a@b@outer.example/ HTTP/1.1", b"GET http://out\xc2\xader.example/ HTTP/1.1"),
        *(b"GET http://0x7f.1/ HTTP/1.1", b"GET http://outer.example\\@evil.test/ HTTP/1.1"),
    ],
)
def test_an_odd_request_is_refused(proxy: Proxy, request_line: bytes) -> None:
    """What two programs could read differently goes nowhere."""
    answer = proxy.ask(request_line + b"\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))


@pytest.mark.parametrize(
    "fields",
    [
        *(
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
        ),
        *("Transfer-Encoding: gzip", "Content-Length: +1", "Content-Length: 1_0", "No colon here"),
        *(" Folded: x", "Name : x", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        *(
            "Connection: Content-Length\r\nContent-Length: 0",
            "Connection: x, transfer-encoding\r\nTransfer-Encoding: chunked",
        ),
    ],
)
def test_an_odd_header_is_refused(proxy: Proxy, origin: Origin, fields: str) -> None:
    """A body that two servers could cut differently, or a malformed header, is not sent on."""
    start = f"POST http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n{fields}\r\n\r\n"
    assert b" 400 " in proxy.ask(start.encode())
    assert not any(b"POST" in got for got in origin.got)


def test_a_head_has_a_ceiling() -> None:
    """A head without an end is refused, and so is one that ends early."""
    near, far = socket.socketpair()
    with near, far:
        threading.Thread(target=lambda: far.sendall(b"x" * (MAX_EGRESS_HEAD_BYTES + 9_000))).start()
        with pytest.raises(InputError, match="too long"):
            read_head(near)
    near, far = socket.socketpair()
    with near:
        far.sendall(b"GET ")
        far.close()
        with pytest.raises(InputError, match="ends early"):
            read_head(near)


def test_the_socket_is_the_users_own(proxy: Proxy) -> None:
    """Nobody else may connect, and the socket is gone at the end."""
    assert proxy.egress.path.stat().st_mode & 0o777 == 0o600
    proxy.egress.stop()
    assert not proxy.egress.path.exists()
