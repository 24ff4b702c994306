"""The MCP Python SDK: its servers and its clients, in one process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("mcp", reason="the framework of this adapter is not installed")

from mcp import Client, MCPError
from mcp.server import MCPServer
from pydantic import ValidationError

from broker.errors import BrokerError
from broker.frameworks.holding import session
from broker.frameworks.mcp_sdk import hold_server, hold_session
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework

Hold = Callable[..., None]
ONE_WAY = {
    "sync": "serves and asks in an event loop only",
    "stream": "has no model whose answers it could stream",
}


class Both(AdapterSuite):
    """How either end is driven; ``at_server`` says which one asks."""

    lacks: ClassVar[Mapping[str, str]] = ONE_WAY
    at_server: ClassVar[bool] = True

    async def drive(self, stage: Stage) -> Drive:
        """Have a client make the calls of each turn at once."""
        return await self.called(server(stage), stage.turns)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Call a tool of the main server, behind which is a narrower one."""
        helper = stage.helper
        assert helper is not None
        narrow = {"scope": helper.texts, "agent": helper.name}
        below = server(stage, tools=stage.tools(*helper.tools))
        told: dict[str, str] = {}

        async def ask_helper(task: str) -> str:
            """Help."""
            found = await self.called(below, helper.turns, **narrow)
            told.update(found.told)
            return task

        ask_helper.__name__ = "helper"
        main = server(stage, tools=[*stage.tools(), ask_helper])
        turns = ((Ask("helper", {"task": "go"}, "helper"),), *stage.turns)
        drive = await self.called(main, turns)
        return Drive({**drive.told, **told}, drive.said)

    async def called(self, made: MCPServer[Any], turns: Any, **narrow: Any) -> Drive:
        """Make the calls of each turn at once, held at one end."""
        if self.at_server:
            hold_server(made, **narrow)
            return await called(made, turns)
        return await called(made, turns, lambda client: hold_session(client.session, **narrow))


class TestServer(Both):
    """Every case of the suite, decided in the server."""


class TestClient(Both):
    """Every case of the suite, decided in the client."""

    at_server = False


# ── how the SDK is driven ──


def server(stage: Stage, tools: Any = None) -> MCPServer[Any]:
    """Return a server with the stage's tools."""
    made: MCPServer[Any] = MCPServer("stage")
    for tool in stage.tools() if tools is None else tools:
        made.add_tool(tool)
    return made


async def called(
    made: MCPServer[Any], turns: Any, before: Callable[[Client], None] = lambda _: None
) -> Drive:
    """Make the calls of each turn at once, and return what each was answered."""
    told: dict[str, str] = {}

    async def call(client: Client, ask: Ask) -> None:
        try:
            arguments: Any = ask.arguments
            if isinstance(arguments, str):
                arguments = json.loads(arguments)
            result = await client.call_tool(ask.tool, arguments)
            told[ask.call_id] = "".join(getattr(part, "text", "") for part in result.content)
        except (MCPError, BrokerError, ValidationError, ValueError) as error:
            told[ask.call_id] = str(error)

    async with Client(made) as client:
        before(client)
        for turn in turns:
            await asyncio.gather(*(call(client, ask) for ask in turn))
    return Drive(told, SAID)


def one(made: MCPServer[Any], tool: str, **arguments: object) -> str:
    """Call one tool, and return what was answered."""
    return asyncio.run(called(made, [[Ask(tool, arguments, "c1")]])).told["c1"]


# ── what only this SDK has ──


class TestBothEnds(Trials):
    """What is shown, what counts besides tools, and what stands between."""

    @pytest.mark.parametrize("at_server", [True, False])
    def test_what_is_shown_and_handed_out(self, trial: Trial, at_server: bool) -> None:
        """Tools that the ticket never allows are not listed; resources and prompts are calls."""
        made, given = server(trial.stage()), []

        @made.resource("notes://all")
        def notes() -> str:
            given.append("resource")
            return "all notes"

        @made.prompt()
        def ask() -> str:
            given.append("prompt")
            return "a prompt"

        if at_server:
            hold_server(made)

        async def asked() -> list[str]:
            async with Client(made) as client:
                if not at_server:
                    hold_session(client.session)
                for asking in (client.read_resource("notes://all"), client.get_prompt("ask")):
                    with pytest.raises(MCPError, match=r"refused \(tools\)"):
                        await asking
                return sorted(tool.name for tool in (await client.list_tools()).tools)

        assert asyncio.run(asked()) == ["count", "fail", "note", "read"]
        assert given == []
        assert trial.answers() == [("resources/read", "tools"), ("prompts/get", "tools")]

    def test_another_middleware_between(self, trial: Trial) -> None:
        """A middleware that is added after the ticket stops every request, and nothing runs."""

        async def later(context: Any, call_next: Any) -> Any:
            return await call_next(context)

        stage = trial.stage()
        made = server(stage)
        hold_server(made)
        assert one(made, "note", text="x") == "noted 1 letters"
        made.middleware.append(later)
        with pytest.raises((MCPError, ExceptionGroup)):
            one(made, "note", text="y")
        assert stage.ran == [("note", "x")]

    def test_a_refusal_is_an_error_result(self, trial: Trial) -> None:
        """A refused call is a result that is marked as an error, not an error of the protocol."""
        made = server(trial.stage())
        hold_server(made)

        async def asked() -> Any:
            async with Client(made) as client:
                return await client.call_tool("shell", {"command": "id"})

        result = asyncio.run(asked())
        assert result.is_error
        assert result.content[0].text.startswith("refused (tools): ")


@pytest.mark.parametrize("at_server", [True, False])
def test_a_named_server(tmp_path: Path, at_server: bool) -> None:
    """A server with a name has its tools named as scopes name those of servers."""
    with session(["tools=mcp__notes__note"], workspace=tmp_path, environ=os.environ) as held:
        stage = Stage(held, ())
        made = server(stage)
        if at_server:
            hold_server(made, "notes")

        def before(client: Client) -> None:
            if not at_server:
                hold_session(client.session, "notes")

        asks = [Ask("note", {"text": "x"}, "c1"), Ask("shell", {"command": "id"}, "c2")]
        told = asyncio.run(called(made, [asks], before)).told
    assert told["c1"] == "noted 1 letters"
    assert "`mcp__notes__shell` is not in tools" in told["c2"]
    assert stage.ran == [("note", "x")]


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of the SDK runs, and its calls are decided."""
    asks = [[Ask("read", {"path": path}, path)] for path in ("src/a.py", "/etc/hostname")]

    def serve(made: MCPServer[Any]) -> None:
        asyncio.run(called(made, asks))

    names: dict[str, object] = {"serve": serve}
    found = run_section("MCP Python SDK", names, tmp_path)
    assert found == ["read allow", "read allow", "read paths"]
