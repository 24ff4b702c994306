"""A server's tools are asked for once, and whatever it answers there is an end."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from broker.errors import LaunchError, StoreError
from broker.mcp import listing
from broker.mcp.listing import list_of_address, list_of_process
from broker.mcp.upstream import Upstream
from tests.mcpkit import SERVER, WebServer

PAGES = r"""
import json, sys
def say(body):
    print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    print("not json", flush=True)
    say({"id": 99, "result": {"tools": [{"name": "forged"}]}})
    say({"method": "notifications/message", "params": {}})
    say({"id": 1, "method": "roots/list"})
    cursor = (said.get("params") or {}).get("cursor", "0")
    result = {"tools": [{"name": "t" + cursor}]} if said["method"] == "tools/list" else {}
    if said["method"] == "tools/list" and cursor != "2":
        result["nextCursor"] = str(int(cursor) + 1)
    say({"id": said["id"], "result": result})
"""


def run(code: str) -> list[Any]:
    """Ask a server that is a few lines of Python."""
    return list_of_process([sys.executable, "-c", code], os.environ)


def test_a_server_on_standard_streams() -> None:
    """Its tools, and no others."""
    assert [each["name"] for each in run(SERVER)] == ["look", "drop", "die"]


def test_pages_and_what_is_no_answer() -> None:
    """Every page is asked for; what is not an answer to our own request is passed over."""
    assert [each["name"] for each in run(PAGES)] == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    "answer",
    [
        '"error": {"code": 1, "message": "no"}',
        '"result": {"tools": [], "nextCursor": "again"}',
        '"result": {"tools": [1] * 600, "nextCursor": "x"}',
    ],
)
def test_a_server_that_refuses_or_never_stops(answer: str) -> None:
    """It is told, and not waited for."""
    code = (
        "import json, sys\nfor line in sys.stdin:\n"
        "    i = json.loads(line).get('id')\n"
        f'    if i: print(json.dumps({{"jsonrpc": "2.0", "id": i, {answer}}}), flush=True)'
    )
    with pytest.raises(StoreError):
        run(code)


def test_a_server_that_is_silent_gone_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time, an end, and a name that is no program."""
    monkeypatch.setattr(listing, "ANSWER_S", 0.3)
    monkeypatch.setattr(listing, "SOON_S", 0.1)
    told: list[float] = []
    with pytest.raises(StoreError, match="did not answer"):
        list_of_process(["sleep", "60"], os.environ, told.append)
    assert told == [0.3]
    with pytest.raises(StoreError, match="ended"):
        run("print('hello')")
    with pytest.raises(LaunchError):
        list_of_process(["no-such-server"], os.environ)


def test_a_server_that_writes_no_messages_is_not_heard_out() -> None:
    """Lines without an answer among them have an end."""
    with pytest.raises(StoreError, match="none is an answer"):
        list_of_process(["sh", "-c", "yes nonsense"], os.environ)


def web(events: bool, **more: Any) -> WebServer:
    """Return a server over HTTP that lists one tool, as JSON or as events."""

    def respond(
        method: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], list[bytes]]:
        said = json.loads(body)
        if "id" not in said:
            return 202, {}, []
        result: dict[str, Any] = {"tools": [{"name": headers.get("mcp-session-id", "none")}]}
        answer = json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}).encode()
        kind = "text/event-stream" if events else "application/json"
        sent = [b": hello\n\ndata: " + answer + b"\n\n"] if events else [answer]
        return more.get("status", 200), {"Content-Type": kind, "Mcp-Session-Id": "abc"}, sent

    return WebServer(respond)


@pytest.mark.parametrize("events", [False, True])
def test_a_server_over_http(events: bool) -> None:
    """As one answer or as a stream, with the session that it gives."""
    with web(events) as server:
        assert list_of_address(Upstream(server.url)) == [{"name": "abc"}]


def test_a_server_over_http_that_fails() -> None:
    """A status that is no answer, and an address where nobody listens."""
    with web(False, status=500) as server, pytest.raises(StoreError, match="500"):
        list_of_address(Upstream(server.url))
    with pytest.raises(StoreError):
        list_of_address(Upstream("http://127.0.0.1:9/"))
