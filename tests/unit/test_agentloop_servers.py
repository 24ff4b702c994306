"""MCP servers as tools: offered by their own schemas, held by the pair of server and tool."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from broker.agentloop import servers
from broker.capabilities.bundle import FakeWorld
from broker.config import ServerSetting
from broker.errors import CapabilityError
from broker.harness.composition import Choices, Composition, compose
from broker.harness.files import ToolError
from broker.loopback.script import Say, Use
from tests.agentkit import scripted

# A server on standard streams, without a library: what it says on its other stream is nobody's.
SERVER = r"""
import json, os, sys
text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
none = {"type": "object", "properties": {}}
TOOLS = [{"name": n, "description": f"{n}s a note.", "inputSchema": s}
         for n, s in (("add", text), ("fail", none), ("look", none), ("odd.name", none),
                      ("broken", {"type": "object", "properties": {"x": {"type": 3}}}))]
print("\x1b[2J a server speaks", file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, params, result = asked["method"], asked.get("params") or {}, None
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        said = {"add": json.dumps(params.get("arguments")), "fail": "no notes today",
                "look": ",".join(sorted(os.environ)) + " in " + os.getcwd()}[params["name"]]
        image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
        result = {"content": [{"type": "text", "text": said}, image],
                  "isError": params["name"] == "fail"}
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    answer |= {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps(answer), flush=True)
"""


@dataclass
class Row:
    """A tool, or a block of a result, as the SDK has one."""

    name: str = ""
    description: str | None = None
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    type: str = "text"
    text: str = ""


@dataclass
class Answered:
    """A page of tools, or a result, as the SDK has one."""

    tools: list[Row] = field(default_factory=list)
    next_cursor: str | None = None
    content: list[Row] = field(default_factory=list)
    structured_content: object = None
    is_error: bool = False


class Client:
    """A client of the SDK's shape that answers from a table."""

    def __init__(self, pages: list[Answered], results: dict[str, Answered | Exception]) -> None:
        self.pages, self.results, self.open = pages, results, False

    async def __aenter__(self) -> Client:
        self.open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open = False

    async def list_tools(self, *, cursor: str | None) -> Answered:
        """Return a page."""
        return self.pages[int(cursor or 0)]

    async def call_tool(self, name: str, arguments: dict[str, object]) -> Answered:
        """Return a result."""
        found = self.results[name]
        if isinstance(found, Exception):
            raise found
        return found


def composed(tmp_path: Path) -> Composition:
    """Return a composition with one server in its settings, that is not started."""
    world = FakeWorld.of(environ={"BROKER_HOME": str(tmp_path)}).capabilities()
    made = compose(world, str(tmp_path), Choices())
    setting = ServerSetting("notes", ("notes",))
    return replace(made, config=replace(made.config, servers=(setting,)))


def test_tools_are_registered_and_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is read, a result is its text, a failure is the tool's, and the end is the end."""
    results: dict[str, Answered | Exception] = {
        "a": Answered(content=[Row(text="one"), Row(type="image")]),
        "b": Answered(content=[Row(text="no notes")], is_error=True),
        "c": Answered(structured_content={"n": 1}),
        "d": ConnectionError("it is gone"),
        "e": Answered(),
    }
    names = list(results)
    client = Client(
        [
            Answered([Row(name, "A tool.") for name in names[:2]], "1"),
            Answered([Row(name) for name in (*names[2:], "odd.name", "a")]),
        ],
        results,
    )
    monkeypatch.setattr(servers, "_client", lambda setting, root, said: client)
    warned: list[str] = []
    made = composed(tmp_path)
    with ExitStack() as stack:
        servers.offered_servers(made, stack, warned.append)
        tools = made.registry.current.tools
        found = [tool for tool in tools.values() if tool.server == "notes"]
        assert [tool.name for tool in found] == [f"mcp__notes__{name}" for name in names]
        assert found[0].about == "A tool."
        work: Any = None
        assert found[0].run(work, {}) == "one\n(image, not shown)"
        assert found[2].run(work, {}) == '{"n": 1}'
        assert found[4].run(work, {}) == "done"
        for tool, why in ((found[1], "no notes"), (found[3], "ConnectionError: it is gone")):
            with pytest.raises(ToolError, match=why):
                tool.run(work, {})
        assert client.open
    assert not client.open
    assert [text.split("`")[1] for text in warned] == ["odd.name", "a"]


def test_a_server_that_does_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last line is shown, without control characters, and nothing of it is offered."""

    def client(setting: ServerSetting, root: str, said: Any) -> Client:
        said.write("first\n\x1b[2J no such option\n")
        raise ExceptionGroup("many", [OSError("it \n ended")])

    monkeypatch.setattr(servers, "_client", client)
    warned: list[str] = []
    made = composed(tmp_path)
    with ExitStack() as stack:
        servers.offered_servers(made, stack, warned.append)
    assert warned == ["MCP server `notes` is not there: OSError: it  (\ufffd[2J no such option)"]
    assert not [tool for tool in made.registry.current.tools.values() if tool.server]


def test_a_server_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that never answers and one that talks nonsense are told and left, and they end."""
    monkeypatch.setattr(servers, "_START_S", 2.0)
    monkeypatch.setattr(servers, "_SOON_S", 0.1)
    warned: list[str] = []
    made = composed(tmp_path)
    pid, talks = tmp_path / "pid", "for i in 1 2 3 4; do echo nonsense; done; sleep 60"
    mute = ServerSetting("mute", ("sh", "-c", f"echo $$ >{pid}; cat >/dev/null"))
    loud = ServerSetting("loud", ("sh", "-c", talks))
    made = replace(made, root=str(tmp_path), config=replace(made.config, servers=(mute, loud)))
    with ExitStack() as stack:
        servers.offered_servers(made, stack, warned.append)
        late = "is not there: TimeoutError: it does not answer within 2 s"
        assert warned[0].startswith("MCP servers that take their time, up to 2 s: ")
        assert warned[1:] == [f"MCP server `mute` {late}", f"MCP server `loud` {late}"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert capfd.readouterr().err == ""


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has servers and not the extra is told which."""
    monkeypatch.setattr(servers, "find_spec", lambda name: None)
    with ExitStack() as stack, pytest.raises(CapabilityError, match=r"\[agent\]"):
        servers.offered_servers(composed(tmp_path), stack, lambda text: None)


def notes(tmp_path: Path) -> str:
    """Write a server, and return the tables that name it, and ones that do not start."""
    path = tmp_path / "notes.py"
    path.write_text(SERVER, encoding="utf-8")
    return (
        f'[mcp.notes]\ncommand = ["{sys.executable}", "{path}"]\nenv = {{ GIVEN = "x" }}\n'
        '[mcp.gone]\ncommand = ["/nowhere/at/all"]\n'
        '[mcp.quits]\ncommand = ["sh", "-c", "echo no such option >&2; exit 3"]\n'
    )


@pytest.mark.deep
def test_a_real_server_s_tools_are_tools(tmp_path: Path) -> None:
    """They are offered, validated, decided by server and tool, and called; others are named."""
    calls: list[tuple[str, dict[str, object]]] = [
        ("mcp__notes__add", {"text": "hi"}),
        ("mcp__notes__add", {"text": 3}),
        ("mcp__notes__fail", {}),
        ("mcp__notes__look", {}),
    ]
    script = {"main": [*(Use([call]) for call in calls), Say("Done.")]}
    with scripted(tmp_path, script, config=notes(tmp_path)) as (bench, model):
        scope = ["tools=mcp__notes__add,mcp__notes__look"]
        ended = bench.run("[script main] go", mode="yolo", texts=scope)
    assert ended.document["calls"] == {"done": 2, "failed": 1, "refused": 1}
    (sid,) = bench.sids
    decisions = [e.data for e in bench.entries(sid) if e.kind == "decision"]
    assert [(d["server"], d["tool"], d["decision"]) for d in decisions] == [
        ("notes", "mcp__notes__add", "allow"),
        ("notes", "mcp__notes__fail", "refuse"),
        ("notes", "mcp__notes__look", "allow"),
    ]
    assert [(a.tool, a.outcome) for a in bench.audits(sid)] == [
        ("mcp__notes__add", "invalid_arguments")
    ]
    told = model.asked[-1]
    assert '{\\\\\\"text\\\\\\": \\\\\\"hi\\\\\\"}' in told or '{\\"text\\": \\"hi\\"}' in told
    assert "(image, not shown)" in told
    # It gets what its table says and what every program needs, and no key of the person's.
    assert "GIVEN" in told
    assert "ANTHROPIC" not in told
    assert f" in {bench.root}" in told
    assert "adds a note." in model.asked[0]
    errors = bench.terminal.errors
    for name in ("odd.name", "broken"):
        assert f"tool `{name}` of MCP server `notes` is not offered" in errors
        assert f"mcp__notes__{name}" not in model.asked[0]
    assert "MCP server `gone` is not there" in errors
    assert "MCP server `quits` is not there" in errors
    assert "no such option" in errors
    assert "a server speaks" not in errors


@pytest.mark.deep
@pytest.mark.parametrize(
    ("scope", "mode", "count"),
    [
        (["paths=src/**"], "yolo", {"done": 0, "failed": 0, "refused": 2}),
        (["tools=mcp__notes__fail"], "yolo", {"done": 0, "failed": 1, "refused": 1}),
        ([], "auto", {"done": 1, "failed": 0, "refused": 1}),
    ],
    ids=["unseen", "failed", "tainted"],
)
def test_a_server_s_call_is_held_like_any_other(
    tmp_path: Path, scope: list[str], mode: str, count: dict[str, int]
) -> None:
    """It cannot be seen in its arguments, it may fail, and what it says is a stranger's word."""
    uses = [Use([("mcp__notes__add", {"text": "hi"})]), Use([("mcp__notes__fail", {})])]
    script = {"main": [*uses, Say("Done.")]}
    with scripted(tmp_path, script, config=notes(tmp_path)) as (bench, _):
        ended = bench.run("[script main] go", mode=mode, texts=scope)
    assert ended.document["calls"] == count
