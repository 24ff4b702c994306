"""A client on standard streams, and a server over HTTP."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

import pytest

from broker.mcp.bridge import Bridge
from broker.mcp.stdio import LineWriter
from broker.mcp.upstream import Upstream
from tests.hookkit import within
from tests.mcpkit import Respond, WebServer, Yes, answer, call, echo, gateway, said

STREAM = {"Content-Type": "text/event-stream"}
INITIALIZE = said("initialize", 0, protocolVersion="2025-06-18", capabilities={})
INITIALIZED = said("notifications/initialized")


class Sink(io.BytesIO):
    """A stream that keeps what was written when it is closed."""

    def close(self) -> None:
        """Stay open, so that a test can read it."""


def talk(
    respond: Respond, *raw: bytes, session: Yes | None = None
) -> tuple[list[dict[str, Any]], WebServer]:
    """Send lines, hang up, and return what the client heard."""
    out = Sink()
    with WebServer(respond) as server:
        bridge = Bridge(gateway(session or Yes()), Upstream(server.url), LineWriter(out))
        bridge.run(io.BytesIO(b"\n".join(raw)))
        bridge.end()
    return [json.loads(line) for line in out.getvalue().splitlines()], server


def test_requests_are_posted_and_answered_as_lines() -> None:
    """Session and version go with every later request, and the session is ended."""
    heard, server = talk(echo, INITIALIZE, INITIALIZED, said("tools/list", 1))
    assert {told["id"] for told in heard} == {0, 1}
    posts = [headers for method, headers, _ in server.heard if method == "POST"]
    assert "mcp-session-id" not in posts[0]
    for headers in posts[1:]:
        assert headers["mcp-session-id"] == "s-1"
        assert headers["mcp-protocol-version"] == "2025-06-18"
    assert server.heard[-1][0] == "DELETE"


def test_a_refused_call_is_never_sent() -> None:
    """The model reads why, and the server hears nothing."""
    heard, server = talk(echo, call(1, "drop"), session=Yes("mcp__notes__look"))
    assert heard[0]["result"]["isError"] is True
    assert not [body for _, _, body in server.heard if b"drop" in body]


@pytest.mark.parametrize(
    "reply",
    [
        (500, {}, [b"broken"]),
        (302, {"Location": "http://elsewhere/"}, []),
        (200, {"Content-Type": "text/html"}, [b"<p>"]),
        (200, {"Content-Type": "application/json"}, [answer(99)]),
        (200, STREAM, [b": nothing\n\n"]),
        (202, {}, []),
    ],
)
def test_every_request_is_answered(reply: tuple[int, Any, list[bytes]]) -> None:
    """Whatever a server does instead of answering, the client gets an error for it."""
    heard, _ = talk(lambda *_: reply, said("ping", 1))
    assert [told["id"] for told in heard] == [1]
    assert heard[0]["error"]["message"]


def test_a_server_that_is_not_there_is_said() -> None:
    """A notification is lost, and a request answered with an error."""
    with WebServer(echo) as server:
        url = server.url
    out = Sink()
    bridge = Bridge(gateway(Yes()), Upstream(url), LineWriter(out))
    bridge.run(io.BytesIO(INITIALIZED + b"\n" + said("ping", 1)))
    bridge.end()
    assert b"cannot be reached" in out.getvalue()


def test_a_stream_that_breaks_off_is_taken_up_again() -> None:
    """The server names its events, so the answer is asked for behind the last one."""

    def respond(method: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, list[bytes]]:
        if method == "POST":
            return 200, STREAM, [b"id: e1\nretry: 10\ndata:\n\n"]
        if headers.get("last-event-id") == "e1":
            return 200, STREAM, [b"id: e2\ndata: " + answer(1, ok=True) + b"\n\n"]
        return 405, {}, []

    heard, _ = talk(respond, call(1, "look"))
    assert heard == [{"jsonrpc": "2.0", "id": 1, "result": {"ok": True}}]


def test_what_a_server_says_unasked_is_heard_and_judged() -> None:
    """A stream is opened after the start; a known notification goes on, a question comes back."""
    pieces = [
        b"data: " + said("notifications/tools/list_changed") + b"\n\n",
        b"data: " + said("sampling/createMessage", 5) + b"\n\n",
    ]
    served = threading.Event()

    def respond(method: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, list[bytes]]:
        if method != "GET":
            return echo(method, headers, body)
        first, _ = not served.is_set(), served.set()
        return (200, STREAM, pieces) if first else (405, {}, [])

    out = Sink()
    with WebServer(respond) as server:
        session = Yes("mcp__notes__look")
        bridge = Bridge(gateway(session), Upstream(server.url), LineWriter(out))
        bridge.run(io.BytesIO(INITIALIZE + b"\n" + INITIALIZED))
        assert within(10, lambda: any(b"-32010" in body for _, _, body in server.heard))
        bridge.end()
    assert b"list_changed" in out.getvalue()
    assert b"sampling" not in out.getvalue()
