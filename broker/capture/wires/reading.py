"""
Which protocol a request speaks, and bytes as what they say.

Decided here: which path is which protocol, and how an encoding of a body is undone for the record.
Not decided here: how a protocol is read.

Rules a maintainer keeps: no content makes this fail; what grows beyond what the record takes is
not undone further.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Final

from broker.capture.wires.anthropic import AnthropicReader
from broker.capture.wires.chat import ChatReader
from broker.capture.wires.gemini import GeminiReader
from broker.capture.wires.responses import ResponsesReader
from broker.capture.wires.said import SaidReply, SaidRequest, WireReader
from broker.limits import MAX_CAPTURED_BYTES

_ENDINGS: Final[tuple[tuple[str, WireReader], ...]] = (
    ("/messages", AnthropicReader()),
    ("/chat/completions", ChatReader()),
    ("/responses", ResponsesReader()),
    (":generateContent", GeminiReader()),
    (":streamGenerateContent", GeminiReader()),
)
_EITHER: Final = zlib.MAX_WBITS | 32  # a head of gzip's, or of zlib's


def wire_of(method: str, path: str) -> WireReader | None:
    """
    Return the protocol of a request that a model answers, or None.

    >>> wire_of("POST", "/v1/messages").api, wire_of("POST", "/v1/messages/count_tokens")
    ('anthropic.messages', None)
    """
    if method != "POST":
        return None
    return next((wire for ending, wire in _ENDINGS if path.endswith(ending)), None)


def undone(content: bytes, encoding: str) -> bytes | None:
    """
    Return a content without its encoding, or None where that cannot be undone.

    >>> undone(zlib.compress(b"a"), "deflate"), undone(b"a", ""), undone(b"a", "br")
    (b'a', b'a', None)
    """
    for name in reversed([each.strip().lower() for each in encoding.split(",") if each.strip()]):
        if name == "identity":
            continue
        if name not in ("gzip", "x-gzip", "deflate"):
            return None
        found = _inflated(content)
        if found is None:
            return None
        content = found
    return content


def _inflated(content: bytes) -> bytes | None:
    # Some send `deflate` without the head that it should have.
    for bits in (_EITHER, -zlib.MAX_WBITS):
        engine = zlib.decompressobj(bits)
        try:
            found = engine.decompress(content, MAX_CAPTURED_BYTES + 1)
        except zlib.error:
            continue
        return found if len(found) <= MAX_CAPTURED_BYTES else None
    return None


def json_of(content: bytes) -> object:
    """
    Return the JSON value that a body spells, or None.

    >>> json_of(b'{"a":1}'), json_of(b"x")
    ({'a': 1}, None)
    """
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found


def asked(wire: WireReader, body: object, path: str) -> SaidRequest:
    """Return what a request says; one that is no object says nothing."""
    said: Mapping[str, object] = body if isinstance(body, dict) else {}
    return wire.asked(said, path)


def reply(wire: WireReader, content: bytes, media_type: str) -> SaidReply:
    """Return what an answer says."""
    text = content.decode("utf-8", "replace")
    stream = "event-stream" in media_type or text.startswith(("data:", "event:"))
    return wire.reply(text, stream=stream)
