"""The broker's own MCP server: its three tools, and what it makes of bad messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.mcp.desk import PROTOCOLS, TOOLS, Desk
from broker.mcp.offering import OpenedSession
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

READ = {"tool": "Read", "arguments": {"file_path": "src/a.py"}}


def _desk(bench: Bench, *texts: str) -> Desk:
    return Desk(OpenedSession(bench.open(texts or ("tools=Read,Edit", "calls=3"))), "1")


def _ask(desk: Desk, method: str, params: object = None) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method}
    answer = desk.answer(
        json.dumps(body if params is None else {**body, "params": params}).encode()
    )
    assert answer is not None
    return json.loads(answer)


def _call(desk: Desk, name: str, **arguments: object) -> Any:
    return _ask(desk, "tools/call", {"name": name, "arguments": arguments})["result"]


def test_a_client_is_told_what_it_needs(bench: Bench) -> None:
    """The server takes the client's protocol where it knows it, and lists its tools."""
    desk = _desk(bench)
    for asked in PROTOCOLS:
        told = _ask(desk, "initialize", {"protocolVersion": asked})["result"]
        assert told["protocolVersion"] == asked
    assert (
        _ask(desk, "initialize", {"protocolVersion": "x"})["result"]["protocolVersion"] in PROTOCOLS
    )
    assert _ask(desk, "ping")["result"] == {}
    assert [tool["name"] for tool in _ask(desk, "tools/list")["result"]["tools"]] == [
        "check", "attenuate", "describe",
    ]  # fmt: skip


def test_a_check_is_decided_recorded_and_counted(bench: Bench) -> None:
    """An allow and a refusal are answers that a model reads, and both stand in the receipt."""
    desk = _desk(bench)
    allowed = _call(desk, "check", **READ, call_id="c1")
    assert allowed["content"][0]["text"] == "allowed"
    assert allowed["structuredContent"] == {"decision": "allow", "enforcement": "gate"}
    refused = _call(desk, "check", tool="Bash", arguments={"command": "ls"})
    assert refused["content"][0]["text"].startswith("refused (tools): ")
    assert refused["isError"] is False
    assert _call(desk, "describe")["structuredContent"]["spent"] == [1]


def test_a_ticket_is_narrowed_and_never_widened(bench: Bench) -> None:
    """What is derived judges calls that name it, and a widening is an error that says so."""
    desk = _desk(bench)
    child = _call(desk, "attenuate", scope=["tools=Read"])["structuredContent"]["ticket"]
    edit = {"tool": "Edit", "arguments": {"file_path": "src/a.py"}}
    assert _call(desk, "check", **edit)["structuredContent"]["decision"] == "allow"
    under = _call(desk, "check", **edit, ticket=child)["structuredContent"]
    assert (under["decision"], under["caveat"]) == ("refuse", "tools")
    wide = _call(desk, "attenuate", scope=["tools=Read,Edit"], ticket=child)
    assert wide["isError"] is True
    assert "widens" in wide["content"][0]["text"]
    forged = child.replace('"Read"', '"Edit"')
    refused = _call(desk, "check", **edit, ticket=forged)["structuredContent"]
    assert (refused["decision"], refused["caveat"]) == ("refuse", "session")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("check", {"tool": "Read"}),
        ("check", {**READ, "tikcet": "x"}),
        ("check", {**READ, "tool": 3}),
        ("check", {**READ, "arguments": []}),
        ("attenuate", {"scope": "tools=Read"}),
        ("attenuate", {"scope": [3]}),
        ("attenuate", {"scope": ["nonsense"]}),
        ("describe", {"ticket": "0123456789abcdef"}),
    ],
)
def test_what_does_not_fit_is_an_error_and_decides_nothing(
    bench: Bench, name: str, arguments: dict[str, Any]
) -> None:
    """A misspelt key, a wrong type and a ticket that is none are told to the model."""
    desk = _desk(bench)
    assert _call(desk, name, **arguments)["isError"] is True
    assert _call(desk, "describe")["structuredContent"]["spent"] == [0]


def test_what_the_server_does_not_have(bench: Bench) -> None:
    """Other methods, other tools and lines that are no message are errors of the protocol."""
    desk = _desk(bench)
    assert _ask(desk, "server/discover")["error"]["code"] == -32601
    assert _ask(desk, "tools/call", {"name": "mint", "arguments": {}})["error"]["code"] == -32600
    broken = desk.answer(b"{")
    assert broken is not None
    assert json.loads(broken)["error"]["code"] == -32700
    assert desk.answer(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None
    assert desk.answer(b'{"jsonrpc":"2.0","id":9,"result":{}}') is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    line=st.binary() | st.builds(json.dumps, st.dictionaries(st.text(), st.text())).map(str.encode)
)
def test_answering_is_total(bench_desk: Desk, line: bytes) -> None:
    """Whatever a client sends, there is an answer of the protocol or none."""
    answer = bench_desk.answer(line)
    assert answer is None or json.loads(answer)["jsonrpc"] == "2.0"


@pytest.fixture
def bench_desk(bench: Bench) -> Desk:
    """A desk that many messages come to."""
    return _desk(bench)


def test_every_tool_says_what_it_takes() -> None:
    """Each schema closes itself, and names what it needs among what it has."""
    for tool in TOOLS:
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False
        assert set(schema.get("required", ())) <= set(schema["properties"])
