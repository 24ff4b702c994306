"""What the proxy tells of each connection: judged, and over, with its bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.sandbox.admission import Admission
from broker.sandbox.carrying import Egressed, Tally, connected, pump_both
from broker.sandbox.egress import Egress
from tests.worldkit import eventually


class Told:
    """A proxy to one server on this machine, which answers with the end of what it got."""

    def __init__(self, place: Path) -> None:
        self.found: list[Egressed] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        admission = Admission(((f"127.0.0.1:{self.port}",),), True)
        self.egress = Egress(place / "egress", admission, lambda _: None, heard=self.found.append)
        self.egress.bind()
        self.egress.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                connection.sendall(connection.recv(65_536)[-3:])

    def ask(self, request: str) -> bytes:
        """Send a request, and return all that comes back."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(self.egress.path))
            client.sendall(request.encode())
            data = b""
            while more := client.recv(65_536):
                data += more
            return data

    def close(self) -> None:
        """Serve no more."""
        self.egress.stop()
        self._listener.close()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """A proxy that tells."""
    found = Told(tmp_path)
    yield found
    found.close()


def test_a_tunnel_is_told_with_its_bytes(told: Told) -> None:
    """Of a tunnel its host and its bytes each way are told, and no address."""
    told.ask(f"CONNECT 127.0.0.1:{told.port} HTTP/1.1\r\n\r\nabcde")
    eventually(lambda: len(told.found) == 2)
    began, ended = told.found
    assert (began.method, began.url, began.ended) == ("CONNECT", "", False)
    assert (ended.number, ended.host, ended.port) == (began.number, "127.0.0.1", told.port)
    assert (ended.ended, ended.sent_bytes, ended.received_bytes) == (True, 5, 3)


def test_a_plain_request_is_told_with_its_address(told: Told) -> None:
    """Of a plain request the method and the address are told, and its body is counted."""
    url = f"http://127.0.0.1:{told.port}/a?b"
    told.ask(f"POST {url} HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody")
    eventually(lambda: len(told.found) == 2)
    assert (told.found[0].method, told.found[0].url) == ("POST", url)
    assert (told.found[1].sent_bytes, told.found[1].received_bytes) == (4, 3)


def test_a_refused_connection_is_told_with_its_reason(told: Told) -> None:
    """What is not let through is told once, and why."""
    told.ask("CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
    (found,) = told.found
    assert (found.host, found.ended) == ("evil.test", False)
    assert "not in hosts" in found.refused


def test_bytes_are_counted_both_ways() -> None:
    """What is carried arrives, both ways, and every byte of it is counted."""
    client, near = socket.socketpair()
    far, server = socket.socketpair()
    tally = Tally()
    carrier = threading.Thread(target=pump_both, args=(near, far, tally))
    carrier.start()
    client.sendall(b"x" * 1_000)
    client.shutdown(socket.SHUT_WR)
    server.sendall(b"y" * 10)
    server.shutdown(socket.SHUT_WR)
    carrier.join(10)
    assert (tally.sent, tally.received) == (1_000, 10)
    assert (len(server.recv(2_000)), len(client.recv(20))) == (1_000, 10)
    for each in (client, near, far, server):
        each.close()


def test_the_first_address_that_answers_is_taken() -> None:
    """An address where nobody listens is passed over; with none left, the last failure is told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with connected(["::1", "127.0.0.1"], port) as made:
            assert made.getpeername() == ("127.0.0.1", port)
    with pytest.raises(ConnectionRefusedError):
        connected(["127.0.0.1"], port)
