"""LlamaIndex, driven by the scripted model that it brings along."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("llama_index.core", reason="the framework of this adapter is not installed")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.workflow import Context

from broker.errors import InputError
from broker.frameworks.llama_index import HeldAgentWorkflow, HeldFunctionAgent, HeldReActAgent
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework

Turn = Sequence[Ask] | str


class Script:
    """What a model says, turn for turn, and what it was told of its calls."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.told: dict[str, str] = {}
        self.model = MockFunctionCallingLLM(response_generator=self.say, is_chat_model=True)

    def say(self, messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        """Say the next turn."""
        for message in messages:
            if message.role == MessageRole.TOOL:
                call = message.additional_kwargs.get("tool_call_id", "")
                self.told.setdefault(call, message.content or "")
        turn = self.turns.pop(0) if self.turns else SAID
        if isinstance(turn, str):
            return ChatMessage(role="assistant", blocks=[TextBlock(text=turn)])
        blocks = [
            ToolCallBlock(
                tool_call_id=ask.call_id,
                tool_name=ask.tool,
                tool_kwargs=ask.arguments
                if isinstance(ask.arguments, str)
                else dict(ask.arguments),
            )
            for ask in turn
        ]
        return ChatMessage(role="assistant", blocks=blocks)


class TestLlamaIndex(AdapterSuite):
    """Every case of the suite, with answers at once and streamed."""

    lacks: ClassVar[Mapping[str, str]] = {"sync": "has no way without an event loop"}

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        script = Script(*stage.turns)
        return await driven(agent_of(stage, script, streaming=False), script)

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with streamed answers."""
        script = Script(*stage.turns)
        return await driven(agent_of(stage, script, streaming=True), script)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with the helper inside of a tool of the main agent."""
        helper = stage.helper
        assert helper is not None
        theirs = Script(*helper.turns)
        below = HeldFunctionAgent(
            name=helper.name,
            llm=theirs.model,
            tools=[*stage.tools(*helper.tools)],
            scope=[*helper.texts],
        )

        async def help_out(request: str) -> str:
            """Help."""
            return str(await below.run(request))

        ours = Script([Ask(helper.name, {"request": "go"}, "helper")], *stage.turns)
        tool = FunctionTool.from_defaults(async_fn=help_out, name=helper.name)
        drive = await driven(agent_of(stage, ours, tool), ours)
        return Drive({**drive.told, **theirs.told}, drive.said, drive.error)


# ── how LlamaIndex is driven ──


def agent_of(stage: Stage, script: Script, *more: Any, **named: Any) -> HeldFunctionAgent:
    """Return the main agent of a stage."""
    tools = [*stage.tools(), *more]
    return HeldFunctionAgent(name="main", llm=script.model, tools=tools, **named)


async def driven(agent: Any, script: Script) -> Drive:
    """Run an agent or a workflow to its end, and return what its model was told."""
    handler = agent.run("go")
    try:
        async for _ in handler.stream_events():
            pass
        return Drive(script.told, str(await handler))
    except (ValueError, TypeError, RuntimeError) as error:
        return Drive(script.told, error=error)
    except asyncio.CancelledError:
        await handler.cancel_run()  # a run goes on by itself, and is cancelled by its own word
        raise


# ── what only LlamaIndex has ──


class TestWorkflows(Trials):
    """Whose ticket an agent of a workflow works under."""

    def workflow(
        self, stage: Stage, ours: Script, theirs: Script, **more: Any
    ) -> HeldAgentWorkflow:
        """Return a workflow of two agents, of which the second is a plain one."""
        about = {"description": "It helps."}
        main = FunctionAgent(name="main", llm=ours.model, tools=[*stage.tools()], **about)
        tools = [*stage.tools("read", "note")]
        helper = FunctionAgent(name="helper", llm=theirs.model, tools=tools, **about)
        return HeldAgentWorkflow([main, helper], root_agent="main", **more)

    def test_a_handoff_narrows(self, trial: Trial) -> None:
        """An agent that was handed to holds its own tools, and what its scope says of it."""
        ours = Script([Ask("handoff", {"to_agent": "helper", "reason": "x"}, "t1")])
        theirs = Script([Ask("read", {"path": "src/a.py"}, "h1"), Ask("note", {"text": "x"}, "h2")])
        stage = trial.stage()
        flow = self.workflow(stage, ours, theirs, scopes={"helper": ["tools=read"]})
        asyncio.run(driven(flow, theirs))
        assert stage.ran == [("read", "src/a.py")]
        assert "`note` is not in tools: read" in theirs.told["h2"]
        (handed,) = trial.entries("delegate")
        assert handed["caveats"] == ["tools=note,read", "tools=read"]
        assert {d["ticket"] for d in trial.entries("decision")} == {handed["ticket"]}

    def test_back_and_forth(self, trial: Trial) -> None:
        """Handing back returns to the first agent's ticket, and again to the same one."""
        there = [Ask("handoff", {"to_agent": "helper", "reason": "x"}, "t1")]
        back = [Ask("handoff", {"to_agent": "main", "reason": "x"}, "t2")]
        ours = Script(there, [Ask("note", {"text": "mine"}, "c1")], there)
        theirs = Script(
            [Ask("note", {"text": "x"}, "h1")], back, [Ask("note", {"text": "x"}, "h2")]
        )
        stage = trial.stage()
        flow = self.workflow(stage, ours, theirs, scopes={"helper": ["tools=read"]})
        asyncio.run(driven(flow, ours))
        assert stage.ran == [("note", "mine")]
        assert len(trial.entries("delegate")) == 1


class TestTools(Trials):
    """Every kind of tool asks first."""

    def test_a_tool_with_a_context(self, trial: Trial) -> None:
        """A tool gets the context that LlamaIndex adds, which is no argument of the model's."""
        seen: list[object] = []

        async def note(ctx: Context, text: str) -> str:
            """Write a note."""
            seen.append((await ctx.store.get("nothing", default="kept"), text))
            return "noted"

        note.__annotations__ = {"ctx": Context, "text": str, "return": str}  # no texts, as here
        script = Script([Ask("note", {"text": "x"}, "c1")])
        agent = HeldFunctionAgent(name="main", llm=script.model, tools=[note])
        asyncio.run(driven(agent, script))
        assert seen == [("kept", "x")]
        assert script.told["c1"] == "noted"
        assert trial.answers() == [("note", "allow")]

    def test_a_tool_of_another_kind(self, trial: Trial) -> None:
        """A tool that is no function is held as well, sync and async."""

        class Reader(AsyncBaseTool):
            """A tool of its own kind."""

            @property
            def metadata(self) -> ToolMetadata:
                """What the model is told."""
                return ToolMetadata("Read a file.", name="read")

            def call(self, path: str) -> ToolOutput:
                """Read."""
                return ToolOutput(content=path, tool_name="read", raw_input={}, raw_output=path)

            async def acall(self, path: str) -> ToolOutput:
                """Read."""
                return self.call(path)

        script = Script([Ask("read", {"path": "/etc/hostname"}, "c1")])
        agent = HeldFunctionAgent(name="main", llm=script.model, tools=[Reader()])
        asyncio.run(driven(agent, script))
        assert "is not within paths" in script.told["c1"]
        (tool,) = asyncio.run(agent.get_tools())
        assert "is not within paths" in tool.call(path="/etc/hostname").content
        assert tool.call(path="src/a.py").content == "src/a.py"
        assert tool.call("src/a.py").is_error
        assert [answer for _, answer in trial.answers()] == ["paths", "paths", "allow", "call"]

    def test_a_model_that_writes_text(self, trial: Trial) -> None:
        """A model that writes its calls as text is held as well."""
        stage = trial.stage()
        says = [
            'Thought: read\nAction: read\nAction Input: {"path": "/etc/hostname"}',
            'Thought: read\nAction: read\nAction Input: {"path": "src/a.py"}',
            f"Thought: I can answer without using any more tools.\nAnswer: {SAID}",
        ]
        script = Script(*says)
        agent = HeldReActAgent(name="main", llm=script.model, tools=[*stage.tools()])
        drive = asyncio.run(driven(agent, script))
        assert SAID in drive.said
        assert stage.ran == [("read", "src/a.py")]
        assert trial.answers() == [("read", "paths"), ("read", "allow")]

    def test_a_scope_of_its_own(self, trial: Trial) -> None:
        """An agent's own scope narrows it where nobody else runs it."""
        stage = trial.stage()
        script = Script([Ask("note", {"text": "x"}, "c1")])
        asyncio.run(driven(agent_of(stage, script, scope=["tools=read"]), script))
        assert stage.ran == []
        assert "`note` is not in tools: read" in script.told["c1"]

    def test_no_block(self) -> None:
        """Outside of a block nothing runs, and the one who wrote the code is told."""
        stage = Stage(None, ())  # type: ignore[arg-type]  # there is no ticket at all
        script = Script([Ask("note", {"text": "x"}, "c1")])
        with pytest.raises(InputError, match="no session is open here"):
            asyncio.run(_whole(agent_of(stage, script)))
        assert stage.ran == []


async def _whole(agent: HeldFunctionAgent) -> object:
    return await agent.run("go")


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of this framework runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": Script(asks).model}
    found = run_section("LlamaIndex", names, tmp_path)
    assert sorted(found) == ["read allow", "read paths"]
