"""CrewAI, driven by a scripted model of its own kind."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

if find_spec("crewai") is None:
    pytest.skip("the framework of this adapter is not installed", allow_module_level=True)
# Read as it is imported; set where it is, since other tests send spans.
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from crewai import BaseLLM, Crew, Task
from crewai.tools import tool
from pydantic import Field, PrivateAttr

from broker.errors import InputError
from broker.frameworks.crewai import HeldCrewAgent
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, SCOPE, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework


class Scripted(BaseLLM):
    """A model that says these turns, and then that it has ended."""

    model: str = "scripted"
    turns: list[list[Any]] = Field(default_factory=list)
    _said: int = PrivateAttr(0)
    _told: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def told(self) -> dict[str, str]:
        """The text of each result that went to the model, by call id."""
        return self._told

    def supports_function_calling(self) -> bool:
        """Whether it takes tools."""
        return True

    def call(self, messages: Any, *given: Any, **named: Any) -> Any:
        """Say the next turn."""
        for message in messages if isinstance(messages, list) else ():
            if message.get("role") == "tool":
                self._told.setdefault(message["tool_call_id"], str(message["content"]))
        turn = self.turns[self._said] if self._said < len(self.turns) else None
        self._said += 1
        if turn is None:
            return SAID
        return [spelled(ask) for ask in turn]

    async def acall(self, messages: Any, *given: Any, **named: Any) -> Any:
        """Do the same in an event loop."""
        return self.call(messages)


def spelled(ask: Ask) -> dict[str, Any]:
    """Return a call as a provider spells it."""
    text = ask.arguments if isinstance(ask.arguments, str) else json.dumps(dict(ask.arguments))
    function = {"name": ask.tool, "arguments": text}
    return {"id": ask.call_id, "type": "function", "function": function}


class TestCrewAI(AdapterSuite):
    """Every case of the suite, by ``akickoff``, ``kickoff`` and a crew that streams."""

    scope = ("tools=read,note,count,fail,delegate_work_to_coworker", *SCOPE[1:])
    lacks: ClassVar[Mapping[str, str]] = {
        "cancel": "runs tools in threads, which go on where the task that waits is cancelled"
    }

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        agent = agent_of(stage)
        done = await crew_of(agent).akickoff()
        return Drive(told(agent), done.raw)

    def drive_sync(self, stage: Stage) -> Drive:
        """Run without one."""
        agent = agent_of(stage)
        done = crew_of(agent).kickoff()
        return Drive(told(agent), done.raw)

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with streamed answers."""
        agent = agent_of(stage)
        streaming = await crew_of(agent, stream=True).akickoff()
        async for _ in streaming:
            pass
        return Drive(told(agent), streaming.result.raw)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with the helper as a coworker of the main agent."""
        helper = stage.helper
        assert helper is not None
        theirs = Scripted(model="scripted", turns=[[*turn] for turn in helper.turns])
        tools = [tool(each) for each in stage.tools(*helper.tools)]
        below = HeldCrewAgent(**about(helper.name), llm=theirs, tools=tools, scope=[*helper.texts])
        asked = {"task": "go", "context": "none", "coworker": helper.name}
        delegate = Ask("delegate_work_to_coworker", asked, "helper")
        main = agent_of(stage, [delegate], allow_delegation=True)
        done = await crew_of(main, below).akickoff()
        return Drive({**told(main), **theirs.told}, done.raw)


# ── how CrewAI is driven ──


def about(role: str) -> dict[str, str]:
    """Return what an agent must have said of it."""
    return {"role": role, "goal": "to help", "backstory": "It helps."}


def agent_of(stage: Stage, *first: list[Ask], **more: Any) -> HeldCrewAgent:
    """Return the main agent of a stage."""
    model = Scripted(model="scripted", turns=[*first, *([*turn] for turn in stage.turns)])
    tools = [tool(each) for each in stage.tools()]
    return HeldCrewAgent(**about("main"), llm=model, tools=tools, **more)


def crew_of(main: HeldCrewAgent, *others: HeldCrewAgent, **more: Any) -> Crew:
    """Return a crew whose one task is the main agent's."""
    task = Task(description="go", expected_output="words", agent=main)
    return Crew(agents=[main, *others], tasks=[task], verbose=False, **more)


def told(agent: HeldCrewAgent) -> dict[str, str]:
    """Return what the model of an agent was told."""
    assert isinstance(agent.llm, Scripted)
    return agent.llm.told


# ── what only CrewAI has ──


class TestWaysToStart(Trials):
    """However an agent is started, its tools ask first."""

    def test_alone(self, trial: Trial) -> None:
        """An agent that no crew starts is held as well, with a loop and without."""
        for way in ("kickoff", "akickoff"):
            stage = trial.stage([Ask("read", {"path": "/etc/hostname"}, "c1")])
            agent = agent_of(stage)
            done = getattr(agent, way)("go")
            if way == "akickoff":
                asyncio.run(done)
            assert stage.ran == []
            assert "is not within paths" in told(agent)["c1"]

    def test_without_native_calls(self, trial: Trial) -> None:
        """A model that writes its calls as text is held as well."""
        stage = trial.stage()
        says = [
            'Thought: read\nAction: read\nAction Input: {"path": "/etc/hostname"}',
            'Thought: read\nAction: read\nAction Input: {"path": "src/a.py"}',
            f"Thought: done\nFinal Answer: {SAID}",
        ]
        model = Talker(model="scripted", says=says)
        tools = [tool(each) for each in stage.tools()]
        done = crew_of(HeldCrewAgent(**about("main"), llm=model, tools=tools)).kickoff()
        assert done.raw == SAID
        assert stage.ran == [("read", "src/a.py")]
        assert trial.answers() == [("read", "paths"), ("read", "allow")]

    def test_the_tools_of_a_task(self, trial: Trial) -> None:
        """Tools that a task brings along are held, too."""
        stage = trial.stage([Ask("shell", {"command": "id"}, "c1")])
        main = agent_of(stage)
        main.tools = []
        (shell,) = (tool(each) for each in stage.tools("shell"))
        task = Task(description="go", expected_output="words", agent=main, tools=[shell])
        Crew(agents=[main], tasks=[task], verbose=False).kickoff()
        assert stage.ran == []
        assert "`shell` is not in tools" in told(main)["c1"]

    def test_a_scope_of_its_own(self, trial: Trial) -> None:
        """An agent's own scope narrows it where a crew starts it."""
        stage = trial.stage([Ask("note", {"text": "x"}, "c1"), Ask("read", {"path": "x"}, "c2")])
        main = agent_of(stage, scope=["tools=read"])
        crew_of(main).kickoff()
        assert stage.ran == []
        assert "`note` is not in tools: read" in told(main)["c1"]
        assert "is not within paths" in told(main)["c2"]

    def test_no_block(self) -> None:
        """Outside of a block nothing runs, and the one who wrote the code is told."""
        stage = Stage(None, ((Ask("note", {"text": "x"}, "c1"),),))  # type: ignore[arg-type]  # there is no ticket at all
        with pytest.raises(InputError, match="no session is open here"):
            crew_of(agent_of(stage)).kickoff()
        assert stage.ran == []


class TestWhatIsShared(Trials):
    """What agents of a crew have in common gives none of them more."""

    def test_results_are_not_kept(self, trial: Trial) -> None:
        """A result that one agent may read is not read by another that may not."""
        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        first = agent_of(stage)
        second = agent_of(trial.stage([Ask("read", {"path": "src/a.py"}, "c2")]), scope=["calls=0"])
        tasks = [
            Task(description="go", expected_output="words", agent=each) for each in (first, second)
        ]
        Crew(agents=[first, second], tasks=tasks, verbose=False, cache=True).kickoff()
        assert "a = 1" in told(first)["c1"]
        assert "a = 1" not in told(second)["c2"]

    def test_the_limit_of_a_tool_still_counts(self, trial: Trial) -> None:
        """A tool that may be used once is used once."""
        stage = trial.stage([Ask("note", {"text": "1"}, "c1")], [Ask("note", {"text": "2"}, "c2")])
        main = agent_of(stage)
        (note,) = (tool("note", max_usage_count=1)(each) for each in stage.tools("note"))
        main.tools = [note]
        crew_of(main).kickoff()
        assert stage.ran == [("note", "1")]
        assert "usage limit" in told(main)["c2"]


class Talker(BaseLLM):
    """A model that takes no tools, and writes what it would call."""

    says: list[str] = Field(default_factory=list)

    def supports_function_calling(self) -> bool:
        """Whether it takes tools."""
        return False

    def call(self, messages: Any, *given: Any, **named: Any) -> Any:
        """Say the next text."""
        return self.says.pop(0)


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of this framework runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": Scripted(model="scripted", turns=[asks])}
    found = run_section("CrewAI", names, tmp_path)
    assert sorted(found) == ["read allow", "read paths"]
