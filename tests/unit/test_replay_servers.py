"""Which recorded answer a message of MCP gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from broker.mcp.messages import Message, read_message
from broker.replay.normal import Normal
from broker.replay.servers import RecordedServers
from tests.mcpkit import call, said
from tests.worldkit import Recorded, recorded


def _asked(run: Recorded, method: str, params: object = None, **more: object) -> int:
    attrs = {"server": "notes", "method": method, "sender": "client", "allowed": True, **more}
    return run.writer.event("mcp.request", "agent", attrs=attrs, payload=params or {})


def _answered(run: Recorded, seq: int, result: object, **more: object) -> None:
    attrs = {"server": "notes", "sender": "client", **more}
    content = {"result": result}
    run.writer.event("mcp.response", "gateway", causes=[seq], attrs=attrs, payload=content)


def _call(run: Recorded, name: str, result: str, **arguments: object) -> None:
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": result}}
    _answered(run, _asked(run, "tools/call", params, id=1), {"said": result})


def _servers(run: Recorded) -> RecordedServers:
    return RecordedServers(run.sealed(), Normal({}), Normal({}))


def _ask(servers: RecordedServers, raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in servers.ask("notes", _message(raw)).lines]


def _message(raw: bytes) -> Message:
    return read_message(raw)


def test_a_call_is_matched_by_its_arguments(tmp_path: Path) -> None:
    """Method and arguments must be the same, each answer is given once, under the asker's id."""
    run = recorded(tmp_path)
    _call(run, "look", "first", at="a")
    _call(run, "look", "second", at="b")
    servers = _servers(run)
    assert servers.recorded == 2
    assert _ask(servers, call(9, "look", at="b"))[0]["result"] == {"said": "second"}
    assert _ask(servers, call("x", "look", at="a"))[0] == {
        "jsonrpc": "2.0",
        "id": "x",
        "result": {"said": "first"},
    }
    again = servers.ask("notes", _message(call(3, "look", at="a")))
    assert again.counts
    assert "is not left on record" in again.why
    assert json.loads(again.lines[0])["result"]["isError"] is True


def test_what_is_not_on_record_is_an_error(tmp_path: Path) -> None:
    """Another argument, another method, another server, or one that never answered: named."""
    run = recorded(tmp_path)
    _call(run, "look", "first", at="a")
    _asked(run, "resources/read", {"uri": "a:b"}, id=2)
    servers = _servers(run)
    found = servers.ask("notes", _message(call(1, "look", at="z")))
    assert found.why == ("`tools/call look` of `notes` is not left on record with these arguments")
    read = servers.ask("notes", _message(said("resources/read", 1, uri="a:b")))
    assert "it was never answered" in json.loads(read.lines[0])["error"]["message"]
    other = servers.ask("else", _message(call(1, "look", at="a")))
    assert other.why
    assert servers.left == (0,)


def test_what_cannot_act_is_answered_as_often_as_it_is_asked(tmp_path: Path) -> None:
    """The beginning, lists and signs of life need not be asked just as then."""
    run = recorded(tmp_path)
    _answered(run, _asked(run, "initialize", {"clientInfo": {"version": "1"}}, id=0), {"v": 1})
    _answered(run, _asked(run, "tools/list", id=1), {"tools": []})
    servers = _servers(run)
    for n in range(2):
        begun = _ask(servers, said("initialize", n, clientInfo={"version": "2"}))
        assert begun[0]["result"] == {"v": 1}
        assert _ask(servers, said("tools/list", n))[0]["result"] == {"tools": []}
        assert _ask(servers, said("ping", n))[0]["result"] == {}
    assert servers.recorded == 0
    assert servers.left == ()


def test_what_a_server_said_of_itself_is_said_again(tmp_path: Path) -> None:
    """What came before an answer comes before it, what came later comes later, and once."""
    run = recorded(tmp_path)
    seq = _asked(run, "tools/call", {"name": "look", "arguments": {}}, id=1)
    _asked(run, "notifications/progress", {"n": 1}, sender="server", notification=True)
    _answered(run, seq, {"ok": 1})
    _asked(run, "roots/list", sender="server", id="r")
    _asked(run, "sampling/createMessage", sender="server", id="s", allowed=False)
    told = _asked(run, "notifications/initialized", notification=True)
    _asked(run, "notifications/message", {"n": 2}, sender="server", notification=True)
    assert told
    servers = _servers(run)
    lines = _ask(servers, call(4, "look"))
    assert [each.get("method", "answer") for each in lines] == [
        "notifications/progress",
        "answer",
        "roots/list",
    ]
    assert lines[2]["id"] == "r"
    (later,) = _ask(servers, said("notifications/initialized"))
    assert later["params"] == {"n": 2}
    assert _ask(servers, said("notifications/initialized")) == []


def test_a_message_that_was_too_long_is_refused(tmp_path: Path) -> None:
    """Where parameters or an answer were left out, nothing is made up."""
    run = recorded(tmp_path)
    attrs = {"server": "notes", "method": "tools/call", "sender": "client", "allowed": True}
    long = run.writer.event("mcp.request", "agent", attrs={**attrs, "id": 1, "left_out": "9 bytes"})
    _answered(run, long, {"ok": 1})
    short = _asked(run, "tools/call", {"name": "look", "arguments": {}}, id=2)
    run.writer.event(
        "mcp.response",
        "gateway",
        causes=[short],
        attrs={"server": "notes", "sender": "client", "left_out": "9 bytes"},
    )
    servers = _servers(run)
    assert servers.ask("notes", _message(call(1, "look", big=1))).why
    assert (
        "left out of the recording: 9 bytes" in servers.ask("notes", _message(call(2, "look"))).why
    )
