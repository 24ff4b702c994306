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
from agents.testing import ScriptedModel, assistant_message, function_call

from broker.errors import BrokerError, InputError
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


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of this SDK runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": scripted([asks])}
    assert run_section("OpenAI Agents SDK", names, tmp_path) == ["read allow", "read paths"]
