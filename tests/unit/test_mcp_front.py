"""A client and a server over HTTP, and the gateway between."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from broker.mcp.front import Front
from broker.mcp.upstream import Upstream
from tests.hookkit import within
from tests.mcpkit import Respond, WebServer, Yes, answer, call, echo, gateway, said

JSON = {"Content-Type": "application/json"}
STREAM = {"Content-Type": "text/event-stream"}


@contextmanager
def standing(session: Yes, respond: Respond, *scope: str) -> Iterator[tuple[Front, WebServer]]:
    """A gateway before a server."""
    with WebServer(respond) as server:
        front = Front(0, "/mcp", Upstream(server.url), lambda: gateway(session, *scope))
        threading.Thread(target=front.serve_forever, daemon=True).start()
        yield front, server
        front.shutdown()
        front.server_close()


def ask(
    front: Front, method: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Send one request to the gateway."""
    connection = http.client.HTTPConnection("127.0.0.1", front.server_address[1], timeout=20)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, sent.pop("path", "/mcp"), body, sent)
    found = connection.getresponse()
    told = found.status, found.read(), {k.lower(): v for k, v in found.getheaders()}
    connection.close()
    return told


def test_an_allowed_call_passes_and_a_refused_one_does_not() -> None:
    """The server hears the one only, and both are answered."""
    with standing(Yes("mcp__notes__look"), echo) as (front, server):
        status, body, headers = ask(front, "POST", call(1, "look"))
        assert (status, json.loads(body)["result"]) == (200, {"heard": "tools/call"})
        assert headers["mcp-session-id"] == "s-1"
        status, body, _ = ask(front, "POST", call(2, "drop"))
        assert json.loads(body)["result"]["isError"] is True
        assert len(server.heard) == 1


def test_a_list_is_filtered() -> None:
    """What the ticket could never allow is not shown."""
    with standing(Yes(), echo, "tools=mcp__notes__look") as (front, _):
        _, body, _ = ask(front, "POST", said("tools/list", 1))
        assert [t["name"] for t in json.loads(body)["result"]["tools"]] == ["look"]


def test_a_stream_goes_on_event_by_event() -> None:
    """Known events go on as they came, strange ones and stray answers leave their id behind."""
    pieces = [
        b": hi\n\nid: 1\ndata: " + said("notifications/message", level="info") + b"\n\n",
        b"id: 2\ndata: " + said("notifications/vendor") + b"\n\nid: 3\nda",
        b"ta: " + answer(9, x=1) + b"\n\n" + b"data: " + answer(1, ok=True) + b"\n\n",
    ]
    session = Yes("mcp__notes__look")
    with standing(session, lambda *_: (200, STREAM, pieces)) as (front, _):
        status, body, _ = ask(front, "POST", call(1, "look"))
    assert status == 200
    assert body.startswith(pieces[0])
    assert b"vendor" not in body
    assert b"id: 2\n\nid: 3\n\n" in body
    assert body.endswith(b"data: " + answer(1, ok=True) + b"\n\n")


def test_a_server_that_may_not_ask_its_client_is_told() -> None:
    """The error goes to the server in a request of its own, under the client's session."""

    def respond(method: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, list[bytes]]:
        if b"-32010" in body:
            return 202, {}, []
        event = b"data: " + said("sampling/createMessage", 5) + b"\n\n"
        return 200, STREAM, [event, b"data: " + answer(1) + b"\n\n"]

    with standing(Yes("mcp__notes__look"), respond) as (front, server):
        _, body, _ = ask(front, "POST", call(1, "look"), Mcp_Session_Id="s-9")
        assert within(5, lambda: len(server.heard) == 2)
        _, headers, told = server.heard[1]
    assert b"sampling" not in body
    assert headers["mcp-session-id"] == "s-9"
    assert json.loads(told)["id"] == 5


def test_a_session_keeps_its_state_over_requests() -> None:
    """What one request asked for, a stream of the same session may answer, and no other's."""

    def respond(method: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, list[bytes]]:
        if method == "POST":
            return 200, {**STREAM, "Mcp-Session-Id": "s-1"}, [b"id: 1\ndata:\n\n"]
        return 200, STREAM, [b"data: " + answer(1, tools=[{"name": "drop"}]) + b"\n\n"]

    with standing(Yes(), respond, "tools=Read") as (front, _):
        ask(front, "POST", said("tools/list", 1))
        assert b'"tools":[]' in ask(front, "GET", Mcp_Session_Id="s-1")[1]
        assert ask(front, "GET", Mcp_Session_Id="other")[1] == b""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:5173"}, 200),
        ({"path": "/other"}, 404),
    ],
)
def test_only_this_machine_is_answered(headers: dict[str, str], status: int) -> None:
    """Pages of the web, other names and other paths reach nothing."""
    with standing(Yes(), echo) as (front, server):
        assert ask(front, "POST", said("ping", 1), **headers)[0] == status
        assert len(server.heard) == (status == 200)


def test_headers_cannot_say_something_else() -> None:
    """A request whose headers name another method or tool reaches nobody."""
    with standing(Yes(), echo) as (front, server):
        raw = call(1, "look")
        assert ask(front, "POST", raw, Mcp_Method="ping")[0] == 400
        assert ask(front, "POST", raw, Mcp_Method="tools/call", Mcp_Name="drop")[0] == 400
        assert server.heard == []
        assert ask(front, "POST", raw, Mcp_Method="tools/call", Mcp_Name="look")[0] == 200


def test_what_is_no_message_is_a_bad_request() -> None:
    """Broken JSON and a batch come back with 400, and reach nobody."""
    with standing(Yes(), echo) as (front, server):
        assert ask(front, "POST", b"{")[0] == 400
        assert ask(front, "POST", b"[" + said("ping", 1) + b"]")[0] == 400
        assert server.heard == []


@pytest.mark.parametrize(
    "reply",
    [
        (307, {"Location": "http://127.0.0.1:1/mcp/"}, []),
        (200, {"Content-Type": "text/html"}, [b"<p>"]),
        (200, JSON, [b"[]"]),
        (200, JSON, [answer(7)]),
        (200, {**JSON, "Content-Encoding": "gzip"}, [b"x"]),
    ],
)
def test_an_answer_that_cannot_go_on_is_an_error(reply: tuple[int, Any, list[bytes]]) -> None:
    """The client's request is answered with an error that says why."""
    with standing(Yes(), lambda *_: reply) as (front, _):
        status, body, headers = ask(front, "POST", said("tools/list", 1))
    assert status == 502
    assert json.loads(body)["id"] == 1
    assert "location" not in headers


def test_a_failure_of_the_server_goes_on() -> None:
    """Status, headers and body of what is no success are the server's own."""
    head = {"WWW-Authenticate": "Bearer x", "Content-Type": "text/plain"}
    with standing(Yes(), lambda *_: (401, head, [b"who are you"])) as (front, _):
        status, body, headers = ask(front, "POST", said("initialize", 1))
        assert (status, body) == (401, b"who are you")
        assert headers["www-authenticate"] == "Bearer x"
        assert ask(front, "DELETE", Mcp_Session_Id="s")[0] == 401


def test_a_server_that_is_not_there_is_an_error() -> None:
    """The request is answered, and the id is free again."""
    with WebServer(echo) as server:
        url = server.url
    front = Front(0, "/mcp", Upstream(url), lambda: gateway(Yes()))
    threading.Thread(target=front.serve_forever, daemon=True).start()
    for _ in range(2):
        status, body, _ = ask(front, "POST", said("ping", 1), Mcp_Session_Id="s")
        assert (status, json.loads(body)["id"]) == (502, 1)
    front.shutdown()
    front.server_close()


def test_a_client_that_leaves_a_silent_stream_frees_the_server() -> None:
    """The gateway sees it go although the server says nothing."""
    ticks = itertools.count()
    gone = threading.Event()

    def forever() -> Iterator[bytes]:
        yield b": hi\n\n"
        try:
            while next(ticks) < 400:
                if gone.wait(0.05):
                    return
                yield b""
        finally:
            gone.set()

    with standing(Yes(), lambda *_: (200, STREAM, forever())) as (front, _):
        connection = http.client.HTTPConnection("127.0.0.1", front.server_address[1], timeout=20)
        connection.request("GET", "/mcp")
        assert connection.getresponse().read1(100)
        before = threading.active_count()
        connection.close()
        assert within(10, lambda: threading.active_count() < before)
        gone.set()
