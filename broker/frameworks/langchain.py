"""
LangChain and LangGraph: a middleware of ``create_agent`` that has each tool call decided.

Decided here: that the middleware is the last one around a tool, since one that stood between
could change the call that was decided; that an agent with a tool that the model's provider runs
does not run, since nothing here could stop it; and that an agent inside of another one's tool
works under a narrower ticket, if its middleware has a scope. Not decided here: what passes.

A run that a tool interrupts is decided anew where it goes on, since the tool then runs anew.

Rules a maintainer keeps: the handler is reached with what was decided or not at all; a refusal is
the tool's message, with the status ``error``.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from broker.errors import InputError, Refused
from broker.frameworks.calling import Begun, abegin, begin, child, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain.messages import ToolMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest
except ImportError as error:
    raise sdk_missing("langchain") from error

__all__ = ["TicketMiddleware"]

_NODE: Final = "ToolNode."  # how the name of what runs a tool begins, when nothing stands between


class TicketMiddleware(AgentMiddleware[Any, Any, Any]):
    """
    Holds each tool call of an agent to the ticket of the block that it runs in.

    Give it as the last one of ``middleware``, or its two methods to a ``ToolNode``.

    Args:
        scope: ``KEY=VALUE`` texts that narrow the ticket, for an agent that another one's tool
            runs; it spends from the same budget.
        agent: what the receipt calls the agent that is so narrowed.
    """

    def __init__(self, scope: Sequence[str] = (), *, agent: str = "delegate") -> None:
        super().__init__()
        self._scope, self._agent = tuple(scope), agent

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[..., Any]) -> Any:
        """Run one call, if it is let through."""
        _innermost(handler)
        call = request.tool_call
        try:
            held = self._held()
            begun = begin(call["name"], call["args"], held=held, call_id=call["id"] or "")
        except Refused as refused:
            return _refusal(call, refused)
        with begun, held.block():
            return _told(begun, handler(_decided(request, begun)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do the same in a task."""
        _innermost(handler)
        call = request.tool_call
        try:
            held = await to_thread(self._held)
            begun = await abegin(call["name"], call["args"], held=held, call_id=call["id"] or "")
        except Refused as refused:
            return _refusal(call, refused)
        async with begun:
            with held.block():
                return _told(begun, await handler(_decided(request, begun)))

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        """Ask the model, unless it is offered what cannot be held."""
        _no_provider_tools(request)
        return handler(request)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Do the same in a task."""
        _no_provider_tools(request)
        return await handler(request)

    def _held(self) -> Holder:
        return child(current(), self._agent, self._scope) if self._scope else current()


def _innermost(handler: Callable[..., Any]) -> None:
    if not getattr(handler, "__qualname__", "").startswith(_NODE):
        raise InputError(
            "a middleware stands between the ticket and the tools, where it could change what was "
            "decided: give `TicketMiddleware()` as the last one"
        )


def _no_provider_tools(request: ModelRequest[Any]) -> None:
    for tool in request.tools:
        if isinstance(tool, dict):
            name = tool.get("name") or tool.get("type") or "?"
            raise InputError(
                f"the tool `{name}` is run by the model's provider, where it cannot be stopped: "
                "give the agent a tool that does the same here"
            )


def _decided(request: ToolCallRequest, begun: Begun) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": begun.arguments})


def _told(begun: Begun, answer: Any) -> Any:
    begun.ok = getattr(answer, "status", "success") != "error"
    begun.output = getattr(answer, "content", None)
    return answer


def _refusal(call: Any, refused: Refused) -> ToolMessage:
    return ToolMessage(
        content=refusal_text(refused),
        name=call["name"],
        tool_call_id=call["id"],
        status="error",
    )
