"""Asking over HTTP: one deadline for all of it, and nothing but a whole answer counts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.limits import MAX_OPINION_BYTES, MAX_OPINION_WAITING
from broker.opinions.opinion import NoAnswerError
from broker.opinions.web import Web
from tests.pdpkit import DecisionPoint, Odd


def _hang(connection: socket.socket) -> None:
    connection.recv(65536)
    time.sleep(5)


def _drip(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.02)


def _says(answer: bytes) -> Callable[[socket.socket], None]:
    def say(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    return say


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def test_connections_are_used_again() -> None:
    """Ten questions, one after another, take one connection."""
    with DecisionPoint(lambda _: True) as point:
        web = Web(point.url)
        for _ in range(10):
            assert web.post(b"{}", {}, 2.0) == b'{"decision": true}'
        assert len(point.connections) == 1
        web.close()


def test_a_connection_that_was_closed_meanwhile_is_made_anew() -> None:
    """A server that closes what it said to keep is asked once more, on a new connection."""
    whole = HEAD + b"content-length: 2\r\n\r\n{}"
    with Odd(_says(whole)) as server:
        web = Web(server.url)
        assert [web.post(b"{}", {}, 2.0) for _ in range(3)] == [b"{}"] * 3
        assert server.met == 3


@pytest.mark.parametrize("does", [_hang, _drip], ids=["hanging", "dripping"])
def test_one_deadline_for_all_of_it(does: Callable[[socket.socket], None]) -> None:
    """A server that says nothing, or a byte at a time, holds nobody up beyond the deadline."""
    with Odd(does) as server:
        before = time.monotonic()
        with pytest.raises(NoAnswerError, match="within its time"):
            Web(server.url).post(b"{}", {}, 0.2)
        assert time.monotonic() - before < 1.0


def test_a_deadline_that_has_passed_asks_nobody() -> None:
    """Where no time is left the server is not met."""
    with Odd(_hang) as server:
        with pytest.raises(NoAnswerError):
            Web(server.url).post(b"{}", {}, 0.0)
        assert server.met == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\n\r\n", "redirect"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", "status 500"),
        (b"HTTP/1.1 204 None\r\n\r\n", "status 204"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n", "text/html"),
        (HEAD + b"content-length: 99\r\n\r\n{}", "ends early"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", "no HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "no HTTP"),
        (HEAD + b"x: y\r\n" * 200 + b"\r\n{}", "no HTTP"),
        (b"", "reached|no HTTP"),
    ],
)
def test_what_is_no_answer(answer: bytes, why: str) -> None:
    """A redirect, a failure, another kind, half a body and no HTTP are each told as what it is."""
    with Odd(_says(answer)) as server, pytest.raises(NoAnswerError, match=why):
        Web(server.url).post(b"{}", {}, 2.0)


def test_too_much_is_no_answer() -> None:
    """A server that does not stop talking is cut off."""
    with (
        Odd(_says(HEAD + b"\r\n" + b"1" * (MAX_OPINION_BYTES + 1))) as server,
        pytest.raises(NoAnswerError, match="more than"),
    ):
        Web(server.url).post(b"{}", {}, 5.0)


def test_nobody_there() -> None:
    """A closed port is told as that."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NoAnswerError, match="reached"):
        Web(f"http://127.0.0.1:{port}/").post(b"{}", {}, 2.0)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An opinion is asked where the person said it is."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    with DecisionPoint(lambda _: True) as point:
        assert Web(point.url).post(b"{}", {}, 2.0)


def test_few_wait_at_one_time() -> None:
    """One call more than may wait is told at once, and later calls are asked again."""
    gate = threading.Event()

    def hold(connection: socket.socket) -> None:
        connection.recv(65536)
        gate.wait(5)
        connection.sendall(HEAD + b"content-length: 2\r\n\r\n{}")

    with Odd(hold) as server:
        web = Web(server.url)
        threads = [
            threading.Thread(target=web.post, args=(b"{}", {}, 5.0))
            for _ in range(MAX_OPINION_WAITING)
        ]
        for thread in threads:
            thread.start()
        while server.met < MAX_OPINION_WAITING:
            time.sleep(0.01)
        with pytest.raises(NoAnswerError, match="wait for it already"):
            web.post(b"{}", {}, 5.0)
        gate.set()
        for thread in threads:
            thread.join()
        assert web.post(b"{}", {}, 5.0) == b"{}"


def test_a_certificate_of_nobody_known_is_no_answer(tmp_path: Path) -> None:
    """A server that cannot prove its name is not asked, and one that can is."""
    import ssl

    from tests.pdpkit import certificate

    cert, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    with DecisionPoint(lambda _: True, tls=tls) as point:
        with pytest.raises(NoAnswerError, match="secure"):
            Web(point.url, ssl.create_default_context()).post(b"{}", {}, 2.0)
        assert point.asked == []
        assert Web(point.url, ssl.create_default_context(cafile=cert)).post(b"{}", {}, 2.0)
