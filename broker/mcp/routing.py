"""
What the headers of a request over HTTP say of the message in it.

Decided here: how ``Mcp-Method`` and ``Mcp-Name`` are spelled, and whether they agree with the
message. Not decided here: what becomes of the message (``broker.mcp.gateway``).

Rule a maintainer keeps: a server, or something before it, may act on a header alone, so a header
that says something else than the message that was judged is never passed on.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from broker.mcp.messages import Message

METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
VERSION: Final = "MCP-Protocol-Version"
# Which parameter a method's ``Mcp-Name`` repeats.
_NAMED_BY: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_BEGIN, _END = "=?base64?", "?="


def headers_of(message: Message) -> dict[str, str]:
    """
    Return the headers that repeat a message, for a server that wants them.

    >>> from broker.mcp.messages import read_message
    >>> said = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}'
    >>> headers_of(read_message(said))
    {'Mcp-Method': 'tools/call', 'Mcp-Name': 'look'}
    """
    found = {METHOD: _spelled(message.method)} if message.method else {}
    name = message.params.get(_NAMED_BY.get(message.method, ""))
    if isinstance(name, str):
        found[NAME] = _spelled(name)
    about = message.params.get("_meta")
    version = about.get(_VERSION_KEY) if isinstance(about, dict) else None
    if isinstance(version, str) and version.isascii() and version.isprintable():
        found[VERSION] = version
    return found


def contradicts(method: str | None, name: str | None, message: Message) -> bool:
    """Whether headers that are there say something else than the message."""
    if method is not None and _read(method) != message.method:
        return True
    if name is None:
        return False
    return message.params.get(_NAMED_BY.get(message.method, "")) != _read(name)


def _spelled(text: str) -> str:
    """Return a text as a header can hold it."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not text.startswith(_BEGIN):
        return text
    return f"{_BEGIN}{base64.b64encode(text.encode('utf-8', 'replace')).decode()}{_END}"


def _read(value: str) -> str | None:
    """Return the text that a header holds, or None when it cannot be read."""
    if not (value.startswith(_BEGIN) and value.endswith(_END)):
        return value
    try:
        return base64.b64decode(value[len(_BEGIN) : -len(_END)], validate=True).decode()
    except (binascii.Error, ValueError):
        return None
