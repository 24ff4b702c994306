"""
OpenAI Agents SDK: an agent whose function tools are decided before they run.

Decided here: where the SDK lets a call be stopped, and whose ticket an agent works under. A held
agent wraps every tool of a turn as the turn begins, those of MCP servers included; a refusal is
the tool's output. What runs at the provider or past a tool's own invoker (hosted tools, shells,
computers) cannot be stopped here, so an agent that has one does not run. An agent that another
one calls as a tool, and one that a handoff goes to, work under a narrower ticket; a handoff back
to an agent that handed off before returns to that agent's own. Not decided here: what passes.

Rules a maintainer keeps: a tool is reached through ``get_all_tools`` and an agent through
``handoffs`` only; an agent as a tool must be a held one, since it brings its own tools.
"""

from __future__ import annotations

import copy
from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from broker.errors import InputError, Refused
from broker.frameworks.calling import abegin, child, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from agents import Agent, FunctionTool, Handoff, RunContextWrapper, Tool, handoff
    from agents.tool_context import ToolContext
except ImportError as error:
    raise sdk_missing("openai-agents") from error

__all__ = ["HeldAgent", "hold"]

Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]

_UNKNOWN: Final = "*"  # stands for the tools of MCP servers, which are known only once it runs


def hold(agent: Agent[Any], *, scope: Sequence[str] = ()) -> HeldAgent:
    """
    Return the agent as one whose calls are held to the ticket of the block that it runs in.

    Args:
        agent: whose tools are decided from now on; it is not changed itself.
        scope: ``KEY=VALUE`` texts that narrow it where another agent calls it as a tool or hands
            off to it; it then also holds no tools but its own and those of whom it can reach.

    Raises:
        InputError: it is no plain ``Agent``.
    """
    if type(agent) not in (Agent, HeldAgent):
        raise InputError(f"a `{type(agent).__name__}` cannot be held: give an `agents.Agent`")
    same = {f.name: getattr(agent, f.name) for f in fields(Agent) if f.init and f.name != _HANDED}
    return HeldAgent(**same, handoffs=_raw_handoffs(agent), scope=tuple(scope), origin=agent)


@dataclass
class HeldAgent(Agent[Any]):
    """
    An agent that ``hold`` returned. ``bound`` is what a handoff gave it to work under.

    ``above`` are the agents that handed off to it, the first one first.
    """

    scope: tuple[str, ...] = field(default=(), kw_only=True)
    origin: Agent[Any] | None = field(default=None, kw_only=True, repr=False)
    bound: Holder | None = field(default=None, kw_only=True, repr=False)
    above: tuple[HeldAgent, ...] = field(default=(), kw_only=True, repr=False)

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
        """
        Return the tools of a turn, each of which asks before it runs.

        Raises:
            InputError: one of them cannot be held.
        """
        before = self.__dict__.get("_asking_tools", {})
        wrapped = {}
        for tool in await super().get_all_tools(run_context):
            known = before.get(id(tool))
            same = known is not None and known[0] is tool
            wrapped[id(tool)] = known if same else (tool, self._held(tool))
        self.__dict__["_asking_tools"] = wrapped
        return [held for _, held in wrapped.values()]

    def as_tool(self, *given: Any, **named: Any) -> FunctionTool:
        """Return the agent as a tool of another one, under a ticket narrower than its caller's."""
        tool = super().as_tool(*given, **named)
        inner = tool.on_invoke_tool

        async def narrowed(context: ToolContext[Any], text: str) -> Any:
            with (await self._narrowed(current())).block():
                return await inner(context, text)

        tool.on_invoke_tool = narrowed
        return tool

    @property
    def handoffs(self) -> list[Any]:
        """The handoffs of the agent that is held, each of which leads to a held agent."""
        items = self.__dict__["_handoffs"]
        before = self.__dict__.setdefault("_led", {})
        for item in items:
            if id(item) not in before or before[id(item)][0] is not item:
                before[id(item)] = (item, self._handing(item))
        return [before[id(item)][1] for item in items]

    @handoffs.setter
    def handoffs(self, items: list[Any]) -> None:
        """Keep the list itself, so that what is added to it later is held as well."""
        self.__dict__["_handoffs"] = items

    def _works_under(self) -> Holder:
        return self.bound or current()

    def _held(self, tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool):
            raise InputError(
                f"the tool `{tool.name}` of agent `{self.name}` runs where it cannot be stopped "
                f"({type(tool).__name__}): give the agent a FunctionTool that does the same"
            )
        # Asked for outright: a version that calls these otherwise runs nothing.
        inside, binding = tool._agent_instance, tool._mcp_tool_binding
        if inside is not None and not isinstance(inside, HeldAgent):
            raise InputError(
                f"the agent `{inside.name}` behind the tool `{tool.name}` is not held: make the "
                "tool of it by `hold(…).as_tool(…)`"
            )
        server, name = binding[:2] if binding else (None, tool.qualified_name)
        held = copy.copy(tool)
        held.on_invoke_tool = self._asking(held.on_invoke_tool, name, server, inside is not None)
        return held

    def _asking(self, inner: Invoke, name: str, server: str | None, delegates: bool) -> Invoke:
        async def invoke(context: ToolContext[Any], text: str) -> Any:
            under = self._works_under()
            try:
                begun = await abegin(
                    name, text, held=under, call_id=context.tool_call_id, server=server
                )
            except Refused as error:
                return refusal_text(error)
            async with begun:
                if not delegates:
                    begun.output = await inner(context, begun.text)
                else:
                    with under.block():
                        begun.output = await inner(context, begun.text)
            return begun.output

        return invoke

    def _handing(self, item: Any) -> Handoff[Any, Any]:
        made = copy.copy(item) if isinstance(item, Handoff) else handoff(item)
        inner = made.on_invoke_handoff

        async def invoke(context: RunContextWrapper[Any], text: str) -> HeldAgent:
            target = await inner(context, text)
            for agent in (*self.above, self):
                if target is agent or target is agent.origin:
                    return agent
            received = target if isinstance(target, HeldAgent) else hold(target)
            received = hold(received, scope=received.scope)
            received.origin = target
            received.bound = await received._narrowed(self._works_under())
            received.above = (*self.above, self)
            return received

        made.on_invoke_handoff = invoke
        return made

    async def _narrowed(self, held: Holder) -> Holder:
        """Return what this agent works under as another one's delegate."""
        names = _reach(self, set())
        tools = None if _UNKNOWN in names else sorted(names)
        return await to_thread(child, held, self.name, self.scope, tools=tools)


_HANDED: Final = "handoffs"


def _raw_handoffs(agent: Agent[Any]) -> list[Any]:
    """Return the very list that an agent was given, so that what is added later is there too."""
    found: list[Any] = agent.__dict__["_handoffs" if isinstance(agent, HeldAgent) else _HANDED]
    return found


def _reach(agent: Agent[Any], seen: set[int]) -> set[str]:
    """Return the names of all tools that an agent, and whom it can reach, may ever call."""
    if id(agent) in seen:
        return set()
    seen.add(id(agent))
    names = {_UNKNOWN} if agent.mcp_servers else set()
    for tool in agent.tools:
        if isinstance(tool, FunctionTool):
            names.add(tool.qualified_name)
            inside = tool._agent_instance
            names |= set() if inside is None else _reach(inside, seen)
    for item in _raw_handoffs(agent):
        if isinstance(item, Handoff):
            names.add(_UNKNOWN)  # it returns whichever agent it likes
        else:
            names |= _reach(item, seen)
    return names
