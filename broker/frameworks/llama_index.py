"""
LlamaIndex: agents whose tools are decided before they run.

``HeldFunctionAgent``, ``HeldReActAgent`` and ``HeldAgentWorkflow`` stand in the place of the
classes without *Held*. Their tools are wrapped each time that they are got, those of a retriever
included; a refusal is an error result of the tool.

Whose ticket: the agent that is run, and the first one of a workflow, works under the ticket of the
block around the run, narrowed by its own ``scope``. Another agent of the workflow, and an agent
that is run inside of a tool, works under a narrower one: its own tools, and its scope. A handoff is
no call; it only changes whose ticket the next calls are decided under.

Decided here: all of that. Not decided here: what passes.

Rules a maintainer keeps: a tool is got by ``get_tools`` only; what a tool runs with is what was
decided, and the context that LlamaIndex itself puts there; an agent that runs the code which its
model writes has no place here, but for the tool that runs it.
"""

from __future__ import annotations

import copy
from asyncio import to_thread
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from broker.errors import Refused
from broker.frameworks.calling import abegin, begin, child, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
    from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
    from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolOutput
    from pydantic import Field
except ImportError as error:
    raise sdk_missing("llama-index") from error

__all__ = ["HeldAgentWorkflow", "HeldFunctionAgent", "HeldReActAgent"]

_HANDOFF: Final = "handoff"  # a name that LlamaIndex keeps for itself
_inside: Final[ContextVar[bool]] = ContextVar("broker_llama_index", default=False)


class _Asking:
    """What a held tool does: it asks, under one ticket, before the tool runs that it stands for."""

    _inner: AsyncBaseTool
    _under: Holder

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Decide a call, and run the tool with what was decided; a refusal is an error result."""
        given, added = self._told(args, kwargs)
        try:
            begun = begin(self._name, given, held=self._under)
        except Refused as refused:
            return self._refused(refused)
        with begun, _at_work(self._under):
            output = self._inner.call(**begun.arguments, **added)
            begun.output = output.content
        return output

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        """Do the same in an event loop."""
        given, added = self._told(args, kwargs)
        try:
            begun = await abegin(self._name, given, held=self._under)
        except Refused as refused:
            return self._refused(refused)
        async with begun:
            with _at_work(self._under):
                output = await self._inner.acall(**begun.arguments, **added)
            begun.output = output.content
        return output

    @property
    def _name(self) -> str:
        return str(self._inner.metadata.get_name())

    def _told(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[object, dict[str, Any]]:
        """Return what the model wrote, and the context that LlamaIndex adds."""
        inner = self._inner
        added = inner.ctx_param_name if isinstance(inner, FunctionTool) else None
        given = {name: value for name, value in kwargs.items() if name != added}
        # What has no name cannot be decided: models write names.
        return (args or given), {n: v for n, v in kwargs.items() if n == added}

    def _refused(self, refused: Refused) -> ToolOutput:
        text = refusal_text(refused)
        return ToolOutput(
            content=text, tool_name=self._name, raw_input={}, raw_output=text, is_error=True
        )


class _HeldTool(_Asking, AsyncBaseTool):
    """A held tool of any kind."""

    def __init__(self, inner: AsyncBaseTool, under: Holder) -> None:
        self._inner, self._under = inner, under

    @property
    def metadata(self) -> Any:
        """What the model is told of the tool."""
        return self._inner.metadata


class _HeldFunction(_Asking, FunctionTool):
    """A held function, which LlamaIndex gives its context where it takes one."""

    def __init__(self, inner: FunctionTool, under: Holder) -> None:
        self.__dict__.update(copy.copy(inner).__dict__)
        self._inner, self._under = inner, under


class HeldFunctionAgent(FunctionAgent):
    """
    A ``FunctionAgent`` that is held to the ticket of the block it runs in.

    ``scope`` are ``KEY=VALUE`` texts that narrow it.
    """

    scope: list[str] = Field(default_factory=list)

    async def get_tools(self, input_str: str | None = None) -> Sequence[AsyncBaseTool]:
        """Return the tools, each of which asks before it runs."""
        return _held(await super().get_tools(input_str), await to_thread(_alone, self))


class HeldReActAgent(ReActAgent):
    """The same as a ``ReActAgent``, whose model writes its calls as text."""

    scope: list[str] = Field(default_factory=list)

    async def get_tools(self, input_str: str | None = None) -> Sequence[AsyncBaseTool]:
        """Return the tools, each of which asks before it runs."""
        return _held(await super().get_tools(input_str), await to_thread(_alone, self))


class HeldAgentWorkflow(AgentWorkflow):
    """
    An ``AgentWorkflow`` whose agents, of any kind, are held to the ticket of the block it runs in.

    Args:
        scopes: for the name of an agent, ``KEY=VALUE`` texts that narrow it, beside its ``scope``.
    """

    def __init__(
        self, *given: Any, scopes: Mapping[str, Sequence[str]] | None = None, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._scopes = dict(scopes or {})

    async def get_tools(
        self, agent_name: str, input_str: str | None = None
    ) -> Sequence[AsyncBaseTool]:
        """Return the tools of an agent, each of which asks before it runs."""
        agent = self.agents[agent_name]
        scope = (*getattr(agent, "scope", ()), *self._scopes.get(agent_name, ()))
        first = agent_name == self.root_agent and not _inside.get()
        under = await to_thread(_narrowed, agent, scope, first=first)
        return _held(await super().get_tools(agent_name, input_str), under)


def _alone(agent: BaseWorkflowAgent) -> Holder:
    return _narrowed(agent, agent.scope, first=not _inside.get())


def _narrowed(agent: BaseWorkflowAgent, scope: Sequence[str], *, first: bool) -> Holder:
    """Return what an agent works under: the block's ticket for the first, or a narrower one."""
    if first:
        return child(current(), agent.name, scope) if scope else current()
    names = sorted(str(tool.metadata.get_name()) for tool in agent.tools or ())
    tools = names if agent.tool_retriever is None else None  # what it finds is not known yet
    return child(current(), agent.name, scope, tools=tools)


def _held(tools: Sequence[BaseTool], under: Holder) -> list[AsyncBaseTool]:
    return [
        tool
        if isinstance(tool, _Asking) or tool.metadata.get_name() == _HANDOFF
        else _HeldFunction(tool, under)
        if isinstance(tool, FunctionTool)
        else _HeldTool(tool, under)
        for tool in tools
    ]


@contextmanager
def _at_work(under: Holder) -> Iterator[None]:
    token = _inside.set(True)
    try:
        with under.block():
            yield
    finally:
        _inside.reset(token)
