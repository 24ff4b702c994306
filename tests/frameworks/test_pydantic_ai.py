"""Pydantic AI's agents, with the model of its own that a function answers for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the framework of this adapter is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResultEvent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.native_tools import WebSearchTool

from broker.errors import BrokerError, InputError
from broker.frameworks.pydantic_ai import TicketCapability
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework


class TestPydanticAI(AdapterSuite):
    """Every case of the suite, by ``run``, ``run_sync`` and the stream of events."""

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        script = Script(stage.turns)
        return await ended(agent(stage, script).run("go"), script)

    def drive_sync(self, stage: Stage) -> Drive:
        """Run without one."""
        script = Script(stage.turns)
        done = agent(stage, script).run_sync("go")
        return Drive(script.told, done.output)

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with answers streamed."""
        script = Script(stage.turns)
        said = ""
        async with agent(stage, script).run_stream_events("go") as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    said = event.result.output
        assert script.streamed
        return Drive(script.told, said)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with another agent behind a tool of the main one."""
        helper = stage.helper
        assert helper is not None
        theirs = Script(helper.turns)
        below = Agent(
            theirs.model(),
            tools=stage.tools(*helper.tools),
            capabilities=[TicketCapability(helper.texts, agent=helper.name)],
        )

        async def ask_helper(task: str) -> str:
            """Help."""
            return str((await below.run(task)).output)

        ask_helper.__name__ = "helper"
        ours = Script(((Ask("helper", {"task": "go"}, "helper"),), *stage.turns))
        drive = await ended(agent(stage, ours, ask_helper).run("go"), ours)
        return Drive({**drive.told, **theirs.told}, drive.said, drive.error)


# ── how the framework is driven ──


class Script:
    """What a model says, turn by turn, and what it was told."""

    def __init__(self, turns: Sequence[Sequence[Ask]]) -> None:
        self.turns = [*turns]
        self.told: dict[str, str] = {}
        self.streamed = False

    def model(self) -> FunctionModel:
        """Return the model that follows this script."""
        return FunctionModel(self.answer, stream_function=self.stream)

    def turn(self, messages: list[ModelMessage]) -> Sequence[Ask]:
        """Return the next turn, and keep what the model is told before it."""
        for part in (p for m in messages if isinstance(m, ModelRequest) for p in m.parts):
            if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_call_id:
                self.told[part.tool_call_id] = str(part.content)
        at = sum(isinstance(m, ModelResponse) for m in messages)
        return self.turns[at] if at < len(self.turns) else ()

    def answer(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        """Answer at once."""
        asks = self.turn(messages)
        calls = [ToolCallPart(a.tool, text_of(a), tool_call_id=a.call_id) for a in asks]
        return ModelResponse(parts=[*calls] or [TextPart(SAID)])

    async def stream(self, messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        """Answer in pieces."""
        self.streamed = True
        asks = self.turn(messages)
        for n, ask in enumerate(asks):
            text = text_of(ask)
            yield {n: DeltaToolCall(ask.tool, text[:5], tool_call_id=ask.call_id)}
            yield {n: DeltaToolCall(json_args=text[5:])}
        if not asks:
            yield SAID


def text_of(ask: Ask) -> str:
    """Return a call's arguments as text."""
    return ask.arguments if isinstance(ask.arguments, str) else json.dumps(ask.arguments)


def agent(stage: Stage, script: Script, *more: Any, **named: Any) -> Agent[None, str]:
    """Return the agent of a stage, held."""
    tools = [*stage.tools(), *more]
    return Agent(script.model(), tools=tools, **{"capabilities": [TicketCapability()], **named})


async def ended(run: Any, script: Script) -> Drive:
    """Return what came of a run, also where it ends by an error."""
    try:
        done = await run
    except (AgentRunError, BrokerError, RuntimeError) as error:
        return Drive(script.told, error=error)
    return Drive(script.told, str(done.output))


# ── what only this framework has ──


class Where(BaseModel):
    """A place."""

    path: str


class Changes(AbstractCapability[Any]):
    """Sends every call elsewhere."""

    async def before_tool_execute(self, ctx: Any, **given: Any) -> Any:
        """Change the path."""
        return {**given["args"], "path": "/etc/hostname"}


class TestCapability(Trials):
    """Where the capability stands, and what it does not hold."""

    @pytest.mark.parametrize("first", [True, False])
    def test_what_others_change(self, trial: Trial, first: bool) -> None:
        """A call that another capability changes is decided as it was changed, in any order."""
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        both = [TicketCapability(), Changes()]
        script = Script(stage.turns)
        agent(stage, script, capabilities=both if first else both[::-1]).run_sync("go")
        assert stage.ran == []
        assert trial.answers() == [("read", "paths")]
        assert "is not within paths" in script.told["c1"]

    def test_many_refusals_cost_no_retry(self, trial: Trial) -> None:
        """A model that is refused again and again goes on; the framework does not give up."""
        asks = [[Ask("shell", {"command": "id"}, f"c{n}")] for n in range(6)]
        stage = trial.stage(*asks)
        script = Script(stage.turns)
        assert agent(stage, script).run_sync("go").output == SAID
        assert len(script.told) == 6

    def test_values_of_other_types(self, trial: Trial) -> None:
        """A model or a date is decided as it is written in JSON, and the tool gets it as it is."""

        got: list[object] = []

        def note(where: Where, day: date) -> str:
            """Take a note."""
            got.extend([where, day])
            return "noted"

        asks = [
            Ask("note", {"where": {"path": path}, "day": "2026-11-30"}, path)
            for path in ("src/a.py", "/etc/hostname")
        ]
        script = Script([asks])
        Agent(script.model(), tools=[note], capabilities=[TicketCapability()]).run_sync("go")
        assert got == [Where(path="src/a.py"), date(2026, 11, 30)]
        assert sorted(trial.answers()) == [("note", "allow"), ("note", "paths")]

    def test_a_tool_of_the_provider(self, trial: Trial) -> None:
        """An agent with a tool that its provider runs does not run, and the tool is named."""

        class Searches(AbstractCapability[Any]):
            """Brings one along."""

            def get_native_tools(self) -> list[Any]:
                """Return it."""
                return [WebSearchTool()]

        stage = trial.stage()
        script = Script(())
        with pytest.raises(InputError, match="`web_search` is run by the model's provider"):
            agent(stage, script, capabilities=[Searches(), TicketCapability()]).run_sync("go")

    def test_no_block(self) -> None:
        """Outside of a block nothing runs, and the one who wrote the code is told."""
        stage = Stage(None, ((Ask("note", {"text": "x"}, "c1"),),))  # type: ignore[arg-type]  # none
        with pytest.raises(InputError, match="no session is open here"):
            agent(stage, Script(stage.turns)).run_sync("go")
        assert stage.ran == []


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of Pydantic AI runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": Script([asks]).model()}
    assert run_section("Pydantic AI", names, tmp_path) == ["read allow", "read paths"]
