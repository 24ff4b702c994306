"""
Pydantic AI: a capability of an agent that has each tool call decided.

Decided here: that the ticket is the innermost layer around an agent's tools, so that whatever
else changes a call has done so before it is decided; that an agent with a tool that the model's
provider runs does not run, since nothing here could stop it; and that an agent inside of another
one's tool works under a narrower ticket, if its capability has a scope. Not decided here: what
passes.

The framework has checked the arguments against the tool's types before they come here. Where one
is more than JSON (a model, a date), what is decided is how it is written in JSON, and the tool gets
the value itself, which nobody else holds.

Rules a maintainer keeps: the tools are reached with what was decided or not at all; a refusal is a
failed result that the model reads, and costs no retry.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.errors import InputError, Refused
from broker.frameworks.calling import NotPlain, abegin, child, plain, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from pydantic_ai import RunContext, ToolFailed
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise sdk_missing("pydantic-ai") from error

__all__ = ["TicketCapability"]

_HARMLESS = frozenset({"tool_search"})  # finds tools that are here, and runs none


@dataclass
class TicketCapability(AbstractCapability[Any]):
    """
    Holds each tool call of an agent to the ticket of the block that it runs in.

    Give it among an agent's ``capabilities``, in any place.

    Args:
        scope: ``KEY=VALUE`` texts that narrow the ticket, for an agent that another one's tool
            runs; it spends from the same budget.
        agent: what the receipt calls the agent that is so narrowed.
    """

    scope: Sequence[str] = ()
    agent: str = "delegate"

    def get_ordering(self) -> CapabilityOrdering:
        """Stand closer to the tools than anything that could change a call."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return the agent's tools, each of which asks before it runs."""
        return _HeldToolset(toolset, tuple(self.scope), self.agent)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """
        Let the model be asked, unless it is offered what cannot be held.

        Raises:
            InputError: it has a tool that its provider runs.
        """
        for tool in request_context.model_request_parameters.native_tools:
            if tool.kind not in _HARMLESS:
                raise InputError(
                    f"the tool `{tool.kind}` is run by the model's provider, where it cannot be "
                    "stopped: give the agent a tool that does the same here"
                )
        return request_context


@dataclass
class _HeldToolset(WrapperToolset[Any]):
    scope: tuple[str, ...] = ()
    agent: str = "delegate"

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run one call, if it is let through."""
        held = await to_thread(self._held)
        try:
            told, exact = plain(tool_args)[0], True
        except NotPlain:
            told, exact = _in_json(tool_args), False
        try:
            begun = await abegin(name, told, held=held, call_id=ctx.tool_call_id or "")
        except Refused as refused:
            raise ToolFailed(refusal_text(refused)) from refused
        async with begun:
            with held.block():
                arguments = begun.arguments if exact else tool_args
                begun.output = await self.wrapped.call_tool(name, arguments, ctx, tool)
            return begun.output

    def _held(self) -> Holder:
        return child(current(), self.agent, self.scope) if self.scope else current()


def _in_json(arguments: object) -> object:
    """Return checked arguments as JSON; what cannot be written so is told as no object."""
    try:
        return to_jsonable_python(arguments)
    except ValueError as error:
        return f"the arguments cannot be written in JSON: {error}"
