"""Google ADK, driven by a scripted model of its own kind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("google.adk", reason="the framework of this adapter is not installed")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool, ToolContext, google_search
from google.genai import types
from pydantic import Field, PrivateAttr

from broker.errors import InputError
from broker.frameworks.google_adk import HeldPlugin
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework


class Scripted(BaseLlm):
    """A model that says these turns, and then that it has ended."""

    model: str = "scripted"
    turns: list[list[Any]] = Field(default_factory=list)
    _said: int = PrivateAttr(0)
    _told: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def told(self) -> dict[str, str]:
        """The text of each result that went to the model, by call id."""
        return self._told

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Say the next turn."""
        for content in llm_request.contents:
            for part in content.parts or ():
                found = part.function_response
                if found is not None and found.id:
                    self._told.setdefault(found.id, json.dumps(found.response, default=str))
        turn = self.turns[self._said] if self._said < len(self.turns) else [SAID]
        self._said += 1
        parts = [part_of(said) for said in turn]
        if stream:
            words = types.Part(text="so ")
            yield LlmResponse(content=types.Content(role="model", parts=[words]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def part_of(said: Ask | str) -> types.Part:
    """Return what a model says as a part; arguments that it could not spell become words."""
    if isinstance(said, str):
        return types.Part(text=said)
    given = said.arguments
    try:
        given = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return types.Part(text="a call that is no object")
    call = types.FunctionCall(id=said.call_id, name=said.tool, args=dict(given))
    return types.Part(function_call=call)


class TestGoogleADK(AdapterSuite):
    """Every case of the suite, by ``run_async``, ``run`` and server-sent events."""

    lacks: ClassVar[Mapping[str, str]] = {}

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        return await driven(agent_of(stage))

    def drive_sync(self, stage: Stage) -> Drive:
        """Run without one."""
        agent = agent_of(stage)
        runner = runner_of(agent)
        session = asyncio.run(
            runner.session_service.create_session(app_name=runner.app_name, user_id="u")
        )
        events = runner.run(user_id="u", session_id=session.id, new_message=GO)
        said = "".join(words(event) for event in events)
        return Drive(told(agent), said)

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with streamed answers."""
        return await driven(agent_of(stage), config=RunConfig(streaming_mode=StreamingMode.SSE))

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with the helper as a tool of the main agent."""
        helper = stage.helper
        assert helper is not None
        theirs = Scripted(turns=[[*turn] for turn in helper.turns])
        tools = [*stage.tools(*helper.tools)]
        below = LlmAgent(name=helper.name, model=theirs, tools=tools)
        main = agent_of(stage, AgentTool(below))
        assert isinstance(main.model, Scripted)
        main.model.turns.insert(0, [Ask(helper.name, {"request": "go"}, "helper")])
        drive = await driven(main, scopes={helper.name: helper.texts})
        return Drive({**drive.told, **theirs.told}, drive.said, drive.error)


# ── how ADK is driven ──

GO = types.Content(role="user", parts=[types.Part(text="go")])


def agent_of(stage: Stage, *more: Any, **named: Any) -> LlmAgent:
    """Return the main agent of a stage."""
    model = Scripted(turns=[[*turn] for turn in stage.turns])
    return LlmAgent(name="main", model=model, tools=[*stage.tools(), *more], **named)


def runner_of(agent: LlmAgent, *plugins: BasePlugin, **more: Any) -> InMemoryRunner:
    """Return a runner whose agents are held to the ticket of the block around this code."""
    return InMemoryRunner(agent, app_name="suite", plugins=[HeldPlugin(**more), *plugins])


async def driven(
    agent: LlmAgent,
    *plugins: BasePlugin,
    config: RunConfig | None = None,
    scopes: Mapping[str, Sequence[str]] | None = None,
) -> Drive:
    """Run an agent to its end, and return what its model was told."""
    runner = runner_of(agent, *plugins, scopes=scopes)
    session = await runner.session_service.create_session(app_name="suite", user_id="u")
    said, failed = "", None
    asked = {"user_id": "u", "session_id": session.id, "new_message": GO, "run_config": config}
    try:
        async for event in runner.run_async(**asked):  # type: ignore[arg-type]  # one table for all
            said += words(event)
    except (RuntimeError, ValueError) as error:
        failed = error
    return Drive(told(agent), said, failed)


def words(event: Any) -> str:
    """Return the text of an event."""
    parts = event.content.parts if event.content is not None else None
    return "".join(part.text or "" for part in parts or ())


def told(agent: LlmAgent) -> dict[str, str]:
    """Return what the model of an agent was told."""
    assert isinstance(agent.model, Scripted)
    return agent.model.told


# ── what only ADK has ──


class TestArgumentsThatChange(Trials):
    """What was decided is what runs, whatever comes between."""

    @pytest.mark.parametrize(
        ("path", "answer"), [("src/a.py", "allow"), ("/etc/hostname", "paths")]
    )
    def test_by_a_callback(self, trial: Trial, path: str, answer: str) -> None:
        """Arguments that the agent's own callback changes are decided anew."""

        def changes(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
            args["path"] = path

        stage = trial.stage([Ask("read", {"path": "src/b.py"}, "c1")])
        drive = asyncio.run(driven(agent_of(stage, before_tool_callback=changes)))
        assert trial.answers() == [("read", "allow"), ("read", answer)]
        assert stage.ran == ([("read", path)] if answer == "allow" else [])
        assert answer == "allow" or "is not within paths" in drive.told["c1"]

    def test_by_another_plugin(self, trial: Trial) -> None:
        """So are those that another plugin changes."""

        class Changes(BasePlugin):
            """One that sends every reader elsewhere."""

            async def before_tool_callback(self, *, tool_args: Any, **_: Any) -> None:
                """Change the arguments."""
                tool_args["path"] = "/etc/hostname"

        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        asyncio.run(driven(agent_of(stage), Changes("changes")))
        assert stage.ran == []

    def test_a_person_is_asked_after_the_ticket(self, trial: Trial) -> None:
        """A tool that wants a confirmation is not asked about where the ticket refuses it."""
        stage = trial.stage([Ask("shell", {"command": "id"}, "c1")])
        (shell,) = stage.tools("shell")
        agent = agent_of(stage)
        agent.tools = [FunctionTool(shell, require_confirmation=True)]
        drive = asyncio.run(driven(agent))
        assert "`shell` is not in tools" in drive.told["c1"]


class TestTransfers(Trials):
    """Whose ticket an agent works under that another one transferred to."""

    def test_a_transfer_narrows(self, trial: Trial) -> None:
        """An agent below the first one holds its own tools, and what its scope says of it."""
        own = [[Ask("read", {"path": "src/a.py"}, "h1"), Ask("note", {"text": "x"}, "h2")]]
        stage = trial.stage([Ask("transfer_to_agent", {"agent_name": "helper"}, "t1")])
        model = Scripted(turns=own)
        helper = LlmAgent(name="helper", model=model, tools=[*stage.tools("read", "note")])
        main = agent_of(stage, sub_agents=[helper])
        asyncio.run(driven(main, scopes={"helper": ["tools=read"]}))
        assert stage.ran == [("read", "src/a.py")]
        assert "`note` is not in tools: read" in model.told["h2"]
        (handed,) = trial.entries("delegate")
        assert handed["caveats"] == ["tools=note,read", "tools=read"]
        assert {d["ticket"] for d in trial.entries("decision")} == {handed["ticket"]}

    def test_back_and_forth(self, trial: Trial) -> None:
        """Transferring back returns to the first agent's ticket, and again to the same one."""
        stage = trial.stage(
            [Ask("transfer_to_agent", {"agent_name": "helper"}, "t1")],
            [Ask("note", {"text": "mine"}, "c1")],
            [Ask("transfer_to_agent", {"agent_name": "helper"}, "t3")],
        )
        note = Ask("note", {"text": "theirs"}, "h1")
        back = Ask("transfer_to_agent", {"agent_name": "main"}, "t2")
        model = Scripted(turns=[[note], [back], [note]])
        helper = LlmAgent(name="helper", model=model, tools=[*stage.tools("read", "note")])
        main = agent_of(stage, sub_agents=[helper])
        asyncio.run(driven(main, scopes={"helper": ["tools=read"]}))
        assert stage.ran == [("note", "mine")]
        assert len(trial.entries("delegate")) == 1


class TestWhatCannotBeHeld(Trials):
    """What runs past a plugin does not run at all."""

    def test_a_hosted_tool(self, trial: Trial) -> None:
        """An agent with a tool that runs at the provider does not run, and the tool is named."""
        main = agent_of(trial.stage())
        main.tools = [google_search]
        assert isinstance(main.model, Scripted)
        main.model.model = "gemini-2.5-flash"
        drive = asyncio.run(driven(main))
        assert "`google_search` runs where it cannot be stopped" in str(drive.error)

    def test_code_that_a_model_writes(self, trial: Trial) -> None:
        """An agent that runs its model's code does not run."""
        main = agent_of(trial.stage(), code_executor=UnsafeLocalCodeExecutor())
        drive = asyncio.run(driven(main))
        assert "leave out its `code_executor`" in str(drive.error)
        assert told(main) == {}

    def test_an_agent_without_plugins(self, trial: Trial) -> None:
        """An agent behind a tool that leaves plugins out is refused."""
        stage = trial.stage([Ask("helper", {"request": "go"}, "c1")])
        model = Scripted(turns=[[Ask("read", {"path": "src/a.py"}, "h1")]])
        helper = LlmAgent(name="helper", model=model, tools=[*stage.tools("read")])
        drive = asyncio.run(driven(agent_of(stage, AgentTool(helper, include_plugins=False))))
        assert "runs without plugins" in drive.told["c1"]
        assert stage.ran == []

    def test_no_block(self) -> None:
        """Outside of a block there is no plugin."""
        with pytest.raises(InputError, match="no session is open here"):
            HeldPlugin()

    def test_a_runner_without_us(self, trial: Trial) -> None:
        """A tool that was held once runs as it did in a runner that holds nothing."""
        stage = trial.stage([Ask("shell", {"command": "id"}, "c1")])
        (shell,) = stage.tools("shell")
        tool = FunctionTool(shell)
        agent = agent_of(stage)
        agent.tools = [tool]
        asyncio.run(driven(agent))
        assert stage.ran == []
        assert asyncio.run(_alone(tool)) == "it was only pretended"


async def _alone(tool: FunctionTool) -> Any:
    context: Any = object.__new__(ToolContext)
    return await tool.run_async(args={"command": "id"}, tool_context=context)


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of this framework runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": Scripted(turns=[asks])}
    assert run_section("Google ADK", names, tmp_path) == ["read allow", "read paths"]
