"""A request that is live goes to the model itself, and its answer passes as it comes."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from broker.capture.upstream import ModelUpstream
from broker.replay.live import LiveModels
from broker.replay.playback import KeptAnswer


class _Server:
    """A server whose handler is a function, and what it was asked."""

    def __init__(self, answer: Any) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length") or 0))
                answer(self, content)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def model() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A model that answers in two pieces, and what it was asked."""
    asked: list[dict[str, Any]] = []

    def answer(handler: BaseHTTPRequestHandler, content: bytes) -> None:
        fields = {name.lower(): value for name, value in handler.headers.items()}
        asked.append({"path": handler.path, "headers": fields, "body": json.loads(content)})
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for piece in (b"data: 1\n\n", b"data: 2\n\n"):
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    server = _Server(answer)
    yield server.url, asked
    server.close()


def _ask(live: LiveModels, target: str, body: object, name: str = "m") -> tuple[int, bytes]:
    """Ask through a server that hands everything on."""
    failed: list[KeptAnswer] = []

    def answer(handler: BaseHTTPRequestHandler, content: bytes) -> None:
        found = live.pass_on(handler, name, handler.path, content)
        if found is not None:
            failed.append(found)
            handler.send_response(found.status)
            handler.send_header("content-length", str(len(found.body)))
            handler.end_headers()
            handler.wfile.write(found.body)

    server = _Server(answer)
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    try:
        headers = {"x-api-key": "broker-run-1", "x-more": "kept", "connection": "keep-alive"}
        connection.request("POST", target, json.dumps(body).encode(), headers)
        answered = connection.getresponse()
        return answered.status, answered.read()
    finally:
        connection.close()
        server.close()


def test_a_request_goes_to_its_model(model: tuple[str, list[dict[str, Any]]]) -> None:
    """Path, query, fields and body arrive, with the key in its token's place, and are answered."""
    url, asked = model
    live = LiveModels({})
    live.upstreams = {"m": ModelUpstream.read("m", f"{url}/base?v=1", {"broker-run-1": "real"})}
    status, body = _ask(live, "/v1/messages?key=broker-run-1", {"model": "a", "n": 1})
    assert (status, body) == (200, b"data: 1\n\ndata: 2\n\n")
    assert asked[0]["path"] == "/base/v1/messages?v=1&key=real"
    assert asked[0]["body"] == {"model": "a", "n": 1}
    assert asked[0]["headers"]["x-api-key"] == "real"
    assert asked[0]["headers"]["x-more"] == "kept"
    assert asked[0]["headers"]["accept-encoding"] == "identity"


def test_another_model_is_asked_by_its_name(model: tuple[str, list[dict[str, Any]]]) -> None:
    """The name of another model stands in the body, and where Gemini has it in the path."""
    url, asked = model
    live = LiveModels({}, "other")
    live.upstreams = {"m": ModelUpstream.read("m", url)}
    _ask(live, "/v1beta/models/gemini-pro:streamGenerateContent?alt=sse", {"contents": []})
    _ask(live, "/v1/messages", {"model": "a"})
    assert asked[0]["path"] == "/v1beta/models/other:streamGenerateContent?alt=sse"
    assert asked[0]["body"] == {"contents": []}
    assert asked[1]["body"] == {"model": "other"}


def test_what_fails_on_the_way_is_told() -> None:
    """A model that is not there, or that nobody knows, is a 502 with its reason."""
    live = LiveModels({})
    live.upstreams = {"m": ModelUpstream.read("m", "http://127.0.0.1:9")}
    status, body = _ask(live, "/v1/messages", {})
    assert status == 502
    assert "127.0.0.1:9 cannot be reached" in json.loads(body)["error"]["message"]
    assert _ask(live, "/v1/messages", {}, name="other")[0] == 502
