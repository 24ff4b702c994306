"""smolagents, driven by a scripted model of its own kind."""

from __future__ import annotations

import asyncio
import json
import linecache
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("smolagents", reason="the framework of this adapter is not installed")

from smolagents import CodeAgent, LogLevel, Tool, ToolCallingAgent
from smolagents.local_python_executor import PythonExecutor
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
)
from smolagents.utils import AgentError

from broker.errors import InputError
from broker.frameworks.smolagents import HeldCodeAgent, HeldToolCallingAgent
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import PAGE, run_section

pytestmark = pytest.mark.framework

ENDS = Ask("final_answer", {"answer": SAID}, "end")


class Scripted(Model):
    """A model that says these turns, and then that it has ended."""

    def __init__(self, *turns: Sequence[Ask] | str) -> None:
        super().__init__(model_id="scripted")
        self.turns = list(turns)
        self.asked: list[Sequence[Ask]] = []
        self.told: dict[str, str] = {}

    def _next(self, messages: Sequence[ChatMessage]) -> Sequence[Ask] | str:
        # Results come back in one text, a line for each call by the order of their ids.
        responses = [m for m in messages if m.role == MessageRole.TOOL_RESPONSE]
        for turn, message in zip(self.asked, responses, strict=False):
            text = message.content[0]["text"]  # type: ignore[index]  # it is a list of parts
            lines = text.removeprefix("Observation:\n").splitlines()
            ids = sorted(ask.call_id for ask in turn)
            each = lines if len(lines) == len(ids) else [text] * len(ids)
            self.told.update(zip(ids, each, strict=True))
        turn = self.turns.pop(0) if self.turns else [ENDS]
        if not isinstance(turn, str):
            self.asked.append(turn)
        return turn

    def generate(self, messages: Any, *given: Any, **named: Any) -> ChatMessage:
        """Say the next turn."""
        turn = self._next(messages)
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=turn)
        calls = [ChatMessageToolCall(spelled(ask), ask.call_id, "function") for ask in turn]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)

    def generate_stream(
        self, messages: Any, *given: Any, **named: Any
    ) -> Generator[ChatMessageStreamDelta, None, None]:
        """Say the next turn in pieces."""
        turn = self._next(messages)
        assert not isinstance(turn, str)
        for n, ask in enumerate(turn):
            call = ChatMessageToolCallStreamDelta(n, ask.call_id, "function", spelled(ask))
            yield ChatMessageStreamDelta(tool_calls=[call])


def spelled(ask: Ask) -> ChatMessageToolCallFunction:
    """Return a call as a provider spells it."""
    text = ask.arguments if isinstance(ask.arguments, str) else json.dumps(dict(ask.arguments))
    return ChatMessageToolCallFunction(arguments=text, name=ask.tool)


class TestSmolagents(AdapterSuite):
    """Every case of the suite, at once and streamed."""

    lacks: ClassVar[Mapping[str, str]] = {
        "async": "has no way for an event loop",
        "cancel": "has no run that could be cancelled",
    }

    async def drive(self, stage: Stage) -> Drive:
        """Run in a thread, as an event loop would."""
        return await asyncio.to_thread(self.drive_sync, stage)

    def drive_sync(self, stage: Stage) -> Drive:
        """Run without a loop."""
        model = Scripted(*stage.turns)
        return driven(agent_of(stage, model), model)

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with streamed answers."""
        model = Scripted(*stage.turns)
        agent = agent_of(stage, model, stream_outputs=True)

        def run() -> Drive:
            *_, last = agent.run("go", stream=True)
            return Drive(model.told, str(last.output))

        return await asyncio.to_thread(run)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with the helper as an agent that the main one manages."""
        helper = stage.helper
        assert helper is not None
        theirs = Scripted(*helper.turns)
        below = HeldToolCallingAgent(
            tools=[made(tool) for tool in stage.tools(*helper.tools)],
            model=theirs,
            name=helper.name,
            description="It helps.",
            scope=helper.texts,
            verbosity_level=LogLevel.OFF,
        )
        ours = Scripted([Ask(helper.name, {"task": "go"}, "helper")], *stage.turns)
        main = agent_of(stage, ours, managed_agents=[below])
        drive = await asyncio.to_thread(driven, main, ours)
        return Drive({**drive.told, **theirs.told}, drive.said, drive.error)


# ── how smolagents is driven ──


def made(function: Any) -> Tool:
    """Return a function as a tool."""

    class Made(Tool):  # type: ignore[misc]  # the framework has no types
        name = function.__name__
        description = function.__doc__
        inputs: ClassVar[dict[str, Any]] = {
            name: {"type": "array" if name == "items" else "string", "description": name}
            for name in function.__annotations__
            if name != "return"
        }
        output_type = "string"
        skip_forward_signature_validation = True

        def forward(self, **given: Any) -> Any:
            return function(**given)

    return Made()


def agent_of(stage: Stage, model: Scripted, **more: Any) -> HeldToolCallingAgent:
    """Return the main agent of a stage."""
    tools = [made(tool) for tool in stage.tools()]
    return HeldToolCallingAgent(
        tools=tools, model=model, max_steps=8, verbosity_level=LogLevel.OFF, **more
    )


def driven(agent: Any, model: Scripted) -> Drive:
    """Run an agent to its end, and return what its model was told."""
    try:
        return Drive(model.told, str(agent.run("go")))
    except (AgentError, ValueError) as error:
        return Drive(model.told, error=error)


# ── what only smolagents has ──


class TestState(Trials):
    """Names of an agent's state stand for what they hold."""

    @pytest.mark.parametrize(("place", "runs"), [("src/a.py", True), ("/etc/hostname", False)])
    def test_what_a_name_stands_for_is_decided(self, trial: Trial, place: str, runs: bool) -> None:
        """A name is replaced before the call is decided, and once."""
        stage = trial.stage([Ask("read", {"path": "place"}, "c1")])
        model = Scripted(*stage.turns)
        agent = agent_of(stage, model)
        agent.state |= {"place": place, "src/a.py": "/etc/hostname"}
        agent.run("go", reset=False)
        assert stage.ran == ([("read", place)] if runs else [])
        assert trial.answers() == [("read", "allow" if runs else "paths")]


class TestCode(Trials):
    """The code that a model writes."""

    scope = ("tools=read,note,python_interpreter", "paths=src/**", "calls=20")

    def agent(self, stage: Stage, *turns: str, **more: Any) -> tuple[HeldCodeAgent, Scripted]:
        """Return an agent that writes code."""
        model = Scripted(*(f"<code>{turn}</code>" for turn in (*turns, f"final_answer('{SAID}')")))
        tools = [made(tool) for tool in stage.tools()]
        quiet = {"max_steps": 4, "verbosity_level": LogLevel.OFF}
        return HeldCodeAgent(tools=tools, model=model, **quiet, **more), model

    def test_code_is_a_call(self, trial: Trial) -> None:
        """A scope that does not name the interpreter runs no code, and the model is told."""
        stage = trial.stage()
        with trial.held.narrowed("tools=read,note"):
            agent, _ = self.agent(stage, "print(read(path='src/a.py'))")
            agent.run("go")
        assert stage.ran == []
        assert "`python_interpreter` is not in tools" in str(agent.memory.steps[1].error)
        assert {a for _, a in trial.answers()} == {"tools"}

    def test_what_code_calls_is_decided(self, trial: Trial) -> None:
        """Where the interpreter is named, each tool that the code calls is decided besides."""
        stage = trial.stage()
        code = "a = read('src/a.py')\nnote(text=a)\nshell(command='id')"
        agent, _ = self.agent(stage, code, "read(path='/etc/hostname')", scope=["calls=9"])
        assert agent.run("go") == SAID
        assert stage.ran == [("read", "src/a.py"), ("note", "a = 1\n")]
        assert trial.answers() == [
            ("python_interpreter", "allow"),
            ("read", "allow"),
            ("note", "allow"),
            ("shell", "tools"),
            ("python_interpreter", "allow"),
            ("read", "paths"),
            ("python_interpreter", "allow"),
        ]
        assert len(trial.entries("delegate")) == 1

    def test_code_that_runs_elsewhere(self, trial: Trial) -> None:
        """An executor that is not of this process is refused as the agent is made."""

        class Elsewhere(PythonExecutor):  # type: ignore[misc]  # the framework has no types
            """One that runs code on another machine."""

            def send_tools(self, tools: Any) -> None:
                """Do nothing."""

            def send_variables(self, variables: Any) -> None:
                """Do nothing."""

            def __call__(self, code_action: str) -> Any:
                """Do nothing."""

        with pytest.raises(InputError, match="a `Elsewhere` runs code elsewhere"):
            self.agent(trial.stage(), executor=Elsewhere())


class TestTeams(Trials):
    """Agents that another one manages."""

    scope = ("tools=read,note,helper", "paths=src/**", "calls=20")

    @pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])
    def test_one_that_is_not_held(self, trial: Trial, kind: Any) -> None:
        """A managed agent that is not held is not called, and it is said how to mend it."""
        stage = trial.stage([Ask("helper", {"task": "go"}, "c1")])
        tools = [made(tool) for tool in stage.tools()]
        theirs = Scripted([Ask("shell", {"command": "id"}, "h1")])
        below = kind(tools=tools, model=theirs, name="helper", description="It helps.")
        model = Scripted(*stage.turns)
        driven(agent_of(stage, model, managed_agents=[below]), model)
        assert f"make it a `Held{kind.__name__}`" in model.told["c1"]
        assert stage.ran == []
        assert theirs.asked == []

    def test_no_block(self) -> None:
        """Outside of a block nothing runs, and the one who wrote the code is told."""
        stage = Stage(None, ())  # type: ignore[arg-type]  # there is no ticket at all
        model = Scripted([Ask("note", {"text": "x"}, "c1")])
        with pytest.raises(InputError, match="no session is open here"):
            agent_of(stage, model).run("go")
        assert stage.ran == []


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the documentation shows of this framework runs, and its calls are decided."""
    lines = PAGE.read_text(encoding="utf-8").splitlines(keepends=True)
    # smolagents reads a function's source, which is the page's here.
    monkeypatch.setitem(linecache.cache, PAGE.name, (1, None, lines, PAGE.name))
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": Scripted(asks)}
    found = run_section("smolagents", names, tmp_path)
    assert sorted(found) == ["read allow", "read paths"]
