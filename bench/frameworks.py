"""
Measure what an adapter adds to a tool call of its framework, and print a table.

A scripted model calls one tool, once a turn, in the real framework; the tool returns a text. The
same run without an adapter, with ours, and with those of others where they are installed takes
turns in every round, in one process, and differs in nothing else. One figure is a whole run by its
calls, so the framework's own part is in it; what an adapter adds is the difference to the run
without one in the same round, by the clock and by the processor's time, which says more where other
work runs on the machine. Each run is checked to have made its calls.

What is compared is not alike: ours reads the call's path as the kernel will, and has each decision
on disk before it goes on. ``attenu-guard`` compares the name of a scope and keeps its record in
memory; ``tenuo`` compares the argument with a path, and keeps no record in this setting.

    python bench/frameworks.py                    every framework that is set up for its tests
    python bench/frameworks.py crewai google_adk  these
    python bench/frameworks.py --peers            with the adapters of others, installed beside them
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker.frameworks import session  # noqa: E402
from broker.home import Home  # noqa: E402
from broker.testing.stage import Ask  # noqa: E402

PLACE = ROOT / ".venv" / "frameworks"
PEERS = PLACE / "peers"
PINS = ("attenu-guard==0.21.0", "tenuo==0.3.3")
CALLS, ROUNDS = 20, 15
NONE, OURS = "none", "ours"

Arm = Callable[[list[Ask]], Any]
Arms = Mapping[str, Arm]
ran: list[str] = []


def read(path: str) -> str:
    """Read a file."""
    ran.append(path)
    return "the text of a file"


# ── one framework: how a run of it begins, with each adapter ──


def google_adk() -> Arms:
    """Google ADK, by plugins; ``tenuo`` by a callback of the agent."""
    from google.adk.agents import LlmAgent
    from google.adk.runners import InMemoryRunner

    from broker.frameworks.google_adk import HeldPlugin
    from tests.frameworks.test_google_adk import GO, Scripted

    async def run(asks: list[Ask], *plugins: Any, **more: Any) -> None:
        model = Scripted(turns=[[ask] for ask in asks])
        agent = LlmAgent(name="main", model=model, tools=[read], **more)
        runner = InMemoryRunner(agent, app_name="bench", plugins=[*plugins])
        opened = await runner.session_service.create_session(app_name="bench", user_id="u")
        async for _ in runner.run_async(user_id="u", session_id=opened.id, new_message=GO):
            pass

    def attenu(asks: list[Ask]) -> Any:
        from attenu_guard.adapters.google_adk import DelegationGuardPlugin, ToolAuthority

        tools = {"read": ToolAuthority("fs.read")}
        guard = attenu_root()
        named = {"root_agent_name": "main", "delegations": {}, "tools": tools}
        return run(asks, DelegationGuardPlugin(guard, **named))

    def tenuo(asks: list[Ask]) -> Any:
        from tenuo.constraints import Subpath
        from tenuo.google_adk import GuardBuilder

        guard = GuardBuilder().allow("read", path=Subpath(os.getcwd())).build()
        return run(absolute(asks), before_tool_callback=guard.before_tool)

    return {
        NONE: run,
        OURS: lambda asks: run(asks, HeldPlugin()),
        "attenu-guard": attenu,
        "tenuo": tenuo,
    }


def crewai() -> Arms:
    """CrewAI, by agents; the others by hooks before a call."""
    from crewai import Agent, Crew, Task
    from crewai.tools import tool

    from broker.frameworks.crewai import HeldCrewAgent
    from tests.frameworks.test_crewai import Scripted, about

    def run(asks: list[Ask], kind: Any = Agent, hook: Any = nullcontext) -> None:
        model = Scripted(model="scripted", turns=[[ask] for ask in asks])
        agent = kind(**about("main"), llm=model, tools=[tool(read)], max_iter=CALLS + 9)
        task = Task(description="go", expected_output="words", agent=agent)
        with hook():
            Crew(agents=[agent], tasks=[task], cache=False, verbose=False).kickoff()

    def attenu(asks: list[Ask]) -> None:
        from attenu_guard.adapters.crewai import CrewAIGuardBridge, ToolPolicy

        policies = {"read": ToolPolicy("fs.read")}
        named = {"root_role": "main", "tool_policies": policies, "delegation_authorities": {}}
        run(asks, hook=lambda: CrewAIGuardBridge(root_guard=attenu_root(), **named))

    def tenuo(asks: list[Ask]) -> None:
        from tenuo.constraints import Subpath
        from tenuo.crewai import GuardBuilder

        guard = GuardBuilder().allow("read", path=Subpath(os.getcwd())).build()

        @contextlib.contextmanager
        def hooked() -> Iterator[None]:
            guard.register()
            try:
                yield
            finally:
                guard.unregister()

        run(absolute(asks), hook=hooked)

    return {
        NONE: run,
        OURS: lambda asks: run(asks, HeldCrewAgent),
        "attenu-guard": attenu,
        "tenuo": tenuo,
    }


def llama_index() -> Arms:
    """LlamaIndex, by agents; ``attenu-guard`` by a workflow of one agent and a wrapped tool."""
    from llama_index.core.agent.workflow import FunctionAgent

    from broker.frameworks.llama_index import HeldFunctionAgent
    from tests.frameworks.test_llama_index import Script

    async def run(asks: list[Ask], kind: Any = FunctionAgent) -> None:
        script = Script(*([ask] for ask in asks))
        agent = kind(name="main", llm=script.model, tools=[read], streaming=False)
        await agent.run("go", max_iterations=CALLS + 9)

    async def attenu(asks: list[Ask]) -> None:
        from attenu_guard.adapters.llama_index import GuardedAgentWorkflow, guarded_tool

        script = Script(*([ask] for ask in asks))
        tools = [guarded_tool(read, scope="fs.read")]
        agent = FunctionAgent(name="main", llm=script.model, tools=tools, streaming=False)
        flow = GuardedAgentWorkflow(agents=[agent], root_agent="main", root_guard=attenu_root())
        await flow.run("go", max_iterations=CALLS + 9)

    return {NONE: run, OURS: lambda asks: run(asks, HeldFunctionAgent), "attenu-guard": attenu}


def smolagents() -> Arms:
    """smolagents, by agents; ``attenu-guard`` by wrapped tools."""
    from smolagents import LogLevel, ToolCallingAgent

    from broker.frameworks.smolagents import HeldToolCallingAgent
    from tests.frameworks.test_smolagents import Scripted, made

    def agent(asks: list[Ask], kind: Any = ToolCallingAgent) -> Any:
        named = {"max_steps": CALLS + 9, "verbosity_level": LogLevel.OFF}
        return kind(tools=[made(read)], model=Scripted(*([ask] for ask in asks)), **named)

    def attenu(asks: list[Ask]) -> None:
        from attenu_guard.adapters.smolagents import install

        guarded = agent(asks)
        install(attenu_root(), guarded, {"read": "fs.read"})
        guarded.run("go")

    return {
        NONE: lambda asks: agent(asks).run("go"),
        OURS: lambda asks: agent(asks, HeldToolCallingAgent).run("go"),
        "attenu-guard": attenu,
    }


def claude_agent() -> Arms:
    """The Claude Agent SDK, by hooks, with a double of Claude Code on the other side."""
    from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

    from broker.frameworks.claude_agent import hold
    from tests.frameworks.claude_double import SERVER, Double

    @tool("read", "Read a file.", {"path": str})
    async def reader(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": read(**given)}]}

    async def run(asks: list[Ask], held: Callable[[Any], Any] = lambda options: options) -> None:
        servers = {SERVER: create_sdk_mcp_server(SERVER, tools=[reader])}
        options = held(ClaudeAgentOptions(mcp_servers=servers))
        transport = Double([[ask] for ask in asks])
        async for _ in query(prompt="go", options=options, transport=transport):
            pass

    return {NONE: run, OURS: lambda asks: run(asks, lambda given: hold(given, own=[SERVER]))}


def openai_agents() -> Arms:
    """The OpenAI Agents SDK, by agents."""
    from agents import Agent, Runner, function_tool

    from broker.frameworks.openai_agents import hold
    from tests.frameworks.test_openai_agents import QUIET, scripted

    async def run(asks: list[Ask], held: Callable[[Any], Any] = lambda agent: agent) -> None:
        model = scripted(tuple((ask,) for ask in asks))
        agent = held(Agent("main", tools=[function_tool(read)], model=model))
        await Runner.run(agent, "go", run_config=QUIET, max_turns=CALLS + 9)

    return {NONE: run, OURS: lambda asks: run(asks, hold)}


def pydantic_ai() -> Arms:
    """Pydantic AI, by a capability."""
    from pydantic_ai import Agent

    from broker.frameworks.pydantic_ai import TicketCapability
    from tests.frameworks.test_pydantic_ai import Script

    async def run(asks: list[Ask], *capabilities: Any) -> None:
        model = Script(tuple((ask,) for ask in asks)).model()
        await Agent(model, tools=[read], capabilities=[*capabilities]).run("go")

    return {NONE: run, OURS: lambda asks: run(asks, TicketCapability())}


def langchain() -> Arms:
    """LangChain, by a middleware."""
    from langchain.agents import create_agent
    from langchain.tools import tool

    from broker.frameworks.langchain import TicketMiddleware
    from tests.frameworks.test_langchain import ASKED, scripted

    async def run(asks: list[Ask], *middleware: Any) -> None:
        model = scripted(tuple((ask,) for ask in asks))
        agent = create_agent(model, tools=[tool(read)], middleware=[*middleware])
        await agent.ainvoke(ASKED, {"recursion_limit": 4 * CALLS + 9})

    return {NONE: run, OURS: lambda asks: run(asks, TicketMiddleware())}


DRIVEN: Mapping[str, Callable[[], Arms]] = {
    each.__name__: each
    for each in (
        claude_agent,
        crewai,
        google_adk,
        langchain,
        llama_index,
        openai_agents,
        pydantic_ai,
        smolagents,
    )
}


def attenu_root() -> Any:
    """Return the other adapter's authority for one scope."""
    from attenu_guard import Authority, Guard

    return Guard.issue("main", Authority(scopes={"fs.read"}, ttl=3600))


def absolute(asks: list[Ask]) -> list[Ask]:
    """Return the calls with absolute paths, for an adapter that compares texts."""
    return [Ask(a.tool, {"path": os.path.abspath(a.arguments["path"])}, a.call_id) for a in asks]


# ── measuring, in the environment of one framework ──


def measured(name: str, calls: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return for each arm the microseconds per call of each round, by clock and by processor."""
    asks = [Ask("read", {"path": f"src/{n}.py"}, f"c{n:03}") for n in range(calls)]
    arms = {
        arm: run
        for arm, run in DRIVEN[name]().items()
        if arm in (NONE, OURS) or importlib.util.find_spec(arm.replace("-", "_"))
    }
    found: dict[str, list[tuple[float, float]]] = {arm: [] for arm in arms}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.mkdir("src")
        home = Home.find({"BROKER_HOME": folder + "/home"})
        os.environ["HOME"] = folder
        for n in range(rounds + 1):
            order = [*arms][n % len(arms) :] + [*arms][: n % len(arms)]
            for arm in order:
                held: AbstractContextManager[object] = nullcontext()
                if arm == OURS:
                    held = session(["tools=read", "paths=src/**"], home=home, environ={})
                ran.clear()
                with held:
                    began, spent = time.perf_counter(), time.process_time()
                    done = arms[arm](asks)
                    if isinstance(done, Awaitable):
                        asyncio.run(_whole(done))
                    took = time.perf_counter() - began, time.process_time() - spent
                if len(ran) != calls:
                    raise SystemExit(f"{name}, {arm}: {len(ran)} of {calls} calls ran")
                if n:  # the first round warms up
                    found[arm].append((took[0] * 1e6 / calls, took[1] * 1e6 / calls))
    return found


async def _whole(done: Awaitable[object]) -> None:
    await done


# ── all of them, each in its own environment ──


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(DRIVEN)}")
    parser.add_argument("--peers", action="store_true", help="with the adapters of others")
    parser.add_argument("--calls", type=int, default=CALLS, metavar="N", help="calls of one run")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        print(json.dumps(measured(asked.inside, asked.calls, asked.rounds)))
        return 0
    if unknown := sorted(set(asked.names) - set(DRIVEN)):
        print(f"no framework `{unknown[0]}`; there are: {', '.join(DRIVEN)}", file=sys.stderr)
        return 2
    set_up = [name for name in DRIVEN if (PLACE / name / "bin" / "python").exists()]
    if missing := sorted(set(asked.names) - set(set_up)):
        print(f"`{missing[0]}` is not set up: make test-frameworks", file=sys.stderr)
        return 2
    if asked.peers:
        pip = [sys.executable, "-m", "pip", "-qq", "install", "--no-deps", "--upgrade"]
        subprocess.run([*pip, "--target", str(PEERS), *PINS], check=True)
    print(f"{asked.calls} calls a run, {asked.rounds} rounds, medians, in microseconds\n")
    print(
        "| framework | adapter | a call | without | it adds | of the processor's time | without |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in asked.names or set_up:
        print("\n".join(rows(name, asked.calls, asked.rounds, peers=asked.peers)), flush=True)
    return 0


def rows(name: str, calls: int, rounds: int, *, peers: bool) -> list[str]:
    """Return the lines of one framework."""
    environ = dict(os.environ) | ({"PYTHONPATH": str(PEERS)} if peers else {})
    command = [str(PLACE / name / "bin" / "python"), "-P", __file__, "--inside", name]
    command += ["--calls", str(calls), "--rounds", str(rounds)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        return [f"| {name} | failed: {(done.stderr.strip().splitlines() or ['?'])[-1]} |"]
    found: dict[str, list[list[float]]] = json.loads(done.stdout.splitlines()[-1])
    without = found.pop(NONE)
    lines = []
    for arm, took in found.items():
        clock, processor = (
            statistics.median(a[n] - b[n] for a, b in zip(took, without, strict=True))
            for n in (0, 1)
        )
        whole, alone = (statistics.median(each[0] for each in arms) for arms in (took, without))
        spent = statistics.median(each[1] for each in without)
        cells = [f"{figure:,.0f}" for figure in (whole, alone, clock, processor, spent)]
        lines.append(f"| {name} | {arm} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
