"""The client of a service: over HTTP and a unix socket, and what it makes of bad servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.errors import AttenuationError, InputError, StoreError
from broker.service.httpclient import KEY_VARIABLE, ServiceClient
from tests.servekit import EVALUATOR, OPERATOR, Served, served

READ = ("Read", {"file_path": "a.py"})
ANA = ({"type": "user", "id": "ana"}, {"name": "can_read"}, {"type": "todo", "id": "7"})


@pytest.fixture(scope="module")
def pdp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service in a process of its own."""
    with served(tmp_path_factory.mktemp("serve")) as found:
        yield found


@contextmanager
def _answering(*answers: bytes) -> Iterator[str]:
    """Serve each connection one of these answers, whatever it asks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def work() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(answer)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def test_a_ticket_from_mint_to_end(pdp: Served) -> None:
    """An operator mints, a holder narrows, checks, tells and describes, and the end ends it."""
    operator = ServiceClient(f"http://127.0.0.1:{pdp.port}", OPERATOR)
    root = operator.mint("read a.py", "tools=Read,Edit", "calls=3")
    child = ServiceClient(root.address, EVALUATOR, root.ticket).attenuate("tools=Read")
    assert child.check(*READ, call_id="c1").allowed
    refusal = child.check("Edit", {"file_path": "a.py"}).refusal
    assert refusal is not None
    assert refusal.caveat == "tools"
    child.result("c1", ok=True, output="a = 1")
    described = child.describe()
    assert described["spent"] == [1, 1]
    with pytest.raises(AttenuationError) as told:
        child.attenuate("tools=Read,Edit")
    assert told.value.kind == "tools"
    with pytest.raises(InputError):
        child.attenuate("nonsense")
    with pytest.raises(StoreError, match="operator"):
        ServiceClient(root.address, EVALUATOR).end(str(described["sid"]))
    operator.end(str(described["sid"]))
    refusal = child.check(*READ).refusal
    assert refusal is not None
    assert refusal.caveat == "session"
    for client in (operator, root, child):
        client.close()


def test_over_the_unix_socket_no_key_is_needed(
    pdp: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the same user asks as AuthZEN spells it, and a wrong key is still wrong."""
    client = ServiceClient(f"unix:{pdp.local}", "")
    assert client.evaluate(*ANA).allowed
    refusal = client.evaluate({"type": "user", "id": "ben"}, *ANA[1:]).refusal
    assert refusal is not None
    assert refusal.caveat == "subject"
    client.close()
    monkeypatch.setenv(KEY_VARIABLE, "x" * 40)
    assert not ServiceClient(f"unix:{pdp.local}").evaluate(*ANA).allowed


def test_connections_are_used_again(pdp: Served) -> None:
    """Requests one after the other take one connection, and many threads take some each."""
    client = ServiceClient(f"http://127.0.0.1:{pdp.port}", EVALUATOR)
    assert all(client.evaluate(*ANA).allowed for _ in range(5))
    assert len(client._idle) == 1
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(client.evaluate(*ANA).allowed))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8
    client.close()
    assert client._idle == []


ALLOW = b'{"decision":"allow","enforcement":"gate"}'


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n" + ALLOW,
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 No\r\nContent-Length: 41\r\n\r\n" + ALLOW,
        b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"decision":"allow"}',
        b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"decision":true}',
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (5 * 2**20),
    ],
)
def test_whatever_is_not_wholly_an_allow_is_a_refusal(answer: bytes) -> None:
    """A lost tail, a redirect, an error, half an answer and one without end allow nothing."""
    with _answering(answer) as address:
        refusal = ServiceClient(address, "", "t", timeout_s=5).check(*READ).refusal
    assert refusal is not None
    assert refusal.caveat == "session"


def test_an_evaluation_is_an_allow_only_by_true() -> None:
    """The word, the number 1 and a decision that is missing are not the boolean."""
    for told, allowed in ((b"true", True), (b"1", False), (b'"true"', False), (b"null", False)):
        body = b'{"decision":%s}' % told
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with _answering(answer) as address:
            assert ServiceClient(address, "").evaluate(*ANA).allowed is allowed


def test_a_service_that_is_not_there_refuses() -> None:
    """Nobody listens: a decision is a refusal, and what is no decision is an error."""
    client = ServiceClient("unix:/no/such/socket", "")
    assert not client.check(*READ).allowed
    with pytest.raises(StoreError):
        client.describe()
    circular: dict[str, object] = {}
    circular["self"] = circular
    assert not client.check("Read", circular).allowed


@pytest.mark.parametrize(
    "address",
    [
        "",
        "pdp",
        "ftp://a",
        "https://",
        "https://a/b",
        "http://10.0.0.1",
        "http://a.b",
        "http://[::",
    ],
)
def test_an_address_that_is_none_or_is_not_safe(address: str) -> None:
    """A key is sent to a whole address only, and in the clear on this machine only."""
    with pytest.raises(InputError):
        ServiceClient(address, "k")
