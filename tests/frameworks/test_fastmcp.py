"""FastMCP's servers, called by its own client in the same process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("fastmcp", reason="the framework of this adapter is not installed")

from fastmcp import Client, FastMCP
from fastmcp.exceptions import FastMCPError
from fastmcp.server.middleware import Middleware
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from broker.frameworks.fastmcp import ServerTicket
from broker.frameworks.holding import session
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework


class TestFastMCP(AdapterSuite):
    """Every case of the suite, with a client in the place of the model."""

    lacks: ClassVar[Mapping[str, str]] = {
        "sync": "serves in an event loop only",
        "stream": "has no model whose answers it could stream",
    }

    async def drive(self, stage: Stage) -> Drive:
        """Have a client make the calls of each turn at once."""
        return await called(server(stage), stage.turns)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Call a tool of the main server, behind which is a narrower one."""
        helper = stage.helper
        assert helper is not None
        ticket = ServerTicket(scope=helper.texts, agent=helper.name)
        below = server(stage, ticket, tools=stage.tools(*helper.tools))
        told: dict[str, str] = {}

        async def ask_helper(task: str) -> str:
            """Help."""
            found = await called(below, helper.turns)
            told.update(found.told)
            return task

        ask_helper.__name__ = "helper"
        main = server(stage, tools=[*stage.tools(), ask_helper])
        turns = ((Ask("helper", {"task": "go"}, "helper"),), *stage.turns)
        drive = await called(main, turns)
        return Drive({**drive.told, **told}, drive.said)


# ── how the framework is driven ──


def server(stage: Stage, *middleware: Middleware, tools: Any = None) -> FastMCP:
    """Return a server with the stage's tools, held."""
    made: FastMCP = FastMCP("stage", middleware=[*(middleware or [ServerTicket()])])
    for tool in stage.tools() if tools is None else tools:
        made.tool(tool)
    return made


async def called(made: FastMCP, turns: Any) -> Drive:
    """Make the calls of each turn at once, and return what each was answered."""
    told: dict[str, str] = {}

    async def call(client: Client[Any], ask: Ask) -> None:
        try:
            arguments: Any = ask.arguments
            if isinstance(arguments, str):
                arguments = json.loads(arguments)
            result = await client.call_tool_mcp(ask.tool, arguments)
            told[ask.call_id] = "".join(getattr(part, "text", "") for part in result.content)
        except (FastMCPError, MCPError, ValidationError, ValueError) as error:
            told[ask.call_id] = str(error)

    async with Client(made) as client:
        for turn in turns:
            await asyncio.gather(*(call(client, ask) for ask in turn))
    return Drive(told, SAID)


def one(made: FastMCP, tool: str, **arguments: object) -> str:
    """Call one tool, and return what was answered."""
    return asyncio.run(called(made, [[Ask(tool, arguments, "c1")]])).told["c1"]


# ── what only this framework has ──


class Changes(Middleware):
    """Sends every call elsewhere."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        """Change the path."""
        changed = context.message.model_copy(update={"arguments": {"path": "/etc/hostname"}})
        return await call_next(context.copy(message=changed))


class TestServer(Trials):
    """What a server shows, hands out, and has between the ticket and its tools."""

    def test_a_client_is_shown_what_could_be_allowed(self, trial: Trial) -> None:
        """Tools that the ticket never allows are not in the list, and are refused all the same."""
        made = server(trial.stage())

        async def shown() -> list[str]:
            async with Client(made) as client:
                return sorted(tool.name for tool in await client.list_tools())

        assert asyncio.run(shown()) == ["count", "fail", "note", "read"]
        assert one(made, "shell", command="id").startswith("refused (tools): ")

    def test_another_middleware_between(
        self, trial: Trial, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A middleware that could change a decided call stops it; before the ticket it may be."""
        stage = trial.stage()
        after = server(stage, ServerTicket(), Changes())
        assert "Internal server error" in one(after, "read", path="src/a.py")
        assert "the middleware `Changes` stands between" in caplog.text
        before = server(stage, Changes(), ServerTicket())
        assert "is not within paths" in one(before, "read", path="src/a.py")
        assert stage.ran == []
        assert trial.answers() == [("read", "paths")]

    def test_resources_and_prompts(self, trial: Trial) -> None:
        """What a server hands out counts as a call, and is refused where the scope is silent."""
        made = server(trial.stage())
        given = []

        @made.resource("notes://all")
        def notes() -> str:
            given.append("resource")
            return "all notes"

        @made.prompt
        def ask() -> str:
            given.append("prompt")
            return "a prompt"

        async def both() -> list[str]:
            said = []
            async with Client(made) as client:
                for asking in (client.read_resource("notes://all"), client.get_prompt("ask")):
                    with pytest.raises(Exception, match=r"refused \(tools\)") as refused:
                        await asking
                    said.append(str(refused.value))
            return said

        assert len(asyncio.run(both())) == 2
        assert given == []
        assert trial.answers() == [("resources/read", "tools"), ("prompts/get", "tools")]

    def test_no_block(self, caplog: pytest.LogCaptureFixture) -> None:
        """Outside of a block nothing runs, and the server's log says why."""
        stage = Stage(None, ())  # type: ignore[arg-type]  # there is no ticket at all
        assert "Internal server error" in one(server(stage), "note", text="x")
        assert "no session is open here" in caplog.text
        assert stage.ran == []


def test_a_named_server(tmp_path: Path) -> None:
    """A server with a name has its tools named as scopes name those of servers."""
    with session(["tools=mcp__notes__note"], workspace=tmp_path, environ=os.environ) as held:
        stage = Stage(held, ())
        made = server(stage, ServerTicket("notes"))
        assert one(made, "note", text="x") == "noted 1 letters"
        assert "`mcp__notes__shell` is not in tools" in one(made, "shell", command="id")
        assert "`note` is not in tools" in one(server(stage), "note", text="x")
    assert stage.ran == [("note", "x")]


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of FastMCP runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]

    def serve(made: FastMCP) -> None:
        asyncio.run(called(made, [[ask] for ask in asks]))

    names: dict[str, object] = {"serve": serve}
    assert run_section("FastMCP", names, tmp_path) == ["read allow", "read paths"]
