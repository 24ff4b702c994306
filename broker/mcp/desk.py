"""
The broker itself as an MCP server: three tools for harnesses that would rather ask that way.

Decided here: what `check`, `attenuate` and `describe` take and answer, and how the protocol is
spoken. Not decided here: what passes (``broker.session``), whose session is asked
(``broker.mcp.offering``).

An asker may be a model. It can ask, and it can narrow; there is no tool that mints or widens, as on
a session's socket. An allowed `check` is recorded and debited like any other decision.

Rules a maintainer keeps: what is not understood is an error's answer and never an allow; a refusal
is an answer like another, whose first word is `refused`; nothing but the protocol goes to the
client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from broker.boundary import contained
from broker.calls import Decision
from broker.errors import BrokerError, InputError
from broker.mcp.messages import INVALID, PARSE, Message, failure, read_message, write
from broker.service.server import decision_object

NO_METHOD: Final = -32601
PROTOCOLS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_USUAL: Final = "2025-06-18"
_TEXT: Final = {"type": "string"}
_TICKET: Final = {**_TEXT, "description": "A ticket's wire form; without it, your own."}

TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "check",
        "description": "Ask whether a tool call is allowed, before you make it. The decision is "
        "recorded, and an allowed call is counted.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool": {**_TEXT, "description": "The tool's name."},
                "arguments": {"type": "object", "description": "The call's arguments."},
                "call_id": {**_TEXT, "description": "Your own name for the call."},
                "server": {**_TEXT, "description": "The MCP server that the tool is of."},
                "cwd": {**_TEXT, "description": "Where its relative paths start."},
                "ticket": _TICKET,
            },
            "required": ["tool", "arguments"],
            "additionalProperties": False,
        },
    },
    {
        "name": "attenuate",
        "description": "Derive a narrower ticket, to hand to a helper. It can permit less, never "
        "more, and spends from the same budget.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "scope": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "What to add, as KEY=VALUE texts: tools=read_file, calls=5.",
                },
                "ticket": _TICKET,
            },
            "required": ["scope"],
            "additionalProperties": False,
        },
    },
    {
        "name": "describe",
        "description": "Say what a ticket permits, and what was spent.",
        "inputSchema": {
            "type": "object",
            "properties": {"ticket": _TICKET},
            "additionalProperties": False,
        },
    },
)


class Consulted(Protocol):
    """Whom the tools ask: the session of a run, or one of the server's own."""

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        ticket: str | None,
        call_id: str,
        server: str | None,
        cwd: str | None,
    ) -> Decision:
        """Decide a call, and record the decision."""
        ...

    def attenuate(self, texts: Sequence[str], *, ticket: str | None) -> Mapping[str, object]:
        """Derive a narrower ticket: its ``id``, its wire form ``ticket``, its ``lines``."""
        ...

    def describe(self, *, ticket: str | None) -> Mapping[str, object]:
        """Say what a ticket permits and what was spent."""
        ...


class Desk:
    """
    Answers the messages of one client.

    Args:
        asked: whom the tools ask.
        version: the broker's own version, for the client's log.
    """

    def __init__(self, asked: Consulted, version: str) -> None:
        self._asked = asked
        self._version = version
        self._tools: dict[str, Callable[[Mapping[str, Any]], dict[str, object]]] = {
            "check": self._check,
            "attenuate": self._attenuate,
            "describe": self._describe,
        }

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line that a client sent; None where none is due."""
        try:
            message = read_message(line)
        except BrokerError as error:
            return failure(None, PARSE, str(error))
        if message.kind != "request" or message.id is None:
            return None
        return contained(partial(self._answered, message), partial(_broken, message.id))

    def _answered(self, message: Message) -> bytes:
        assert message.id is not None  # noqa: S101 - a request has one
        if message.method == "initialize":
            return _result(message, self._begun(message.params))
        if message.method == "ping":
            return _result(message, {})
        if message.method == "tools/list":
            return _result(message, {"tools": list(TOOLS)})
        if message.method != "tools/call":
            return failure(message.id, NO_METHOD, f"no such method: `{message.method[:80]}`")
        name, arguments = message.params.get("name"), message.params.get("arguments", {})
        if not isinstance(name, str) or name not in self._tools:
            known = ", ".join(self._tools)
            return failure(message.id, INVALID, f"no such tool: this server has {known}")
        try:
            told = self._tools[name](_fitting(name, arguments))
        except BrokerError as error:
            return _result(message, _said(str(error), None, failed=True))
        return _result(message, told)

    def _begun(self, params: Mapping[str, object]) -> dict[str, object]:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in PROTOCOLS else _USUAL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "capability-broker", "version": self._version},
            "instructions": "Ask `check` before each call, and do not make one that is refused.",
        }

    def _check(self, given: Mapping[str, Any]) -> dict[str, object]:
        decision = self._asked.decide(
            given["tool"],
            given["arguments"],
            ticket=given.get("ticket"),
            call_id=given.get("call_id", ""),
            server=given.get("server"),
            cwd=given.get("cwd"),
        )
        refusal = decision.refusal
        text = "allowed" if refusal is None else f"refused ({refusal.caveat}): {refusal.reason}"
        return _said(text, decision_object(decision))

    def _attenuate(self, given: Mapping[str, Any]) -> dict[str, object]:
        found = self._asked.attenuate(given["scope"], ticket=given.get("ticket"))
        return _said(_lines(found), found)

    def _describe(self, given: Mapping[str, Any]) -> dict[str, object]:
        found = self._asked.describe(ticket=given.get("ticket"))
        return _said(_lines(found), found)


def _fitting(name: str, arguments: object) -> dict[str, Any]:
    """
    Return a tool's arguments, which must be of its schema.

    Raises:
        InputError: they are not.
    """
    schema = next(tool for tool in TOOLS if tool["name"] == name)["inputSchema"]
    known = schema["properties"]
    if not isinstance(arguments, dict):
        raise InputError("the arguments are no object")
    for key in [*schema.get("required", ()), *arguments]:
        if key not in arguments or key not in known:
            what = "needs" if key not in arguments else "does not take"
            raise InputError(f"`{name}` {what} `{key[:80]}`")
        value, kind = arguments[key], known[key]["type"]
        right = {"string": str, "object": dict, "array": list}[kind]
        if not isinstance(value, right):
            raise InputError(f"`{key}` is of type {kind}")
        if kind == "array" and not all(isinstance(item, str) for item in value):
            raise InputError(f"`{key}` holds texts")
    return arguments


def _lines(found: Mapping[str, object]) -> str:
    lines = found.get("lines")
    return "\n".join(map(str, lines)) if isinstance(lines, list) else ""


def _said(
    text: str, structured: Mapping[str, object] | None, *, failed: bool = False
) -> dict[str, object]:
    told: dict[str, object] = {"content": [{"type": "text", "text": text}], "isError": failed}
    if structured is not None:
        told["structuredContent"] = json.loads(json.dumps(structured))
    return told


def _result(message: Message, result: Mapping[str, object]) -> bytes:
    return write({"jsonrpc": "2.0", "id": message.id, "result": result})


def _broken(ident: str | int, error: Exception) -> bytes:
    why = str(error) if isinstance(error, BrokerError) else type(error).__name__
    return failure(ident, INVALID, f"this could not be answered: {why}; no call is allowed by it")
