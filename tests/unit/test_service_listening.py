"""What the service puts up with from clients, over real sockets: it answers, and goes on."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ConfigError, InputError, StoreError
from broker.service.listening import Tls, is_loopback, local_socket, network_socket
from tests.servekit import CALL, EVALUATOR, Served, exchanged, served

SHORT = """
from broker.service import listening
listening.REQUEST_S = 0.7
listening.MAX_SERVED_CONNECTIONS = 12
"""
HEAD = (
    "POST /access/v1/evaluation HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {EVALUATOR}\r\n"
)
BODY = json.dumps(CALL)
WHOLE = f"{HEAD}Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode()
LAST = WHOLE.replace(b"Host: x", b"Host: x\r\nConnection: close")


@pytest.fixture(scope="module")
def pdp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with short limits."""
    with served(tmp_path_factory.mktemp("serve"), code=SHORT) as found:
        yield found


def _answer(pdp: Served, data: bytes) -> tuple[int, str]:
    """Send raw bytes and return the last answer's status and code."""
    with pdp.connect() as connection:
        heard = exchanged(connection, data)
    assert heard, "nothing was answered"
    head, _, body = heard.partition(b"\r\n\r\n")
    assert b"application/json" in head
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", (408, "http.timeout")),
        (b"\r\n", (408, "http.timeout")),
        (b"POST /access/v1/eval", (408, "http.timeout")),
        (f"{HEAD}Content-Length: 100\r\n\r\n{{".encode(), (408, "http.timeout")),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, "http")),
        (b"GET / HTTP/9.9\r\n\r\n", (400, "http")),
        (f"{HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\n".encode(), (400, "http")),
        (f"{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n".encode(), (400, "http")),
        (f"{HEAD}X: {'y' * 200_000}\r\n\r\n".encode(), (431, "limit")),
        (f"{HEAD}X: {'y' * 70_000}\r\n\r\n".encode(), (431, "limit")),
        (HEAD.encode() + b"X: y\r\n" * 20_000 + b"\r\n", (431, "limit")),
        (b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\n\r\n", (431, "limit")),
    ],
)
def test_a_bad_client_gets_a_clear_answer(
    data: bytes, wanted: tuple[int, str], pdp: Served
) -> None:
    """Slow, half-open, malformed and endless requests are each told what was wrong."""
    assert _answer(pdp, data) == wanted
    assert pdp.ask("/access/v1/evaluation", CALL).json()["decision"] is True


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_ten_megabytes_is_refused_and_told(chunked: bool, pdp: Served) -> None:
    """The client is still sending when the answer is known, and reads it all the same."""
    big = b"x" * 10_000_000
    if chunked:
        data = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{len(big):x}\r\n".encode() + big
        data += b"\r\n0\r\n\r\n"
    else:
        data = f"{HEAD}Content-Length: {len(big)}\r\n\r\n".encode() + big
    assert _answer(pdp, data) == (413, "limit")


def test_a_body_that_is_announced_and_never_sent_is_refused_at_once(pdp: Served) -> None:
    """Nobody waits for ten megabytes that were only announced; the connection has its limit."""
    with pdp.connect() as connection:
        heard = exchanged(connection, f"{HEAD}Content-Length: 10000000\r\n\r\n".encode())
    assert heard.startswith(b"HTTP/1.1 413")  # whoever is waited for in vain gets a 408


def test_requests_in_one_go_are_answered_in_order(pdp: Served) -> None:
    """Pipelined requests are each answered, the first one first, on one connection."""
    second = WHOLE.replace(b"can_read", b"can_fly_").replace(b"Host: x", b"Host: x\r\nX-A: b")
    with pdp.connect() as connection:
        heard = exchanged(connection, WHOLE + second + LAST)
    assert [part[:4] for part in heard.split(b'"decision":')[1:]] == [b"true", b"fals", b"true"]


def test_one_connection_too_many_is_told_and_the_others_go_on(pdp: Served) -> None:
    """Beyond the limit a connection gets a 503 at once; those within it are answered."""
    held = [pdp.connect() for _ in range(12)]
    for _ in range(2):
        for connection in held:
            connection.sendall(WHOLE)
            heard = b""
            while not heard.endswith(b"}}"):
                heard += connection.recv(65_536)
            assert heard.startswith(b"HTTP/1.1 200")
        with pdp.connect() as more:
            assert exchanged(more, b"").startswith(b"HTTP/1.1 503")
    for connection in held:
        connection.close()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        with pdp.connect() as again:
            if exchanged(again, LAST).startswith(b"HTTP/1.1 200"):
                return
    raise AssertionError("the service did not recover")


def test_a_client_that_hangs_up_takes_nothing_along(pdp: Served) -> None:
    """Whoever leaves in the middle, or without reading, is no trouble to the next one."""
    for data in (WHOLE[:200], WHOLE, WHOLE * 20):
        connection = pdp.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.sendall(data)
        connection.close()
    assert pdp.ask("/access/v1/evaluation", CALL).status == 200
    faults = [e for e in pdp.events() if e["event"] == "broke" or e.get("level") == "error"]
    assert faults == []


def test_the_unix_socket_is_this_users_alone(pdp: Served) -> None:
    """It needs no key, since only this user's processes can open it."""
    assert stat.S_IMODE(os.stat(pdp.local).st_mode) == 0o600
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(pdp.local))
        plain = LAST.replace(f"Authorization: Bearer {EVALUATOR}\r\n".encode(), b"")
        assert b'"decision":true' in exchanged(connection, plain)
    with pdp.connect() as stranger:
        assert exchanged(stranger, plain).startswith(b"HTTP/1.1 401")


def test_sockets_that_cannot_be_had(tmp_path: Path) -> None:
    """A path that is taken, too long or in an open folder, and a taken port, are errors."""
    with local_socket(tmp_path / "s"):
        with pytest.raises(StoreError, match="cannot be served"):
            local_socket(tmp_path / "s")
        with pytest.raises(StoreError, match="too long"):
            local_socket(tmp_path / ("s" * 120))
    with network_socket("127.0.0.1", 0) as one:
        one.listen()
        with pytest.raises(InputError, match="cannot be listened on"):
            network_socket("127.0.0.1", one.getsockname()[1])
    with pytest.raises(InputError):
        network_socket("no.such.host.invalid", 1)
    assert is_loopback(["127.0.0.9"])
    assert not is_loopback(["10.0.0.1"])


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    """A file that is missing or holds no certificate is an error that says so."""
    (tmp_path / "pem").write_text("nothing")
    for name in ("pem", "none"):
        with pytest.raises(ConfigError, match="certificate"):
            Tls(tmp_path / name, tmp_path / name).context()
    assert ssl.OPENSSL_VERSION
