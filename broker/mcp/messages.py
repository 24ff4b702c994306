"""
One message of JSON-RPC, as MCP uses it.

Decided here: what is a message at all, and how a refusal is spelled. Not decided here: what a
message may do (``broker.mcp.methods``, ``broker.mcp.gateway``).

The gateway passes on the bytes that it has read, so client and server must read them as it did.
Whatever two readers may take for different messages is therefore no message: a key twice, a key
in another case than the one that counts, a batch, a number as an id that JavaScript would round.
A line break between two tokens is passed on as a blank, because a server that splits its input
at every kind of line break would find a message inside the message.

Rules a maintainer keeps: reading is strict in both directions; nothing here looks at a method.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from broker.errors import InputError, LimitError
from broker.limits import MAX_REQUEST_BYTES, MAX_SAFE_INT
from broker.service.protocol import read_object

PARSE: Final = -32700  # the codes of JSON-RPC
INVALID: Final = -32600
REFUSED: Final = -32010  # ours, among those that JSON-RPC leaves free

Id = str | int
Kind = Literal["request", "notification", "response"]

_KEYS: Final = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))
# What the parameters of some method mean by these; a server in Go reads them in any case.
_PARAMETERS: Final = frozenset(
    ("name", "arguments", "uri", "ref", "argument", "task", "taskId", "requestId", "cursor")
)
_FOLDED: Final = {key.casefold(): key for key in _PARAMETERS}
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
_BLANK: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Message:
    """
    A message, and the bytes to pass on for it.

    ``body`` holds the whole object; ``params`` is empty where there are none.
    """

    kind: Kind
    raw: bytes
    id: Id | None
    method: str
    params: Mapping[str, object]
    body: Mapping[str, object]


def read_message(raw: bytes) -> Message:
    """
    Read one message strictly.

    >>> read_message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}').method
    'ping'

    Raises:
        InputError: not one message of JSON-RPC 2.0 that everybody reads alike.
        LimitError: it has more than MAX_REQUEST_BYTES.
    """
    if len(raw) > MAX_REQUEST_BYTES:
        raise LimitError(f"a message has at most {MAX_REQUEST_BYTES} bytes")
    # Inside a text a line break is escaped, so these stand between tokens and mean nothing.
    line = raw.strip(_BLANK).translate(_BREAKS)
    if line[:1] == b"[":
        raise InputError("batches of messages are not passed on: send them one by one")
    body = read_object(line)
    strange = body.keys() - _KEYS
    if strange:
        raise InputError("the message has a key that JSON-RPC does not know")
    if body.get("jsonrpc") != "2.0":
        raise InputError("the message is not JSON-RPC 2.0")
    ident = _checked_id(body)
    if "method" in body:
        return _asking(line, body, ident)
    if ("result" in body) == ("error" in body) or "id" not in body or "params" in body:
        raise InputError("the message is neither a request nor an answer")
    if ident is None and "error" not in body:
        raise InputError("the answer does not say to what")
    return Message("response", line, ident, "", {}, body)


def _asking(line: bytes, body: Mapping[str, object], ident: Id | None) -> Message:
    method, params = body["method"], body.get("params", {})
    if not isinstance(method, str) or not method:
        raise InputError("the message's method is no text")
    if "result" in body or "error" in body:
        raise InputError("the message is a request and an answer at once")
    if not isinstance(params, dict):
        raise InputError("the message's parameters are no object")
    if "id" in body and ident is None:
        raise InputError("the request's id is null")
    _check_keys(params, _FOLDED)
    arguments = params.get("arguments")
    if isinstance(arguments, dict):
        _check_keys(arguments, {})
    kind: Kind = "request" if "id" in body else "notification"
    return Message(kind, line, ident, method, params, body)


def _checked_id(body: Mapping[str, object]) -> Id | None:
    found = body.get("id")
    if found is None or isinstance(found, str):
        return found
    if type(found) is int and abs(found) <= MAX_SAFE_INT:
        return found
    raise InputError("an id is a text or a whole number below 2^53")


def _check_keys(found: Mapping[str, object], known: Mapping[str, str]) -> None:
    """Refuse keys that differ in case only, or in case only from one that counts."""
    seen: set[str] = set()
    for key in found:
        folded = key.casefold()
        if folded in seen or known.get(folded, key) != key:
            raise InputError("two readers may take the keys of this message for different ones")
        seen.add(folded)


def failure(ident: Id | None, code: int, text: str) -> bytes:
    """
    Return the answer to a request that was not passed on.

    >>> failure(1, REFUSED, "no")
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32010,"message":"no"}}'
    """
    return write({"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}})


def tool_failure(ident: Id, text: str) -> bytes:
    """
    Return the answer to a tool call that was not passed on: a result that the model reads.

    >>> tool_failure("a", "no")
    b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"no"}],"isError":true}}'
    """
    result = {"content": [{"type": "text", "text": text}], "isError": True}
    return write({"jsonrpc": "2.0", "id": ident, "result": result})


def write(body: Mapping[str, object]) -> bytes:
    """
    Return a message's bytes, in ASCII and on one line.

    Raises:
        InputError: it holds a number that JSON cannot spell.
    """
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        raise InputError("the message holds a number that JSON cannot spell") from error
