"""
Secrets in streams of events, where they arrive in pieces.

Decided here: which pieces of a stream belong together. A model's words come as many small texts,
each in an event of its own; a secret among them is cut anywhere. So the texts of one channel are
joined, searched as one, and what is hidden is cut out of the pieces again: the first piece of a
secret gets its placeholder, the others lose their part.

A channel is where in its event a text stands, together with the numbers beside it that tell one
answer, block or tool call from another. All that Messages, Chat Completions and Responses stream
stands under a key `delta`; Gemini's under `parts`.

Rules a maintainer keeps: every other byte of the stream stays as it is; a line that cannot be
read is searched as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from broker.redaction.hiding import Hider
from broker.redaction.texts import Span
from broker.redaction.trees import PART, hide_tree, indexed, joined, readable, spelled

_DATA: Final = re.compile(r"(data:[ ]?|)([{\[].*[}\]])(\s*)\Z", re.DOTALL)
_NUMBERS: Final = ("index", "item_id", "output_index", "content_index", "summary_index")
_GROWING: Final = frozenset({"delta", "parts"})
_FIXED: Final = frozenset({"type", "role", "id", "name", "object", "finish_reason", "stop_reason"})

Channel = tuple[object, ...]


@dataclass(slots=True)
class _Piece:
    """One text of a channel: the container that holds it, and under which key."""

    event: int
    path: str
    holder: dict[str, object] | list[object]
    key: str | int

    @property
    def text(self) -> str:
        return str(self.holder[self.key])  # type: ignore[index]  # the key is of its container

    def put(self, text: str) -> None:
        self.holder[self.key] = text  # type: ignore[index]  # the key is of its container


@dataclass(slots=True)
class _Event:
    """One line that holds JSON: what stands around it, and whether it was changed."""

    line: int
    before: str
    value: object
    after: str
    changed: bool = False
    pieces: list[tuple[Channel, _Piece]] = field(default_factory=list)


def hide_stream(text: str, hider: Hider) -> tuple[str, list[str]]:
    """
    Return a stream with its secrets hidden, and where they were: `data[N]` is its Nth object.

    >>> cut = 'data: {"delta":{"text":"PASSWORD=hun"}}\\n\\ndata: {"delta":{"text":"ter2 ok"}}\\n'
    >>> print(hide_stream(cut, Hider())[0], end="")
    data: {"delta":{"text":"PASSWORD=[hidden]"}}
    <BLANKLINE>
    data: {"delta":{"text":" ok"}}
    """
    lines = text.split("\n")
    events = list(_events(lines))
    paths = _hide_channels(events, hider)
    objects = {event.line for event in events}
    for number, event in enumerate(events):
        fresh, found = hide_tree(event.value, hider)
        if found or event.changed:
            lines[event.line] = event.before + spelled(fresh) + event.after
            paths += [joined_event(number, path) for path in found]
    for at, line in enumerate(lines):
        if at not in objects and (fresh_line := hider.text(line)) != line:
            lines[at] = fresh_line
            paths.append(f"line[{at}]{PART}")
    return "\n".join(lines), sorted(set(paths))


def joined_event(number: int, path: str) -> str:
    """
    Return the path of what stands in the Nth object of a stream.

    >>> joined_event(2, "delta.text"), joined_event(2, "[0]")
    ('data[2].delta.text', 'data[2][0]')
    """
    return f"data[{number}]{path}" if path.startswith("[") else f"data[{number}].{path}"


def _events(lines: list[str]) -> Iterator[_Event]:
    for at, line in enumerate(lines):
        found = _DATA.match(line)
        if found is None:
            continue
        try:
            value = readable(found[2])
        except (ValueError, RecursionError):
            continue
        yield _Event(at, found[1], value, found[3])


def _hide_channels(events: list[_Event], hider: Hider) -> list[str]:
    channels: dict[Channel, list[_Piece]] = {}
    for number, event in enumerate(events):
        kind = event.value.get("type") if isinstance(event.value, dict) else None
        for channel, piece in _pieces(event.value, number, "", (_number(kind),), growing=False):
            channels.setdefault(channel, []).append(piece)
    paths: list[str] = []
    for pieces in channels.values():
        if len(pieces) > 1:
            for piece in _hide_pieces(pieces, hider):
                events[piece.event].changed = True
                paths.append(joined_event(piece.event, piece.path) + PART)
    return paths


def _pieces(
    value: object, number: int, path: str, channel: Channel, *, growing: bool
) -> Iterator[tuple[Channel, _Piece]]:
    """Yield the texts of an event that grow from event to event, each with its channel."""
    if isinstance(value, dict):
        here = (*channel, *(_number(value[name]) for name in _NUMBERS if name in value))
        for key, inner in value.items():
            grows = growing or key in _GROWING
            there = joined(path, key)
            if isinstance(inner, str):
                if grows and key not in _FIXED:
                    yield (*here, key), _Piece(number, there, value, key)
            else:
                yield from _pieces(inner, number, there, (*here, key), growing=grows)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            there = indexed(path, at)
            if isinstance(inner, str) and growing:
                yield channel, _Piece(number, there, value, at)
            else:
                yield from _pieces(inner, number, there, channel, growing=growing)


def _number(value: object) -> object:
    """Return what tells a channel from another; an object or a list there tells nothing."""
    return value if isinstance(value, str | int) else None


def _hide_pieces(pieces: list[_Piece], hider: Hider) -> Iterator[_Piece]:
    """Hide the secrets of a channel, and yield the pieces that changed."""
    whole = "".join(piece.text for piece in pieces)
    fresh = _document_hidden(whole, hider)
    if fresh is not None:
        # The document is whole only as one, so its first piece holds it.
        for piece, text in zip(pieces, [fresh, *[""] * (len(pieces) - 1)], strict=True):
            piece.put(text)
            yield piece
        return
    found = hider.find(whole)
    marks = [hider.placeholder(whole[s.start : s.end], s.kind) for s in found]
    begin, first = 0, 0
    for piece in pieces:
        text = piece.text
        while first < len(found) and found[first].end <= begin:
            first += 1
        kept = _without(text, begin, found, marks, first)
        begin += len(text)
        if kept != text:
            piece.put(kept)
            yield piece


def _document_hidden(whole: str, hider: Hider) -> str | None:
    """Return the JSON document that the pieces make together, if it is one and holds secrets."""
    if whole[:1] not in ("{", "[") or whole[-1:] not in ("}", "]"):
        return None
    try:
        value = readable(whole)
    except (ValueError, RecursionError):
        return None
    fresh, paths = hide_tree(value, hider)
    return spelled(fresh) if paths else None


def _without(text: str, begin: int, found: list[Span], marks: list[str], first: int) -> str:
    """Return a piece that begins at ``begin`` of the whole without its parts of secrets."""
    parts: list[str] = []
    at, end = begin, begin + len(text)
    for number in range(first, len(found)):  # not a slice: each piece would copy all that follow
        secret, mark = found[number], marks[number]
        if secret.start >= end:
            break
        parts.append(text[at - begin : max(secret.start, at) - begin])
        if secret.start >= begin:
            parts.append(mark)
        at = min(secret.end, end)
    parts.append(text[at - begin :])
    return "".join(parts)
