"""
The MCP Python SDK, from both ends: a server that has its calls decided, and a client's session.

Decided here: where the SDK lets a message be stopped. On a server that is the last middleware, so
that nothing stands between the ticket and the handlers; in a client it is what every request goes
through. What acts besides tools is decided as behind the gateway of ``broker mcp``. Not decided
here: which methods act (``broker.mcp.methods``), and what passes.

Each round of a call that asks its client something in between is a request, and decided anew.

Rules a maintainer keeps: a request goes on with what was decided or not at all; a refused tool
call is a result that says so, since a model reads results.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from broker.errors import InputError, Refused
from broker.frameworks.calling import Begun, abegin, child, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current
from broker.mcp.messages import Message
from broker.mcp.methods import CALL, OF_TASKS, harmless

try:
    from mcp import ClientSession, MCPError
    from mcp.server import MCPServer, Server
    from mcp.types import CallToolResult, TextContent
except ImportError as error:
    raise sdk_missing("mcp") from error

__all__ = ["hold_server", "hold_session"]

_REFUSED: Final = -32_003  # a code of the range that JSON-RPC leaves to servers
_BESIDE: Final = frozenset(("_meta", "task"))
_LIST: Final = "tools/list"


class _Asking:
    """Whose ticket requests are decided under, and by which names."""

    def __init__(self, server: str | None, scope: Sequence[str], agent: str) -> None:
        self.server, self._scope, self._agent = server, tuple(scope), agent

    def held(self) -> Holder:
        """Return what is held where a request comes in."""
        return child(current(), self._agent, self._scope) if self._scope else current()

    async def decided(
        self,
        method: str,
        params: Mapping[str, Any],
        run: Callable[[dict[str, object] | None], Awaitable[Any]],
    ) -> Any:
        """
        Have a request decided, and run it with what was; None stands for no arguments of its own.

        Raises:
            MCPError: it is refused, and is no call of a tool.
        """
        if method in OF_TASKS or harmless(Message("request", b"", 0, method, params, {})):
            return await run(None)
        tool: str = method
        arguments: object = {k: v for k, v in params.items() if k not in _BESIDE}
        if method == CALL:
            name, arguments = params.get("name"), params.get("arguments")
            tool = name if isinstance(name, str) else ""  # which is refused
        held = await to_thread(self.held)
        try:
            begun = await abegin(tool, arguments, held=held, server=self.server)
        except Refused as refused:
            if method != CALL:
                raise MCPError(_REFUSED, refusal_text(refused)) from refused
            said = TextContent(type="text", text=refusal_text(refused))
            return CallToolResult(content=[said], is_error=True)
        async with begun:
            with held.block():
                return _ended(begun, await run(begun.arguments))

    async def shown(self, tools: Sequence[Any], name: Callable[[Any], str]) -> list[Any]:
        """Return the tools that could ever be allowed."""
        held = await to_thread(self.held)
        offer = await to_thread(held.offer, self.server)
        return [tool for tool in tools if offer.admits(name(tool))]


def hold_server(
    server: MCPServer[Any] | Server[Any],
    name: str | None = None,
    *,
    scope: Sequence[str] = (),
    agent: str = "server",
) -> None:
    """
    Hold a server's tools to the ticket of the block that it runs in.

    Args:
        server: whose requests are decided from now on. Add every other middleware before.
        name: the server's name, where scopes name its tools ``mcp__NAME__TOOL``; by default they
            are named as they are.
        scope: ``KEY=VALUE`` texts that narrow the ticket for this server.
        agent: what the receipt calls the server that is so narrowed.
    """
    asking = _Asking(name, scope, agent)

    async def ticket(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if ctx.request_id is None:
            return await call_next(ctx)  # a notification starts nothing
        if server.middleware[-1] is not ticket:
            raise InputError(
                "a middleware stands between the ticket and the server's tools, where it could "
                "change what was decided: call `hold_server` after all others are added"
            )
        params = dict(ctx.params or {})

        async def run(arguments: dict[str, object] | None) -> Any:
            if arguments is None:
                return await call_next(ctx)
            own = {"arguments": arguments} if ctx.method == CALL else arguments
            return await call_next(replace(ctx, params={**params, **own}))

        result = await asking.decided(ctx.method, params, run)
        if ctx.method == _LIST and isinstance(result, dict):
            tools = await asking.shown(result.get("tools", ()), lambda tool: str(tool["name"]))
            result = {**result, "tools": tools}
        return result

    server.middleware.append(ticket)


def hold_session(
    session: ClientSession,
    name: str | None = None,
    *,
    scope: Sequence[str] = (),
    agent: str = "client",
) -> None:
    """
    Hold what a client asks of a server to the ticket of the block around each request.

    Args:
        session: whose requests are decided from now on; of a ``Client``, its ``session``.
        name: the server's name as the client's own configuration spells it, so that its tools are
            named ``mcp__NAME__TOOL``; by default they are named as they are.
        scope: ``KEY=VALUE`` texts that narrow the ticket for this session.
        agent: what the receipt calls the session that is so narrowed.
    """
    asking = _Asking(name, scope, agent)
    inner: Callable[..., Awaitable[Any]] = session.send_request

    async def send_request(request: Any, *given: Any, **named: Any) -> Any:
        request = request.model_copy(deep=True)
        told = request.model_dump(by_alias=True, mode="json", exclude_none=True)

        async def run(arguments: dict[str, object] | None) -> Any:
            if arguments is None or told["method"] != CALL:
                return await inner(request, *given, **named)
            params = request.params.model_copy(update={"arguments": arguments})
            return await inner(request.model_copy(update={"params": params}), *given, **named)

        result = await asking.decided(told["method"], told.get("params") or {}, run)
        if told["method"] == _LIST:
            tools = await asking.shown(result.tools, lambda tool: str(tool.name))
            result = result.model_copy(update={"tools": tools})
        return result

    session.send_request = send_request  # type: ignore[method-assign]  # what every request goes through


def _ended(begun: Begun, result: Any) -> Any:
    """Return a result, after its success and its content are told to its call."""
    if isinstance(result, CallToolResult):
        begun.ok = not result.is_error
        begun.output = [part.model_dump(mode="json") for part in result.content]
    elif isinstance(result, dict):
        begun.ok, begun.output = not result.get("isError"), result.get("content")
    return result
