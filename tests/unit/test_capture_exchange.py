"""Bytes pass as they are and at once; what ends early ends early for the other side too."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from broker.capture.exchange import readable_codings, refusal
from tests.capturekit import (
    Server,
    ask,
    connected,
    hear,
    plain,
    proxied,
    read_answer,
    saying,
    talk,
)
from tests.hookkit import within

EVENT = b'data: {"a": 1}\n\n'


def test_what_is_said_passes_byte_by_byte(tmp_path: Path) -> None:
    """Bodies, their framing and all fields but a hop's own arrive as they were sent."""
    body = b'3;x=1\r\n{"a\r\n4\r\n": 1\r\n1\r\n}\r\n0\r\nX-End: 1\r\n\r\n'
    zipped = gzip.compress(b"hello")
    answer = b"HTTP/1.1 201 Made\r\nX-Odd:  a b \r\nx-odd: c\r\nContent-Encoding: gzip\r\n"
    answer += b"Content-Length: %d\r\nKeep-Alive: timeout=5\r\n\r\n" % len(zipped) + zipped
    seen: list[bytes] = []

    def serve(near: socket.socket) -> None:
        data = b""
        while not data.endswith(b"X-End: 1\r\n\r\n"):
            data += near.recv(4_096)
        seen.append(data)
        near.sendall(answer)

    with proxied(tmp_path, (server := Server(serve)).url) as (proxy, watched):
        with connected(proxy.port) as near:
            near.sendall(
                b"POST /word/m/v1/messages?beta=true HTTP/1.1\r\nHOST: here\r\nX-Api-Key: k\r\n"
                b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nAccept-Encoding: gzip, br, zstd\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" + body
            )
            got = read_answer(near)
        last = watched.last()
    assert seen[0] == (
        b"POST /v1/messages?beta=true HTTP/1.1\r\nHOST: 127.0.0.1:%d\r\nX-Api-Key: k\r\n"
        b"Accept-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" % server.port + body
    )
    assert got == (
        b"HTTP/1.1 201 Made\r\nX-Odd: a b\r\nx-odd: c\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: %d\r\n\r\n" % len(zipped) + zipped
    )
    assert (last.request.content(), last.answer.content()) == (b'{"a": 1}', zipped)
    assert last.answer.sha256() == hashlib.sha256(zipped).hexdigest()
    assert (last.status, last.path, last.failure) == (201, "/v1/messages", None)
    assert "k" not in last.marks.values()


def test_a_stream_passes_while_it_is_made(tmp_path: Path) -> None:
    """The first byte is here before the model has said its last."""
    go_on = threading.Event()

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + EVENT + b"\r\n"
        )
        assert go_on.wait(10)
        near.sendall(b"10\r\n" + EVENT + b"\r\n0\r\n\r\n")

    with proxied(tmp_path, Server(serve).url) as (proxy, watched), connected(proxy.port) as near:
        near.sendall(ask())
        assert within(10, lambda: EVENT in near.recv(4_096, socket.MSG_PEEK))
        assert not watched.answers
        go_on.set()
        assert read_answer(near, 1 + 2 * len(EVENT) + 60)
        last = watched.last()
    assert last.answer.content() == EVENT * 2
    assert last.first_ns is not None
    assert last.began_ns < last.first_ns < last.ended_ns


def test_both_connections_are_used_again(tmp_path: Path) -> None:
    """Requests of one connection go over one connection, also when they come all at once."""
    seen: list[bytes] = []
    server = Server(saying(plain(b"ok"), seen))
    with proxied(tmp_path, server.url) as (proxy, watched), connected(proxy.port) as near:
        for _ in range(3):
            near.sendall(ask())
            assert read_answer(near).endswith(b"ok")
        near.sendall(ask() + ask() + ask())
        assert read_answer(near, 3 * len(plain(b"ok"))) == plain(b"ok") * 3
        watched.last(6)
    assert (server.connections, len(seen)) == (1, 6)


def test_a_connection_that_a_model_has_closed_is_not_used_again(tmp_path: Path) -> None:
    """Where a model ended its side meanwhile, the next request has a connection of its own."""

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(plain(b"ok"))

    server = Server(serve)
    with proxied(tmp_path, server.url) as (proxy, _), connected(proxy.port) as near:
        for _ in range(2):
            near.sendall(ask())
            assert read_answer(near).endswith(b"ok")
            time.sleep(0.1)
    assert server.connections == 2


def test_a_sender_that_waits_to_be_told_is_told(tmp_path: Path) -> None:
    """`100 Continue` comes from the model, and the body after it."""

    def serve(near: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += near.recv(4_096)
        assert b"Expect: 100-continue" in data
        near.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert near.recv(4_096) == b"{}"
        near.sendall(plain(b"ok"))

    with proxied(tmp_path, Server(serve).url) as (proxy, _), connected(proxy.port) as near:
        head, _, body = ask("/v1/messages", b"{}", "Expect: 100-continue").partition(b"\r\n\r\n")
        near.sendall(head + b"\r\n\r\n")
        assert near.recv(4_096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        near.sendall(body)
        assert read_answer(near).endswith(b"ok")


@pytest.mark.parametrize("status", ["401 No", "429 Slow Down", "500 Oh", "529 Overloaded"])
def test_a_models_errors_are_its_own(tmp_path: Path, status: str) -> None:
    """An error passes as it is, with its body and its fields."""
    answer = plain(b'{"error":1}', "Retry-After: 3", status=status)
    with proxied(tmp_path, Server(saying(answer)).url) as (proxy, watched):
        with connected(proxy.port) as near:
            near.sendall(ask())
            assert read_answer(near) == answer
        assert watched.last().status == int(status[:3])


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Where nobody listens, a 502 says who was asked, and the request is kept."""
    gone = Server(saying(b""))
    gone.close()
    with proxied(tmp_path, gone.url) as (proxy, watched), connected(proxy.port) as near:
        for _ in range(2):
            near.sendall(ask(body=b'{"model":"m"}'))
            head, _, body = read_answer(near).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 502 ")
            error = json.loads(body)["error"]
            assert error["type"] == "upstream_unreachable"
            assert f"`127.0.0.1:{gone.port}` cannot be reached" in error["message"]
        last = watched.last(2)
    assert last.request.content() == b'{"model":"m"}'
    assert last.failure is not None
    assert last.failure.kind == "network"


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 2", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 101 Switching\r\n\r\n"],
    ids=["nothing", "a part", "another protocol", "an upgrade"],
)
def test_an_answer_that_is_none_is_told(tmp_path: Path, answer: bytes) -> None:
    """What is no answer becomes a 502 that says so."""

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(answer)

    with proxied(tmp_path, Server(serve).url) as (proxy, watched):
        got = talk(proxy.port, ask("/v1/messages", b"{}", "Connection: close"))
        assert got.startswith(b"HTTP/1.1 502 ")
        assert watched.last().failure is not None


@pytest.mark.parametrize("head", [b"Content-Length: 99", b"Transfer-Encoding: chunked"])
def test_an_answer_that_is_cut_is_cut(tmp_path: Path, head: bytes) -> None:
    """A stream that breaks off reaches the agent as far as it came, and then its end."""

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n10\r\n" + EVENT)

    with proxied(tmp_path, Server(serve).url) as (proxy, watched):
        got = talk(proxy.port, ask())
        last = watched.last()
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert got.endswith(EVENT)
    assert last.failure is not None
    assert last.failure.kind == "network"
    assert EVENT in (last.answer.content() or b"")


def test_an_answer_without_a_length_ends_with_its_connection(tmp_path: Path) -> None:
    """Where the end of the connection is the end of the answer, it is the agent's too."""

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    with proxied(tmp_path, Server(serve).url) as (proxy, watched):
        got = talk(proxy.port, ask())
        assert watched.last().failure is None
    assert got == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"


def test_an_agent_that_goes_takes_its_model_along(tmp_path: Path) -> None:
    """When the agent closes its connection, the model's is closed at once."""
    closed = threading.Event()

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + EVENT + b"\r\n"
        )
        if near.recv(1) == b"":
            closed.set()

    with proxied(tmp_path, Server(serve).url) as (proxy, watched):
        with connected(proxy.port) as near:
            near.sendall(ask())
            assert within(10, lambda: EVENT in near.recv(4_096, socket.MSG_PEEK))
        assert closed.wait(10)
        last = watched.last()
    assert last.failure is not None
    assert last.failure.kind == "aborted"


def test_an_agent_that_stops_in_the_midst_of_asking(tmp_path: Path) -> None:
    """A request that never comes whole is recorded as far as it came."""
    with proxied(tmp_path, Server(saying(plain(b"ok"))).url) as (proxy, watched):
        with connected(proxy.port) as near:
            near.sendall(ask(body=b"x" * 100)[:-50])
            time.sleep(0.05)
        last = watched.last()
    assert last.request.content() == b"x" * 50
    assert last.failure is not None
    assert last.failure.kind == "aborted"


def test_a_model_may_answer_before_it_has_heard_all(tmp_path: Path) -> None:
    """An early refusal reaches the agent while it still sends."""

    def serve(near: socket.socket) -> None:
        near.recv(4_096)
        near.sendall(plain(b"too large", status="413 Large"))
        time.sleep(0.2)

    with proxied(tmp_path, Server(serve).url) as (proxy, watched), connected(proxy.port) as near:
        near.sendall(ask(body=b"x" * 1_000)[:-10])
        assert read_answer(near).endswith(b"too large")
        assert watched.last().status == 413


def test_both_directions_flow_at_once(tmp_path: Path) -> None:
    """A model that answers while it listens does not wait for us, nor we for it."""
    size = 8 * 2**20

    def serve(near: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += near.recv(4_096)
        body = data.partition(b"\r\n\r\n")[2]
        near.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        done = 0
        while done < size:
            near.sendall(body)
            done += len(body)
            body = near.recv(65_536) if done < size else b""

    with proxied(tmp_path, Server(serve).url) as (proxy, watched), connected(proxy.port) as near:
        sender = threading.Thread(target=near.sendall, args=(ask(body=b"x" * size),), daemon=True)
        sender.start()
        got = read_answer(near)
        sender.join(10)
        last = watched.last()
    assert got.endswith(b"x" * size)
    assert last.request.sha256() == last.answer.sha256()


def test_a_slow_reader_does_not_fill_our_memory(tmp_path: Path) -> None:
    """What an agent does not read is not read from its model either."""
    sent = threading.Event()

    def serve(near: socket.socket) -> None:
        hear(near)
        near.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * 2**20))
        near.sendall(b"x" * (64 * 2**20))
        sent.set()

    with proxied(tmp_path, Server(serve).url) as (proxy, _), connected(proxy.port) as near:
        near.sendall(ask())
        assert not sent.wait(0.5)
        read_answer(near)
        assert sent.wait(10)


def test_a_token_becomes_the_key_that_it_stands_for(tmp_path: Path) -> None:
    """In fields and in the query the model sees the key, and the agent never had it."""
    seen: list[bytes] = []
    server = Server(saying(plain(b"ok"), seen))
    with (
        proxied(tmp_path, server.url, **{"broker-run-1": "real"}) as (proxy, _),
        connected(proxy.port) as near,
    ):
        near.sendall(
            ask("/v1/messages?key=broker-run-1", b"{}", "Authorization: Bearer broker-run-1")
        )
        read_answer(near)
    assert b"Authorization: Bearer real\r\n" in seen[0]
    assert b"?key=real HTTP/1.1" in seen[0]
    assert b"broker-run-1" not in seen[0]


def test_which_codings_are_asked_for() -> None:
    """What the record cannot be read in is not asked for."""
    assert readable_codings(b"gzip;q=1.0, br;q=0.5, *;q=0.1") == b"gzip;q=1.0"
    assert readable_codings(b"zstd") == b"identity"


def test_our_own_answers_are_json() -> None:
    """An answer of ours has the shape in which providers tell of errors."""
    head, _, body = refusal(404, "kind", "why", close=True).partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": "kind", "message": "broker: why"},
    }
