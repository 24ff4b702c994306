"""
MCP servers as tools, through the official SDK.

Decided here: how a server's tools are named and offered, what a result of theirs is for a model,
and that a server which does not start is told and left out. Not decided here: whether a call may
run, which is decided by its pair of server and tool like any other.

The SDK is async; it runs on a thread of its own, in which all servers live until the sitting ends.
They start side by side, and one that says nothing is given up after a while.

Rules a maintainer keeps: a server is started from the person's own configuration and from nothing
else; it is given what that says of its environment and the little that every program needs, so no
key of the person's; what it answers is data, of limited length, and a stranger's words; what it
says besides reaches no terminal, but for its last line where it does not start.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import Any, Final, TextIO

from broker.boundary import contained
from broker.config import ServerSetting
from broker.errors import BrokerError, CapabilityError
from broker.harness.composition import Composition
from broker.harness.files import ToolError
from broker.harness.items import Tool, Work
from broker.harness.show import plain
from broker.limits import MAX_SERVER_S, MAX_SERVER_TOOLS

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every API takes for a tool's name
_START_S: Final = 30.0  # seconds until a server must have said what it offers
_SOON_S: Final = 1.5  # seconds until the person is told that one is waited for
_END_S: Final = 5.0  # seconds that a server has to end
_MAX_SAID_CHARS: Final = 100_000  # characters that are looked at of what a server says besides


def offered_servers(
    composition: Composition, stack: ExitStack, warn: Callable[[str], object]
) -> None:
    """
    Start the person's MCP servers and register their tools; ``stack`` ends them.

    Args:
        composition: what the tools are registered with.
        stack: what is left when the sitting ends.
        warn: is told of a server, or a tool, that is left out.

    Raises:
        CapabilityError: servers are configured, and the extra is not installed.
    """
    settings = composition.config.servers
    if not settings:
        return
    if find_spec("mcp") is None:
        raise CapabilityError(
            "MCP servers need an extra: install `capability-broker[agent]`",
            code="capability.unavailable",
        )
    import anyio.from_thread  # noqa: PLC0415  comes with it

    # The SDK logs each line of a server that is no message, with a traceback.
    stack.enter_context(_unlogged("mcp"))

    portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
    begun: list[tuple[ServerSetting, TextIO, Future[Any]]] = []
    for setting in settings:
        said: TextIO = stack.enter_context(TemporaryFile("w+", errors="replace"))  # noqa: SIM115
        begun.append((setting, said, _begun(setting, composition.root, portal, stack, said)))
    wait([ready for _, _, ready in begun], _SOON_S)
    if slow := [f"`{setting.name}`" for setting, _, ready in begun if not ready.done()]:
        warn(f"MCP servers that take their time, up to {_START_S:g} s: {', '.join(slow)}")
    for setting, said, ready in begun:
        client, listed = contained(ready.result, partial(_not_started, setting, warn, said))
        for told in listed:
            contained(
                partial(_register, composition, setting, told, client, portal),
                partial(_left_out, told.name, setting, warn),
            )


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.propagate, logger.handlers[:]
    logger.propagate, logger.handlers[:] = False, [logging.NullHandler()]
    try:
        yield
    finally:
        logger.propagate, logger.handlers[:] = before


def _begun(
    setting: ServerSetting, root: str, portal: Any, stack: ExitStack, said: TextIO
) -> Future[Any]:
    """Start one server, to be ended by ``stack``; the future is its client and what it lists."""
    import anyio  # noqa: PLC0415  as above

    ready: Future[Any] = Future()
    over = portal.call(anyio.Event)
    task: Future[None] = portal.start_task_soon(_live, setting, root, said, ready, over)

    def ended(task: Future[None]) -> None:
        if not ready.done():
            ready.set_exception(CapabilityError("it was given up", code="capability.unavailable")
                                if task.cancelled() else task.exception())  # fmt: skip

    def end() -> None:
        if ready.done():
            portal.call(over.set)
        else:
            task.cancel()
        # Whatever becomes of it now, the session is not about it any more.
        with suppress(Exception, CancelledError):
            task.result(_END_S)

    task.add_done_callback(ended)
    stack.callback(end)
    return ready


async def _live(
    setting: ServerSetting, root: str, said: TextIO, ready: Future[Any], over: Any
) -> None:
    """Keep a server from its start until it is ``over``; the start has a time limit."""
    import anyio  # noqa: PLC0415  as above

    made = _client(setting, root, said)  # loads the SDK: no fault of the server's
    with anyio.CancelScope(deadline=anyio.current_time() + _START_S) as limited:
        async with made as client:
            listed = await _listed(client)
            limited.deadline = math.inf
            ready.set_result((client, listed))
            await over.wait()
    if limited.cancelled_caught:
        raise TimeoutError(f"it does not answer within {_START_S:g} s")


def _client(setting: ServerSetting, root: str, said: TextIO) -> Any:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415  an extra, and slow to load
    from mcp.client.stdio import stdio_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415
    from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: PLC0415

    if setting.url:
        http = create_mcp_http_client(headers=dict(setting.headers))
        return Client(streamable_http_client(setting.url, http_client=http))
    program, *words = setting.command
    started = StdioServerParameters(
        command=program, args=words, env=dict(setting.environ) or None, cwd=root
    )
    return Client(stdio_client(started, said))


async def _listed(client: Any) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while len(found) <= MAX_SERVER_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found[:MAX_SERVER_TOOLS]


def _tool(server: str, told: Any, client: Any, portal: Any) -> Tool:
    """Return a server's tool as one of the harness."""
    name = f"mcp__{server}__{told.name}"
    run = partial(_called, client, portal, told.name)
    return Tool(name, told.description or told.name, dict(told.input_schema), run, server=server)


def _called(
    client: Any, portal: Any, name: str, work: Work, arguments: Mapping[str, object]
) -> str:
    """Call a tool of a server and return its result as text."""
    return str(contained(lambda: portal.call(_answer, client, name, dict(arguments)), _failed))


async def _answer(client: Any, name: str, arguments: dict[str, object]) -> str:
    import anyio  # noqa: PLC0415  as above

    with anyio.fail_after(MAX_SERVER_S):
        result = await client.call_tool(name, arguments)
    text = "\n".join(_text(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        raise ToolError(text or "the tool failed and says nothing")
    return text or "done"


def _text(block: Any) -> str:
    """Return a block of a result as text; what is none is named."""
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    if resource is not None and getattr(resource, "text", None) is not None:
        return str(resource.text)
    return f"({block.type}, not shown)"


def _failed(error: Exception) -> str:
    if isinstance(error, BrokerError):
        raise error
    if isinstance(error, TimeoutError):
        raise ToolError(f"the server did not answer within {MAX_SERVER_S:g} s") from error
    raise ToolError(f"the server failed: {_named(error)}") from error


def _named(error: BaseException) -> str:
    """Return what went wrong on one line: of several errors, the first one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _register(
    composition: Composition, setting: ServerSetting, told: Any, client: Any, portal: Any
) -> None:
    tool = _tool(setting.name, told, client, portal)
    if _NAME.fullmatch(tool.name) is None:
        raise ToolError("its name is none that every model takes")
    with composition.registry.batch() as batch:
        batch.add(tool)


def _left_out(
    name: str, setting: ServerSetting, warn: Callable[[str], object], error: Exception
) -> None:
    why = error.message if isinstance(error, BrokerError) else str(error)
    warn(plain(f"tool `{name}` of MCP server `{setting.name}` is not offered: {why}"))


def _not_started(
    setting: ServerSetting, warn: Callable[[str], object], said: TextIO, error: Exception
) -> tuple[None, list[Any]]:
    said.seek(0)
    last = (said.read(_MAX_SAID_CHARS).strip().splitlines() or [""])[-1]
    what = _named(error) + (f" ({last})" if last else "")
    warn(f"MCP server `{setting.name}` is not there: {plain(what)}")
    return None, []
