"""
What is told of a request to a model, and of its answer, whatever protocol they are in.

Decided here: the shapes that the four protocols are read into, and when two messages are the same
one. Not decided here: how a protocol is read (its own file).

Rule a maintainer keeps: reading never fails; what is not understood is not told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from broker.records.model import Failure

# What providers and agents put beside a content, and may change when it is sent again.
_BESIDE: Final = frozenset(
    ("cache_control", "status", "internal_chat_message_metadata_passthrough")
)

Who = Literal["user", "model"]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call that a model made; ``id`` is the provider's, or empty where it has none."""

    id: str
    name: str
    arguments: object


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call came to, as the model was told; ``failed`` is None where nothing says so."""

    id: str
    name: str
    content: object
    failed: bool | None = None


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """One message of a conversation: whose it is, what it is known by, and what is in it."""

    who: Who
    digest: str
    calls: tuple[ModelCall, ...] = ()
    results: tuple[CallResult, ...] = ()


@dataclass(frozen=True, slots=True)
class SaidRequest:
    """
    A request. ``frame`` is what it is asked within: instructions and the names of tools.

    ``tools`` are the names of the tools that it offers; a question on the side offers none.
    """

    model: str
    messages: tuple[SaidMessage, ...]
    tools: tuple[str, ...]
    frame: str
    stream: bool = False


@dataclass(frozen=True, slots=True)
class SaidReply:
    """An answer; ``failure`` says why it is none, or not whole. Counts are of tokens."""

    text: str = ""
    calls: tuple[ModelCall, ...] = ()
    finish: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    failure: Failure | None = None


class WireReader(Protocol):
    """One protocol."""

    api: str

    def asked(self, body: Mapping[str, object], path: str) -> SaidRequest:
        """Return what a request says."""
        ...

    def reply(self, text: str, *, stream: bool) -> SaidReply:
        """Return what an answer with a good status says."""
        ...


def digest(value: object) -> str:
    """
    Return what a message is known by: the same where only what stands beside it differs.

    >>> digest({"a": 1, "cache_control": {"type": "ephemeral"}}) == digest({"a": 1})
    True
    """
    text = json.dumps(bare(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def bare(value: object) -> object:
    """Return a JSON value without what stands beside its content."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key not in _BESIDE}
    if isinstance(value, list):
        return [bare(each) for each in value]
    return value


def framed(instructions: object, tools: Iterable[str]) -> str:
    """Return what the instructions and tools of a conversation are known by."""
    # Behind their beginning, instructions tell of dates, branches and files, which change.
    text = texts(instructions)[:200]
    return digest([text, sorted(tools)])


# ── JSON of any shape ──


def rows(value: object) -> list[dict[str, object]]:
    """Return the objects in a list; nothing where there is no list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def table(value: object) -> Mapping[str, object]:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def text_of(value: object) -> str:
    """Return a text, or an empty one."""
    return value if isinstance(value, str) else ""


def texts(value: object) -> str:
    """
    Return the text of a content: itself, or the texts of its parts, one a line.

    >>> texts([{"type": "text", "text": "a"}, {"text": "b"}, {"type": "image"}])
    'a\\nb'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return texts(value.get("parts"))
    return "\n".join(t for t in (text_of(part.get("text")) for part in rows(value)) if t)


def value_of(text: str) -> object:
    """
    Return the JSON value that a text of arguments spells, or the text where it spells none.

    >>> value_of('{"a": 1}'), value_of("*** Begin Patch")
    ({'a': 1}, '*** Begin Patch')
    """
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def names(tools: Iterable[object]) -> tuple[str, ...]:
    """Return the names among some values."""
    return tuple(name for name in tools if isinstance(name, str) and name)
