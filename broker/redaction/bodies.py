"""
The bytes of a request or an answer without their secrets, and the headers and words beside them.

Decided here: how bytes are read: as JSON, as a stream of JSON, else as text, whatever is said of
them elsewhere. Not decided here: what a secret is.

Rules a maintainer keeps: bytes without a secret come back as the very same bytes; what is not
UTF-8 is searched nevertheless, and keeps its other bytes; no content makes this fail, or takes
more than a time linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.redaction.hiding import Hider
from broker.redaction.names import secret_name
from broker.redaction.streams import hide_stream
from broker.redaction.trees import PART, hide_tree, readable, spelled

_STREAM: Final = re.compile(r"(?:^|\n)data:|^\s*\{[^\n]*\}\s*\n\s*\{")
_LOOK_CHARS: Final = 65_536  # characters of a body in which a stream shows itself


@dataclass(frozen=True, slots=True)
class HiddenBody:
    """Bytes without their secrets, the paths of what was hidden, and how many by kind."""

    content: bytes
    paths: tuple[str, ...]
    counts: Mapping[str, int]


def hide_body(content: bytes, salt: bytes = b"") -> HiddenBody:
    """
    Return a body with its secrets hidden.

    Args:
        content: what was sent, or came; of any kind.
        salt: see ``broker.redaction.hiding``.

    >>> hide_body(b'{"apiKey":"k","n":1}')
    HiddenBody(content=b'{"apiKey":"[hidden]","n":1}', paths=('apiKey',), counts={'name': 1})
    """
    hider = Hider(salt)
    said, paths = hide_content(content, hider)
    return HiddenBody(said, tuple(paths), dict(sorted(hider.counts.items())) if paths else {})


def hide_content(content: bytes, hider: Hider) -> tuple[bytes, list[str]]:
    """
    Return a content with what ``hider`` finds hidden, and the paths of that.

    >>> hide_content(b"PASSWORD=k", Hider())
    (b'PASSWORD=[hidden]', ['(substring)'])
    """
    text = content.decode("utf-8", "surrogateescape")
    fresh, paths = _hidden(text, hider)
    return (fresh.encode("utf-8", "surrogateescape"), sorted(paths)) if paths else (content, [])


def _hidden(text: str, hider: Hider) -> tuple[str, list[str]]:
    before = hider.counts.copy()
    try:
        if _STREAM.search(text[:_LOOK_CHARS]):
            return hide_stream(text, hider)
        return _hidden_document(text, hider)
    except (ValueError, RecursionError):  # not JSON, or deeper than anything reads
        hider.counts = before
    fresh = hider.text(text)
    return fresh, [PART.strip()] if fresh != text else []


def _hidden_document(text: str, hider: Hider) -> tuple[str, list[str]]:
    if not text[:256].lstrip().startswith(("{", "[", '"')):
        raise ValueError("no JSON")
    fresh, paths = hide_tree(readable(text), hider)
    return spelled(fresh) if paths else text, [path or PART.strip() for path in paths]


def hide_headers(headers: Iterable[tuple[str, str]], hider: Hider) -> list[tuple[str, str]]:
    """
    Return the headers of a message with their secrets hidden: the whole value under such a name.

    >>> hide_headers([("X-Api-Key", "k"), ("accept", "*/*")], Hider())
    [('X-Api-Key', '[hidden]'), ('accept', '*/*')]
    """
    return [
        (name, hider.placeholder(value, "name") if secret_name(name) else hider.text(value))
        for name, value in headers
    ]
