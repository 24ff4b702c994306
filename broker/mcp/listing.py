"""
What tools an MCP server lists, asked once, for a person who wants to describe them.

Decided here: the few messages of that exchange, and how much and how long is listened to. Not
decided here: what a tool means (``broker.catalogs.draft``); nothing that a server answers is
believed, and no tool is called.

Rules a maintainer keeps: whatever is not an answer to our own request is passed over; an end comes
in any case, by time, by pages and by size.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker.catalogs.draft import MAX_TOOLS
from broker.errors import InputError, LimitError, StoreError
from broker.mcp.messages import read_message, write
from broker.mcp.routing import VERSION
from broker.mcp.sse import EventReader
from broker.mcp.stdio import ServerProcess, lines
from broker.mcp.upstream import EVENTS, JSON, SESSION_HEADER, Upstream

PROTOCOL: Final = "2025-06-18"
MAX_PAGES: Final = 100
MAX_STRAY: Final = 10_000  # lines for one answer that are none
ANSWER_S: Final = 60.0  # for each answer: a server may be installed first
SOON_S: Final = 2.0  # until the person is told that it takes its time


def list_of_process(
    command: Sequence[str],
    environ: Mapping[str, str],
    waiting: Callable[[float], object] = lambda limit_s: None,
) -> list[object]:
    """
    Start a server, ask for its tools, and end it.

    Args:
        command, environ: how it is started.
        waiting: is told when an answer takes its time, and how long it is waited for, in seconds.

    Raises:
        LaunchError: it cannot be started.
        StoreError: it gives no list in time.
    """
    process = ServerProcess(command, environ)
    heard: queue.Queue[bytes | None] = queue.Queue(maxsize=64)

    def listen() -> None:
        for line in lines(process.output):
            heard.put(line)
        heard.put(None)

    threading.Thread(target=listen, daemon=True).start()

    def answer(ident: int) -> Mapping[str, object]:
        begun, stray, told = time.monotonic(), 0, False
        while (left := begun + ANSWER_S - time.monotonic()) > 0:
            try:
                line = heard.get(timeout=left if told else min(left, SOON_S))
            except queue.Empty:
                if not told:
                    waiting(ANSWER_S)
                told = True
                continue
            if line is None:
                raise StoreError("the server ended before it listed its tools")
            found = _result(line, ident)
            if found is not None:
                return found
            stray += 1
            if stray > MAX_STRAY:
                raise StoreError(f"the server wrote {MAX_STRAY:,} lines, and none is an answer")
        raise StoreError(f"the server did not answer within {ANSWER_S:.0f} s")

    talk = _Talk(answer, process.input.send)
    try:
        return talk.tools()
    finally:
        process.end()


def list_of_address(upstream: Upstream) -> list[object]:
    """
    Ask a server over streamable HTTP for its tools.

    Raises:
        StoreError: it cannot be reached, or gives no list.
    """
    headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}
    answers: dict[int, Mapping[str, object]] = {}

    def send(message: bytes) -> object:
        reply = upstream.ask("POST", headers, message)
        try:
            if fault := reply.fault():
                raise StoreError(fault)
            if reply.status >= 400:
                raise StoreError(f"the server answers with HTTP status {reply.status}")
            if reply.session is not None:
                headers[SESSION_HEADER] = reply.session
            headers[VERSION] = PROTOCOL
            ident = read_message(message).id
            if isinstance(ident, int):
                found = _from_events(reply.chunks(), ident) if reply.kind == EVENTS else None
                found = _result(reply.body(), ident) if reply.kind == JSON else found
                if found is not None:
                    answers[ident] = found
        finally:
            reply.close()
        return None

    def answer(ident: int) -> Mapping[str, object]:
        if ident not in answers:
            raise StoreError("the server's reply holds no answer")
        return answers.pop(ident)

    return _Talk(answer, send).tools()


class _Talk:
    """One exchange with a server: a greeting, and the pages of its list."""

    def __init__(
        self, answer: Callable[[int], Mapping[str, object]], send: Callable[[bytes], object]
    ) -> None:
        self._answer, self._send = answer, send
        self._count = 0

    def tools(self) -> list[object]:
        """Return every tool that the server lists."""
        about = {"name": "capability-broker", "version": "0"}
        self._ask(
            "initialize",
            {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about},
        )
        self._send(write({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        found: list[object] = []
        cursor: object = None
        for _ in range(MAX_PAGES):
            page = self._ask("tools/list", {} if cursor is None else {"cursor": cursor})
            listed = page.get("tools")
            found += listed if isinstance(listed, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return found
            if len(found) > MAX_TOOLS:
                break
        raise StoreError(f"the server lists more than {MAX_TOOLS} tools, or never stops")

    def _ask(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        self._count += 1
        body = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._send(write(body))
        return self._answer(self._count)


def _result(raw: bytes, ident: int) -> Mapping[str, object] | None:
    """
    Return the result that a message holds for our request; None where it is no answer to it.

    Raises:
        StoreError: the server refuses.
    """
    try:
        message = read_message(raw)
    except InputError:
        return None
    if message.kind != "response" or message.id != ident:
        return None
    error = message.body.get("error")
    if error is not None:
        said = error.get("message") if isinstance(error, dict) else error
        raise StoreError(f"the server refuses: {str(said)[:200]}")
    result = message.body.get("result")
    return result if isinstance(result, dict) else {}


def _from_events(chunks: Iterable[bytes], ident: int) -> Mapping[str, object] | None:
    reader = EventReader()
    try:
        for chunk in chunks:
            for event in reader.feed(chunk):
                found = _result(event.data, ident) if event.data else None
                if found is not None:
                    return found
    except LimitError as error:
        raise StoreError(f"the server's answer is too long: {error}") from error
    return None
