"""The server before a model lets those in who know the word, and asks nothing but models."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from broker.capture.proxy import ModelProxy
from broker.capture.upstream import ModelUpstream
from broker.limits import MAX_CAPTURE_CONNECTIONS
from tests.capturekit import (
    WORD,
    Server,
    Watched,
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

_LONG = """
import resource, sys, threading
from pathlib import Path
from tests.capturekit import Server, Watched, ask, connected, proxied, hear
size = int(sys.argv[2])
def serve(near):
    hear(near)
    near.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % size)
    part = b"x" * 65536
    for _ in range(size // len(part)):
        near.sendall(part)
with proxied(Path(sys.argv[1]), Server(serve).url) as (proxy, watched):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with connected(proxy.port) as near:
        near.sendall(ask())
        got = 0
        while got < size:
            got += len(near.recv(262144))
    last = watched.last()
    print(last.answer.size_bytes, bool(last.answer.lost),
          resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "request_",
    [
        ask("/v1/files"),
        ask("/v1/messages/batches"),
        ask("/v1/messages", method="PUT"),
        ask("/", method="HEAD", body=b""),
        ask("/v1/messages").replace(WORD.encode(), b"guess"),
        ask("/v1/messages").replace(b"/m/", b"/n/"),
        b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST http://a/word/m/v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        ask("/v1/responses", b"", "Upgrade: websocket", "Connection: Upgrade", method="GET"),
        ask("/v1/messages", b"{}", "Upgrade: h2c"),
    ],
    ids=[
        "another path", "a path below", "another method", "the root", "another word",
        "another name", "no word", "a tunnel", "an address", "a websocket", "an upgrade",
    ],
)  # fmt: skip
def test_what_no_model_is_asked_by_is_not_found(tmp_path: Path, request_: bytes) -> None:
    """Everything else is answered with 404, and no byte of it goes on."""
    server = Server(saying(plain(b"ok")))
    with proxied(tmp_path, server.url) as (proxy, watched):
        assert talk(proxy.port, request_).startswith(b"HTTP/1.1 404 ")
        assert len(watched.others) == 1
        assert not watched.asks
    assert server.connections == 0


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/responses",
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "/v1/embeddings",
    ],
)  # fmt: skip
def test_what_models_are_asked_by_passes(tmp_path: Path, path: str) -> None:
    """Each of the known paths is passed on, behind the base of its upstream."""
    seen: list[bytes] = []
    server = Server(saying(plain(b"ok"), seen))
    with proxied(tmp_path, f"{server.url}/base/") as (proxy, watched):
        with connected(proxy.port) as near:
            near.sendall(ask(path))
            assert read_answer(near).endswith(b"ok")
        assert watched.last().path == path.partition("?")[0]
    assert seen[0].startswith(b"POST /base" + path.encode() + b" HTTP/1.1\r\n")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_lists_of_models_pass(tmp_path: Path, method: str) -> None:
    """A list of models is asked for by GET, and looked for by HEAD, whose answer has no body."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + (b"[]" if method == "GET" else b"")
    with (
        proxied(tmp_path, Server(saying(answer)).url) as (proxy, watched),
        connected(proxy.port) as near,
    ):
        for count in (1, 2):
            near.sendall(ask("/v1/models", b"", method=method))
            assert read_answer(near, len(answer)) == answer
            assert watched.last(count).method == method


def test_a_malformed_request_is_told(tmp_path: Path) -> None:
    """What is no HTTP gets a 400, another version a 505."""
    with proxied(tmp_path, "http://127.0.0.1:9") as (proxy, _):
        assert talk(proxy.port, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        old = ask().replace(b"HTTP/1.1", b"HTTP/1.0")
        assert talk(proxy.port, old).startswith(b"HTTP/1.1 505 ")
        assert talk(proxy.port, ask().replace(b"\r\nHost", b"\r\nTransfer-Encoding: a\r\nHost"))


def test_fifty_at_once(tmp_path: Path) -> None:
    """Fifty agents ask at the same time, and each hears its own answer."""
    gate = threading.Barrier(50)

    def serve(near: socket.socket) -> None:
        _, body, _ = hear(near)
        gate.wait(20)
        near.sendall(plain(body))

    got: dict[int, bytes] = {}

    def one(number: int, port: int) -> None:
        with connected(port) as near:
            near.sendall(ask(body=b"%d" % number))
            got[number] = read_answer(near)

    with proxied(tmp_path, Server(serve).url) as (proxy, watched):
        threads = [threading.Thread(target=one, args=(n, proxy.port)) for n in range(50)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(30)
        watched.last(50)
    assert all(got[n].endswith(b"\r\n\r\n%d" % n) for n in range(50))
    assert {p.request.content() for p in watched.answers} == {b"%d" % n for n in range(50)}


def test_a_long_answer_takes_no_memory(tmp_path: Path) -> None:
    """A hundred megabytes pass without being held: what is kept of them waits in a file."""
    size = 100 * 2**20 // 65_536 * 65_536
    done = subprocess.run(
        [sys.executable, "-c", _LONG, str(tmp_path), str(size)],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    passed, lost, grown_kb = done.stdout.split()
    assert (int(passed), lost) == (size, "True")  # longer than what is kept
    assert int(grown_kb) * (1 if sys.platform != "darwin" else 1 / 1024) < 24 * 1024


def test_nobody_is_served_before_the_start_and_after_the_end(tmp_path: Path) -> None:
    """Who connects early waits, and whoever is there at the end is cut off."""
    proxy = ModelProxy(WORD, {}, tmp_path, Watched())
    proxy.bind()
    proxy.upstreams["m"] = ModelUpstream.read("m", Server(saying(plain(b"ok"))).url)
    assert proxy.lost() is None
    with connected(proxy.port) as near:
        near.sendall(ask())
        near.settimeout(0.1)
        with pytest.raises(TimeoutError):
            near.recv(1)
        proxy.start()
        near.settimeout(10)
        assert read_answer(near).endswith(b"ok")
        assert proxy.lost() is None
        proxy.stop()
        assert near.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connected(proxy.port)


def test_a_server_that_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing accepts any more although the run goes on, there is a reason to stop it."""
    proxy = ModelProxy(WORD, {}, tmp_path, Watched())
    proxy.bind()
    monkeypatch.setattr(proxy, "_accept", lambda listener: None)
    proxy.start()
    assert within(10, lambda: proxy.lost() is not None)
    assert "has ended" in str(proxy.lost())


def test_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    """Its address is loopback, whatever else the machine is called."""
    with proxied(tmp_path, "http://127.0.0.1:9") as (proxy, _):
        assert proxy.url("m") == f"http://127.0.0.1:{proxy.port}/{WORD}/m"
        listener = proxy._listener
        assert listener is not None
        assert listener.getsockname()[0] == "127.0.0.1"


def test_more_connections_than_it_has_wait(tmp_path: Path) -> None:
    """Idle connections up to the limit are all served."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(MAX_CAPTURE_CONNECTIONS, 100, limit // 4)
    with proxied(tmp_path, Server(saying(plain(b"ok"))).url) as (proxy, _):
        open_ = [connected(proxy.port) for _ in range(count)]
        for near in open_:
            near.sendall(ask())
        assert all(read_answer(near).endswith(b"ok") for near in open_)
        for near in open_:
            near.close()
