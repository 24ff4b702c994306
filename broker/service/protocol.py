"""
The frames and messages of a session's socket.

Decided here: what a request and an answer look like on the wire. Not decided here: what the
answer is (``broker.service.server``).

A frame is its length in 4 bytes, big-endian, then that many bytes. A request is one frame:

- a hook's: ``hook AGENT\n`` and then the agent's payload, untouched; answered with one frame
  that holds either exactly ``answer/1 allow\n`` (say nothing, let the call go on), or
  ``answer/1 refuse\n``, one byte of exit code, and two counted texts, standard output and
  standard error, each 4 bytes of length and the bytes. The client needs no JSON for it.
- any other: a JSON object with ``op``; answered with one frame that holds a JSON object,
  ``{"ok":true,…}`` or ``{"ok":false,"error":{"code":…,"message":…}}``.

Rules a maintainer keeps: a frame is read whole or refused; nothing is guessed from a part of
one; an allow is a long, particular answer (the whole of ``ALLOW_ANSWER``), so that zeros, an
empty frame or a lost tail never read as one. ``broker.hookclient`` holds its own copy of this
framing, because it imports nothing; a test compares the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Protocol

from broker.errors import InputError, LimitError
from broker.limits import MAX_AGENT_CHARS, MAX_REQUEST_BYTES

LENGTH_BYTES: Final = 4
ALLOW: Final = b"answer/1 allow\n"
REFUSE: Final = b"answer/1 refuse\n"
HOOK: Final = b"hook "
_CHUNK: Final = 2**18


class Connection(Protocol):
    """What is needed of a connected socket."""

    def recv(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; empty at the end."""
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send everything."""
        ...


@dataclass(frozen=True, slots=True)
class HookRefusal:
    """What a hook's process must do to refuse: print these and exit with this code."""

    exit: int
    stdout: bytes
    stderr: bytes

    def encode(self) -> bytes:
        """
        Return the body of the answer's frame.

        >>> HookRefusal(2, b"", b"no").encode()
        b'answer/1 refuse\\n\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02no'
        """
        return b"".join((REFUSE, bytes((self.exit,)), _counted(self.stdout), _counted(self.stderr)))


@dataclass(frozen=True, slots=True)
class HookRequest:
    """A hook's payload, as its agent wrote it."""

    agent: str
    payload: bytes


def frame(body: bytes) -> bytes:
    """
    Return ``body`` as one frame.

    Raises:
        LimitError: it is longer than MAX_REQUEST_BYTES.
    """
    if len(body) > MAX_REQUEST_BYTES:
        raise LimitError(f"a message has at most {MAX_REQUEST_BYTES} bytes, this has {len(body)}")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def receive(connection: Connection, limit: int = MAX_REQUEST_BYTES) -> bytes | None:
    """
    Return the next frame's body, or None when the peer closed before a frame began.

    Raises:
        InputError: the peer closed inside a frame.
        LimitError: the frame says that it is longer than ``limit``.
        OSError: the connection failed or timed out.
    """
    head = _exactly(connection, LENGTH_BYTES)
    if not head:
        return None
    size = int.from_bytes(head, "big") if len(head) == LENGTH_BYTES else -1
    if size > limit:
        raise LimitError(f"a message has at most {limit} bytes, this says {size}")
    body = _exactly(connection, size) if size >= 0 else b""
    if len(body) != size:
        raise InputError("the connection ended inside a message", code="input.frame")
    return body


def read_request(body: bytes) -> HookRequest | dict[str, object]:
    """
    Take a request apart.

    Raises:
        InputError: neither a hook's request nor a JSON object.
    """
    if body.startswith(HOOK):
        line, newline, payload = body.partition(b"\n")
        agent = line[len(HOOK) :]
        if not newline or not 0 < len(agent) <= MAX_AGENT_CHARS or not agent.isascii():
            raise InputError("a hook's request begins with `hook AGENT` on a line of its own")
        return HookRequest(agent.decode(), payload)
    return read_object(body)


def read_object(body: bytes) -> dict[str, object]:
    """
    Read one JSON object strictly: UTF-8, no duplicate key, no NaN, not too deep.

    >>> read_object(b'{"a":1}')
    {'a': 1}

    Raises:
        InputError: anything else.
    """
    try:
        value = _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"the message is not JSON: {why}", code="input.json") from None
    if type(value) is not dict:
        raise InputError("the message is not a JSON object", code="input.json")
    return value


def write_object(value: dict[str, object]) -> bytes:
    """Return an object as compact JSON, in ASCII so that any text survives."""
    return _ENCODER.encode(value).encode()


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number of JSON")


# Made once: to make one takes longer than to read a small message.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


def _exactly(connection: Connection, size: int) -> bytes:
    """Return ``size`` bytes, or what there was before the peer closed."""
    parts, left = [], size
    while left > 0:
        part = connection.recv(min(left, _CHUNK))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
