"""
FastMCP: a middleware of a server that has each call of its tools decided before they run.

Decided here: that nothing stands between the ticket and the tools that could change a call; that
a client is shown no tool that the ticket could never allow; and that what a server hands out
besides results of tools (resources, prompts) counts as calls too, as behind the gateway of
``broker mcp``. Not decided here: what passes.

Rules a maintainer keeps: the rest of the chain is reached with what was decided or not at all; a
refusal is an error result, which the client's model reads.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from broker.errors import InputError, Refused
from broker.frameworks.calling import Begun, abegin, child, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from fastmcp.exceptions import ToolError
    from fastmcp.server.middleware import Middleware, MiddlewareContext
    from fastmcp.tools import Tool
except ImportError as error:
    raise sdk_missing("fastmcp") from error

__all__ = ["ServerTicket"]

Next = Callable[[MiddlewareContext[Any]], Awaitable[Any]]

_CHANGING: Final = ("__call__", "on_message", "on_request")  # what every message goes through


class ServerTicket(Middleware):
    """
    Holds a server's tools to the ticket of the block that the server runs in.

    Args:
        server: the server's name, where scopes name its tools ``mcp__NAME__TOOL``; by default they
            are named as they are.
        scope: ``KEY=VALUE`` texts that narrow the ticket for this server.
        agent: what the receipt calls the server that is so narrowed.
    """

    def __init__(
        self, server: str | None = None, *, scope: Sequence[str] = (), agent: str = "server"
    ) -> None:
        self._server, self._scope, self._agent = server, tuple(scope), agent

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Run one call, if it is let through."""
        self._last(context, "on_call_tool")
        message = context.message

        async def run(begun: Begun) -> Any:
            decided = message.model_copy(update={"arguments": begun.arguments})
            result = await call_next(context.copy(message=decided))
            begun.ok = not getattr(result, "is_error", False)
            content = getattr(result, "content", ())
            begun.output = [part.model_dump(mode="json") for part in content]
            return result

        return await self._asking(message.name, message.arguments or {}, run)

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Hand out a resource, if that is let through."""
        self._last(context, "on_read_resource")
        asked = {"uri": str(context.message.uri)}
        return await self._asking("resources/read", asked, lambda _: call_next(context))

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: Next) -> Any:
        """Hand out a prompt, if that is let through."""
        self._last(context, "on_get_prompt")
        asked = {"name": context.message.name, "arguments": dict(context.message.arguments or {})}
        return await self._asking("prompts/get", asked, lambda _: call_next(context))

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: Next
    ) -> Sequence[Tool]:
        """Show what could be allowed."""
        tools = await call_next(context)
        offer = (await to_thread(self._held)).offer
        admits = (await to_thread(offer, self._server)).admits
        return [tool for tool in tools if admits(tool.name)]

    def _held(self) -> Holder:
        return child(current(), self._agent, self._scope) if self._scope else current()

    async def _asking(
        self, name: str, arguments: object, run: Callable[[Begun], Awaitable[Any]]
    ) -> Any:
        held = await to_thread(self._held)
        try:
            begun = await abegin(name, arguments, held=held, server=self._server)
        except Refused as refused:
            raise ToolError(refusal_text(refused)) from refused
        async with begun:
            with held.block():
                return await run(begun)

    def _last(self, context: MiddlewareContext[Any], hook: str) -> None:
        """
        Look at what stands between this and the tools.

        Raises:
            InputError: it could change what is decided here.
        """
        given = context.fastmcp_context
        chain = list(given.fastmcp.middleware) if given is not None else []
        if self not in chain:
            raise InputError("the ticket is no middleware of the server that it is asked by")
        for other in chain[chain.index(self) + 1 :]:
            kind = type(other)
            if any(getattr(kind, h) is not getattr(Middleware, h) for h in (hook, *_CHANGING)):
                raise InputError(
                    f"the middleware `{kind.__name__}` stands between the ticket and the tools, "
                    "where it could change what was decided: add `ServerTicket` as the last one"
                )
