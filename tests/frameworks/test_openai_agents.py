"""The OpenAI Agents SDK, driven by the scripted model that it brings along."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the framework of this adapter is not installed")

from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    Runner,
    WebSearchTool,
    function_tool,
)
from agents.exceptions import AgentsException
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp import types

from broker.errors import BrokerError, InputError
from broker.frameworks.holding import session
from broker.frameworks.openai_agents import HeldAgent, hold
from broker.testing.frameworks import AdapterSuite, Trial, Trials
from broker.testing.stage import SAID, Ask, Drive, Stage
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework

QUIET = RunConfig(tracing_disabled=True)


class TestOpenAIAgents(AdapterSuite):
    """Every case of the suite, by ``Runner.run``, ``run_sync`` and ``run_streamed``."""

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        model = scripted(stage.turns)
        return await ended(Runner.run(agent(stage, model), "go", run_config=QUIET), model)

    def drive_sync(self, stage: Stage) -> Drive:
        """Run without one."""
        model = scripted(stage.turns)
        done = Runner.run_sync(agent(stage, model), "go", run_config=QUIET)
        return Drive(told(model), str(done.final_output))

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with streamed answers."""
        model = scripted(stage.turns)
        run = Runner.run_streamed(agent(stage, model), "go", run_config=QUIET)
        async for _ in run.stream_events():
            pass
        return Drive(told(model), str(run.final_output))

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with the helper as a tool of the main agent."""
        assert stage.helper is not None
        theirs = scripted(stage.helper.turns)
        helper = hold(helper_of(stage, theirs), scope=stage.helper.texts)
        ours = scripted(((Ask("helper", {"input": "go"}, "helper"),), *stage.turns))
        main = agent(stage, ours, helper.as_tool("helper", "Helps."))
        drive = await ended(Runner.run(main, "go", run_config=QUIET), ours)
        return Drive({**drive.told, **told(theirs)}, drive.said, drive.error)


# ── how the SDK is driven ──


def scripted(turns: Sequence[Sequence[Ask]]) -> ScriptedModel:
    """Return a model that says these turns, and then that it has ended."""
    steps = [
        [function_call(ask.tool, ask.arguments, call_id=ask.call_id) for ask in turn]
        for turn in turns
    ]
    return ScriptedModel([*steps, [assistant_message(SAID)]])


def agent(stage: Stage, model: ScriptedModel, *more: FunctionTool) -> HeldAgent:
    """Return the main agent of a stage, held."""
    tools = [*map(function_tool, stage.tools()), *more]
    return hold(Agent("main", tools=tools, model=model))


def helper_of(stage: Stage, model: ScriptedModel) -> Agent[None]:
    """Return the helper of a stage, not held yet."""
    assert stage.helper is not None
    tools = [function_tool(tool) for tool in stage.tools(*stage.helper.tools)]
    return Agent("helper", tools=tools, model=model)


def told(model: ScriptedModel) -> dict[str, str]:
    """Return the text of each result that went to a model, by call id."""
    items = [item for call in model.calls if isinstance(call.input, list) for item in call.input]
    outputs = [item for item in items if item.get("type") == "function_call_output"]
    return {item["call_id"]: str(item["output"]) for item in outputs}


async def ended(run: Awaitable[Any], model: ScriptedModel) -> Drive:
    """Return what came of a run, also where the SDK ends it by an exception of its own."""
    try:
        done = await run
    except (AgentsException, BrokerError) as error:
        return Drive(told(model), error=error)
    return Drive(told(model), str(done.final_output))


def run(main: Agent[Any]) -> Any:
    """Run an agent to its end."""
    return asyncio.run(Runner.run(main, "go", run_config=QUIET))


# ── what only this SDK has ──


class TestHandoffs(Trials):
    """Whose ticket an agent works under that a handoff went to."""

    def test_a_handoff_narrows(self, trial: Trial) -> None:
        """The receiver holds what its scope says, and no tools but those that it can reach."""
        reads = [[Ask("read", {"path": "src/a.py"}, "h1"), Ask("note", {"text": "x"}, "h2")]]
        stage = trial.stage()
        theirs = scripted(reads)
        helper = Agent("helper", tools=[*map(function_tool, stage.tools())], model=theirs)
        ours = scripted([[Ask("transfer_to_helper", {}, "t1")]])
        main = hold(Agent("main", model=ours, handoffs=[hold(helper, scope=["tools=read"])]))
        done = run(main)
        assert done.last_agent.name == "helper"
        assert stage.ran == [("read", "src/a.py")]
        assert "`note` is not in tools: read" in told(theirs)["h2"]
        (handed,) = trial.entries("delegate")
        assert handed["asked_by"] == "main"
        assert {d["ticket"] for d in trial.entries("decision")} == {handed["ticket"]}

    def test_back_and_forth(self, trial: Trial) -> None:
        """Handing back returns to the first agent's own ticket; going again makes no new one."""
        stage = trial.stage()
        tools = [*map(function_tool, stage.tools("note", "read"))]
        note = {"text": "n"}
        theirs = ScriptedModel(
            [
                [function_call("note", note, call_id="h1")],
                [function_call("transfer_to_main", {}, call_id="t2")],
                [function_call("note", note, call_id="h2")],
                [assistant_message(SAID)],
            ]
        )
        ours = scripted(
            [
                [Ask("transfer_to_helper", {}, "t1")],
                [Ask("note", {"text": "mine"}, "c1")],
                [Ask("transfer_to_helper", {}, "t3")],
            ]
        )
        main = Agent("main", tools=tools, model=ours)
        helper = Agent("helper", tools=tools[1:], model=theirs, handoffs=[main])
        main.handoffs.append(hold(helper, scope=["tools=read"]))
        run(hold(main))
        assert stage.ran == [("note", "mine")]
        assert len(trial.entries("delegate")) == 1

    def test_the_tools_of_whom_it_can_reach(self, trial: Trial) -> None:
        """A plain agent's own list of tools is folded into its ticket, with those behind it."""
        stage = trial.stage()
        far = Agent("far", tools=[*map(function_tool, stage.tools("count"))])
        near = Agent(
            "near",
            tools=[*map(function_tool, stage.tools("note"))],
            model=scripted([[Ask("note", {"text": "x"}, "h1")]]),
            handoffs=[far],
        )
        ours = scripted([[Ask("transfer_to_near", {}, "t1")]])
        run(hold(Agent("main", model=ours, handoffs=[near])))
        (handed,) = trial.entries("delegate")
        assert handed["caveats"] == ["tools=count,note"]
        assert stage.ran == [("note", "x")]


class TestApprovals(Trials):
    """What a person approves is decided all the same."""

    def test_a_call_that_a_person_approves(self, trial: Trial) -> None:
        """The ticket is asked once the person has approved, and not where they have not."""
        stage = trial.stage()
        asks = [Ask("note", {"text": "a"}, "c1"), Ask("note", {"text": "b"}, "c2")]
        outside = [Ask("read", {"path": "/etc/hostname"}, "c3")]
        model = scripted([[*asks, *outside]])
        tools = [function_tool(t, needs_approval=True) for t in stage.tools()]
        main = hold(Agent("main", tools=tools, model=model))

        async def both() -> None:
            done = await Runner.run(main, "go", run_config=QUIET)
            assert trial.answers() == []
            state = done.to_state()
            for item in done.interruptions:
                if item.raw_item.call_id == "c2":
                    state.reject(item)
                else:
                    state.approve(item)
            await Runner.run(main, state, run_config=QUIET)

        asyncio.run(both())
        assert stage.ran == [("note", "a")]
        assert sorted(trial.answers()) == [("note", "allow"), ("read", "paths")]
        assert "is not within paths" in told(model)["c3"]


class Notes(MCPServer):
    """A server of notes, in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    @property
    def name(self) -> str:
        """The server's name."""
        return "notes"

    async def connect(self) -> None:
        """Be there already."""

    async def cleanup(self) -> None:
        """Leave nothing."""

    async def list_tools(self, *_: Any, **__: Any) -> Any:
        """List two tools."""
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        told = [{"name": n, "inputSchema": schema} for n in ("look", "drop")]
        return [types.Tool.model_validate(each) for each in told]

    async def call_tool(self, tool_name: str, *_: Any, **__: Any) -> Any:
        """Run one."""
        self.ran.append(tool_name)
        return types.CallToolResult(content=[])

    async def list_prompts(self) -> Any:
        """Have none."""
        return types.ListPromptsResult(prompts=[])

    async def get_prompt(self, *_: Any, **__: Any) -> Any:
        """Have none."""
        raise KeyError("no prompt")


class TestWhatCannotBeHeld(Trials):
    """What runs past the adapter does not run at all."""

    def test_a_hosted_tool(self, trial: Trial) -> None:
        """An agent with a tool that runs at the provider does not run, and the tool is named."""
        model = scripted([])
        main = hold(Agent("main", tools=[WebSearchTool()], model=model))
        with pytest.raises(InputError, match=r"`web_search.*` of agent `main` runs where"):
            run(main)
        assert model.calls == ()

    def test_an_agent_as_a_tool_that_is_not_held(self, trial: Trial) -> None:
        """An agent behind a tool brings its own tools, so it has to be held as well."""
        inside = Agent("inside", tools=[*map(function_tool, trial.stage().tools())])
        main = hold(Agent("main", tools=[inside.as_tool("inside", "Helps.")], model=scripted([])))
        with pytest.raises(InputError, match="make the tool of it by"):
            run(main)

    def test_a_tool_that_is_added_later(self, trial: Trial) -> None:
        """A tool that is added after the agent was held is held too."""
        stage = trial.stage()
        model = scripted([[Ask("shell", {"command": "id"}, "c1")]])
        plain: Agent[None] = Agent("main", model=model)
        main = hold(plain)
        plain.tools.extend(map(function_tool, stage.tools()))
        run(main)
        assert stage.ran == []
        assert "`shell` is not in tools" in told(model)["c1"]

    def test_the_tools_of_a_server(self, trial: Trial) -> None:
        """The tools of an MCP server are named as scopes name those of servers, and held."""
        notes = Notes()
        asks = [Ask("look", {"q": "x"}, "c1"), Ask("drop", {"q": "x"}, "c2")]
        model = scripted([asks])
        main = hold(Agent("main", mcp_servers=[notes], model=model))
        assert main.mcp_servers == [notes]
        run(main)
        assert notes.ran == []
        assert "`mcp__notes__look` is not in tools" in told(model)["c1"]
        assert "`mcp__notes__drop` is not in tools" in told(model)["c2"]

    def test_no_block(self) -> None:
        """Outside of a block nothing runs, and the one who wrote the code is told."""
        stage = Stage(None, ())  # type: ignore[arg-type]  # there is no ticket at all
        model = scripted([[Ask("note", {"text": "x"}, "c1")]])
        with pytest.raises(AgentsException, match="no session is open here"):
            run(agent(stage, model))
        assert stage.ran == []

    def test_what_is_no_agent(self) -> None:
        """A subclass may run its tools in another way, so it is not taken."""

        class Other(Agent[None]):
            """One of another kind."""

        with pytest.raises(InputError, match="a `Other` cannot be held"):
            hold(Other("x"))


def test_a_servers_tool_that_is_named(tmp_path: Path) -> None:
    """A tool of an MCP server runs where the scope names it with its server, and no other does."""
    notes = Notes()
    asks = [Ask("look", {"q": "x"}, "c1"), Ask("drop", {"q": "x"}, "c2")]
    model = scripted([asks])
    with session(["tools=mcp__notes__look"], workspace=tmp_path):
        run(hold(Agent("main", mcp_servers=[notes], model=model)))
    assert notes.ran == ["look"]
    assert "`mcp__notes__drop` is not in tools" in told(model)["c2"]


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of this SDK runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": scripted([asks])}
    assert run_section("OpenAI Agents SDK", names, tmp_path) == ["read allow", "read paths"]
