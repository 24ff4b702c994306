"""
CrewAI: an agent whose tools are decided before they run, whoever starts it.

``HeldCrewAgent`` stands in the place of ``crewai.Agent``. As an executor is made for it, each tool
that the executor gets is wrapped: the agent's own and a task's, those of MCP servers, and those
that CrewAI adds to delegate or to remember. A refusal is the tool's result. CrewAI's own hooks
before a call are not used for this: where one breaks, the call runs.

Whose ticket: an agent that a crew starts works under the ticket of the block around the run,
narrowed by its ``scope`` if it has one. An agent that works for another one, as a coworker does, is
narrowed from that one's, to its own tools and by its ``scope``.

Decided here: all of that. Not decided here: what passes.

Rules a maintainer keeps: an agent's tools reach an executor by ``_add_skill_loader_tool`` only; the
tests start an agent in every way there is, and would tell. Results are not cached: a cached one
would be read by agents that may not call the tool. A tool is bound to its ticket as it is wrapped,
since CrewAI does not hand the block on to all of its threads.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from broker.errors import Refused
from broker.frameworks.calling import abegin, begin, child, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from crewai import Agent
    from crewai.tools import BaseTool
    from crewai.utilities.string_utils import sanitize_tool_name
    from pydantic import Field, PrivateAttr
except ImportError as error:
    raise sdk_missing("crewai") from error

__all__ = ["HeldCrewAgent", "HeldTool"]

# Who works here. Beside the block, since CrewAI starts an agent's task again where it failed.
_working: Final[ContextVar[HeldCrewAgent | None]] = ContextVar("broker_crewai", default=None)


class HeldTool(BaseTool):
    """A tool that asks before it runs, under the ticket of one agent; ``inner`` is what runs."""

    inner: BaseTool
    _agent: HeldCrewAgent = PrivateAttr()
    _under: Holder = PrivateAttr()

    @classmethod
    def of(cls, tool: BaseTool, agent: HeldCrewAgent, under: Holder) -> HeldTool:
        """Return a tool as an agent has it that works under a ticket."""
        inner = tool.inner if isinstance(tool, HeldTool) else tool
        held = cls(
            name=inner.name,
            description=inner.description,
            args_schema=inner.args_schema,
            result_as_answer=inner.result_as_answer,
            cache_function=_never,
            inner=inner,
        )
        held._agent, held._under = agent, under
        return held

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Decide the call, and run the tool with what was decided; a refusal is its result."""
        return self._run(*args, **kwargs)

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        """Do the same for a task."""
        return await self._arun(*args, **kwargs)

    def _run(self, **kwargs: Any) -> Any:
        try:
            begun = begin(sanitize_tool_name(self.name), kwargs, held=self._under)
        except Refused as refused:
            return refusal_text(refused)
        with begun, _at_work(self._agent, self._under):
            begun.output = self.inner.run(**begun.arguments)
        return begun.output

    async def _arun(self, **kwargs: Any) -> Any:
        try:
            begun = await abegin(sanitize_tool_name(self.name), kwargs, held=self._under)
        except Refused as refused:
            return refusal_text(refused)
        async with begun:
            with _at_work(self._agent, self._under):
                begun.output = await self.inner.arun(**begun.arguments)
        return begun.output


class HeldCrewAgent(Agent):
    """
    An agent of CrewAI that is held to the ticket of the block it runs in.

    It is made as any ``Agent`` is. ``scope`` are ``KEY=VALUE`` texts that narrow it.
    """

    scope: list[str] = Field(default_factory=list)

    def execute_task(self, *given: Any, **named: Any) -> Any:
        """Work on a task of a crew, or of another agent."""
        with _at_work(self, self._works_under()):
            return super().execute_task(*given, **named)

    async def aexecute_task(self, *given: Any, **named: Any) -> Any:
        """Do the same in an event loop."""
        with _at_work(self, await to_thread(self._works_under)):
            return await super().aexecute_task(*given, **named)

    def kickoff(self, *given: Any, **named: Any) -> Any:
        """Work on its own."""
        with _at_work(self, self._works_under()):
            return super().kickoff(*given, **named)

    async def kickoff_async(self, *given: Any, **named: Any) -> Any:
        """Do the same in an event loop."""
        with _at_work(self, await to_thread(self._works_under)):
            return await super().kickoff_async(*given, **named)

    def _add_skill_loader_tool(self, tools: list[BaseTool], *given: Any, **named: Any) -> Any:
        every = super()._add_skill_loader_tool(tools, *given, **named)
        under = current()
        return [HeldTool.of(tool, self, under) for tool in every]

    def _works_under(self) -> Holder:
        held, caller = current(), _working.get()
        if caller is self:
            return held
        if caller is None:
            return child(held, self.role, self.scope) if self.scope else held
        return child(held, self.role, self.scope, tools=self._names())

    def _names(self) -> list[str] | None:
        """Return the tools that its definition gives it; None where CrewAI adds some."""
        adds = (self.allow_delegation, self.mcps, self.apps, self.skills, self.memory)
        if any(adds):
            return None
        return sorted(sanitize_tool_name(tool.name) for tool in self.tools or ())


def _never(arguments: Any = None, result: Any = None) -> bool:
    return False


@contextmanager
def _at_work(agent: HeldCrewAgent, under: Holder) -> Iterator[None]:
    token = _working.set(agent)
    try:
        with under.block():
            yield
    finally:
        _working.reset(token)
