"""LangChain's agents and LangGraph's tool node, with a chat model that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the framework of this adapter is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain.messages import AIMessage, HumanMessage, ToolMessage
from langchain.tools import tool as make_tool
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langgraph.prebuilt import ToolNode

from broker.errors import BrokerError, InputError
from broker.frameworks.langchain import TicketMiddleware
from broker.testing.frameworks import AdapterSuite
from broker.testing.stage import SAID, Ask, Drive, Stage, Trial, Trials
from tests.frameworks.pages import run_section

pytestmark = pytest.mark.framework

ASKED = {"messages": [HumanMessage("go")]}


class TestLangChain(AdapterSuite):
    """Every case of the suite, by ``ainvoke``, ``invoke`` and ``astream``."""

    async def drive(self, stage: Stage) -> Drive:
        """Run with a loop."""
        return await ended(agent(stage).ainvoke(ASKED))

    def drive_sync(self, stage: Stage) -> Drive:
        """Run without one."""
        return drive_of(agent(stage).invoke(ASKED)["messages"])

    async def drive_streamed(self, stage: Stage) -> Drive:
        """Run with what happens streamed."""
        messages: list[Any] = []
        async for step in agent(stage).astream(ASKED, stream_mode="updates"):
            for update in step.values():
                messages += update["messages"]
        return drive_of(messages)

    async def drive_helper(self, stage: Stage) -> Drive:
        """Run with another agent behind a tool of the main one."""
        helper = stage.helper
        assert helper is not None
        below = create_agent(
            scripted(helper.turns),
            tools=[make_tool(tool) for tool in stage.tools(*helper.tools)],
            middleware=[TicketMiddleware(helper.texts, agent=helper.name)],
        )
        theirs: list[Any] = []

        @make_tool("helper")
        async def ask_helper(task: str) -> str:
            """Help."""
            found = await below.ainvoke({"messages": [HumanMessage(task)]})
            theirs.extend(found["messages"])
            return str(found["messages"][-1].content)

        turns = ((Ask("helper", {"task": "go"}, "helper"),), *stage.turns)
        drive = await ended(agent(stage, turns, ask_helper).ainvoke(ASKED))
        return Drive({**drive.told, **drive_of(theirs).told}, drive.said, drive.error)


# ── how the framework is driven ──


class Scripted(GenericFakeChatModel):
    """A chat model that takes tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Scripted:
        """Stay as it is."""
        return self


def scripted(turns: Sequence[Sequence[Ask]]) -> Scripted:
    """Return a model that says these turns, and then that it has ended."""
    return Scripted(messages=iter([*map(said, turns), AIMessage(SAID)]))


def said(turn: Sequence[Ask]) -> AIMessage:
    """Return a turn as the messages of providers are read: what is no object is no call."""
    calls, invalid = [], []
    for ask in turn:
        found: Any = ask.arguments
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except ValueError:
                found = None
        if isinstance(found, dict):
            calls.append({"name": ask.tool, "args": found, "id": ask.call_id})
        else:
            invalid.append(
                {"name": ask.tool, "args": str(ask.arguments), "id": ask.call_id, "error": None}
            )
    return AIMessage("", tool_calls=calls, invalid_tool_calls=invalid)


def agent(
    stage: Stage, turns: Sequence[Sequence[Ask]] | None = None, *more: Any, **named: Any
) -> Any:
    """Return the agent of a stage, held."""
    tools = [*map(make_tool, stage.tools()), *more]
    model = scripted(stage.turns if turns is None else turns)
    return create_agent(model, tools=tools, **{"middleware": [TicketMiddleware()], **named})


def drive_of(messages: Sequence[Any]) -> Drive:
    """Return what the messages of a run say."""
    told = {m.tool_call_id: str(m.content) for m in messages if isinstance(m, ToolMessage)}
    return Drive(told, str(messages[-1].content) if messages else "")


async def ended(run: Any) -> Drive:
    """Return what came of a run, also where it ends by an error."""
    try:
        return drive_of((await run)["messages"])
    except (BrokerError, RuntimeError) as error:
        return Drive({}, error=error)


# ── what only this framework has ──


class TestMiddleware(Trials):
    """Where the middleware stands, and what it does not hold."""

    def test_a_refusal_is_an_error_message(self, trial: Trial) -> None:
        """The message of a refused call has the status that the framework has for errors."""
        stage = trial.stage([Ask("shell", {"command": "id"}, "c1")])
        messages = agent(stage).invoke(ASKED)["messages"]
        (answer,) = [m for m in messages if isinstance(m, ToolMessage)]
        assert (answer.status, answer.name) == ("error", "shell")
        assert answer.content.startswith("refused (tools): ")

    def test_another_middleware_between(self, trial: Trial) -> None:
        """A middleware that could change a decided call stops the run; before it, it may stand."""

        class Changes(AgentMiddleware[Any, Any, Any]):
            """Sends every call elsewhere."""

            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                """Change the path."""
                call = {**request.tool_call, "args": {"path": "/etc/hostname"}}
                return handler(request.override(tool_call=call))

        stage = trial.stage([Ask("read", {"path": "src/a.py"}, "c1")])
        after = agent(stage, middleware=[TicketMiddleware(), Changes()])
        with pytest.raises(InputError, match="as the last one"):
            after.invoke(ASKED)
        before = agent(stage, middleware=[Changes(), TicketMiddleware()])
        before.invoke(ASKED)
        assert stage.ran == []
        assert trial.answers() == [("read", "paths")]

    def test_a_retry_before_it(self, trial: Trial) -> None:
        """A middleware that tries a tool again has each attempt decided and counted."""
        stage = trial.stage([Ask("fail", {"text": "x"}, "c1")])
        retry = ToolRetryMiddleware(max_retries=1, initial_delay=0)
        agent(stage, middleware=[retry, TicketMiddleware()]).invoke(ASKED)
        assert len(stage.ran) == 2
        assert trial.answers() == [("fail", "allow")] * 2

    def test_a_tool_of_the_provider(self, trial: Trial) -> None:
        """An agent with a tool that its provider runs does not run, and the tool is named."""
        stage = trial.stage()
        tools = [{"type": "web_search_20250305", "name": "web_search"}]
        held = create_agent(scripted([]), tools=tools, middleware=[TicketMiddleware()])
        for way in (lambda: held.invoke(ASKED), lambda: asyncio.run(held.ainvoke(ASKED))):
            with pytest.raises(InputError, match="`web_search` is run by the model's provider"):
                way()
        assert stage.ran == []

    def test_a_tool_node_of_ones_own_graph(self, trial: Trial) -> None:
        """A tool node without an agent takes the same two methods."""
        stage, ticket = trial.stage(), TicketMiddleware()
        node = ToolNode(
            [*map(make_tool, stage.tools())],
            wrap_tool_call=ticket.wrap_tool_call,
            awrap_tool_call=ticket.awrap_tool_call,
        )
        from langgraph.graph import END, START, MessagesState, StateGraph

        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        graph.add_edge("tools", END)
        asks = [Ask("read", {"path": p}, p) for p in ("src/a.py", "/etc/hostname")]
        found = drive_of(graph.compile().invoke({"messages": [said(asks)]})["messages"])
        assert stage.ran == [("read", "src/a.py")]
        assert "is not within paths" in found.told["/etc/hostname"]

    def test_no_block(self) -> None:
        """Outside of a block nothing runs, and the one who wrote the code is told."""
        stage = Stage(None, ((Ask("note", {"text": "x"}, "c1"),),))  # type: ignore[arg-type]  # none at all
        with pytest.raises(InputError, match="no session is open here"):
            agent(stage).invoke(ASKED)
        assert stage.ran == []


def test_the_page(tmp_path: Path) -> None:
    """What the documentation shows of LangChain runs, and its calls are decided."""
    asks = [Ask("read", {"path": path}, path) for path in ("src/a.py", "/etc/hostname")]
    names: dict[str, object] = {"model": scripted([asks])}
    title = "LangChain and LangGraph"
    assert run_section(title, names, tmp_path) == ["read allow", "read paths"]
