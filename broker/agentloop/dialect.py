"""
How a conversation is told over one API: what a dialect must do, and what all of them share.

A dialect is pure. It makes the body of a request, gathers the events of an answer, and reads both
again from a record; the official client sends the one and hears the other (``clients``).

Rules a maintainer keeps: the bodies of two turns begin alike, so that what was recorded, and what a
provider keeps ready, is used again; an answer is a reply only when it says so itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from broker.agentloop.conversation import AskedCall, ModelReply, Piece

MAX_OUTPUT_TOKENS: Final = 16_384  # tokens of one answer, where the API wants a number


@dataclass(frozen=True, slots=True)
class ToldTool:
    """A tool as a model is told of it."""

    name: str
    about: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """What a model is asked: by which name, under which prompt, with which tools."""

    model: str
    prompt: str
    tools: Sequence[ToldTool]


class Gathering(Protocol):
    """An answer that is being heard."""

    def take(self, event: Mapping[str, Any]) -> str:
        """Take in one event; return the text that it adds to what the person reads."""

    def reply(self) -> ModelReply | None:
        """Return the answer; None when it did not come to its end."""


class ApiDialect(Protocol):
    """One API."""

    @property
    def api(self) -> str:
        """Its name, as records have it."""

    def body(self, asked: ModelQuery, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the body of a request, without what makes it a stream."""

    def gathering(self) -> Gathering:
        """Return what hears one answer."""

    def pieces(self, body: Mapping[str, Any]) -> list[Piece]:
        """Return the conversation that the body of a request tells."""


def asked_call(id_: str, tool: str, text: str) -> AskedCall:
    """
    Return a call whose arguments came as a text.

    >>> asked_call("c", "read", '{"path": "a"}').arguments
    {'path': 'a'}
    >>> asked_call("c", "read", '{"path').fault
    'the arguments are no JSON object'
    """
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return AskedCall(id_, tool, {}, "the arguments are no JSON object")
    return AskedCall(id_, tool, found)


def gathered(dialect: ApiDialect, stream: str) -> ModelReply | None:
    """Return the answer that the recorded text of a stream holds; None where it holds none."""
    hearing = dialect.gathering()
    for event in stream_events(stream):
        hearing.take(event)
    return hearing.reply()


def stream_events(stream: str) -> Iterator[Mapping[str, Any]]:
    """
    Yield the events of a stream that are JSON objects (WHATWG HTML, server-sent events).

    >>> list(stream_events('event: a\\ndata: {"b": 1}\\n\\ndata: [DONE]\\n\\n'))
    [{'b': 1}]
    """
    for block in stream.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(
            line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:")
        )
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def rows_of(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; nothing where there is no list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def joined_texts(parts: Iterable[Mapping[str, Any]], kind: str) -> str:
    """Return the texts of the parts of a kind."""
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") == kind)
