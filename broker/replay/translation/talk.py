"""
What is asked of a model and what it answers, in no protocol's words.

Decided here: what of a question and of an answer is carried from one protocol to another, and by
which name a tool is called where names have other rules. Not decided here: how a protocol spells it
(its own module), what is sent where (``broker.replay.translation.other``). Pure.

Carried: instructions, texts, images, tools with their schemas, calls and results with their ids,
which tool must be called, whether several may be, the most tokens, words to stop at, and a schema
for the answer. Left out, and said: what a model thought, which only its maker can read again,
tools that a provider runs itself, and how warm the answer is to be. Anything else is an error that
names it, since a conversation with a hole in it is another conversation.

Rule a maintainer keeps: whoever is asked gets the whole question or none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from broker.errors import InputError

Who = Literal["user", "model", "system"]
Stop = Literal["end", "tools", "length", "refusal"]
ToolKind = Literal["function", "custom", "local_shell"]

MOST_TOKENS: Final = 16_384  # of an answer, for a protocol that wants a number
LONGEST_NAME: Final = 64
_LAWFUL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNLAWFUL: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS: Final = 8
_TYPED: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
_SHELL: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"command": {"type": "array", "items": {"type": "string"}}},
    "required": ["command"],
}


@dataclass(frozen=True, slots=True)
class TextPart:
    """Some text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image: its media type and its content in base64, or where it lies."""

    media_type: str = ""
    data: str = ""
    url: str = ""

    @property
    def address(self) -> str:
        """Where it lies, or itself as an address."""
        return self.url or f"data:{self.media_type};base64,{self.data}"

    @classmethod
    def read(cls, address: str) -> ImagePart:
        """
        Return the image at an address, which may hold it.

        >>> ImagePart.read("data:image/png;base64,aGk=").media_type
        'image/png'
        """
        head, comma, data = address.partition(",")
        if comma and head.startswith("data:") and head.endswith(";base64"):
            return cls(head[5:-7], data)
        return cls(url=address)


@dataclass(frozen=True, slots=True)
class CallPart:
    """A call: the arguments as an object, or as the text that a tool takes which has no schema."""

    id: str
    name: str
    arguments: object


@dataclass(frozen=True, slots=True)
class ResultPart:
    """What a call came to."""

    id: str
    parts: tuple[TextPart | ImagePart, ...]
    failed: bool = False


Part = TextPart | ImagePart | CallPart | ResultPart


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """What one of them said."""

    who: Who
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that a model may call; ``space`` is the group that it is of, where it is of one."""

    name: str
    about: str = ""
    schema: Mapping[str, object] = field(default_factory=dict)
    kind: ToolKind = "function"
    space: str = ""

    @property
    def plain(self) -> Mapping[str, object]:
        """Its schema as a function's."""
        if self.kind == "custom":
            return _TYPED
        return _SHELL if self.kind == "local_shell" else self.schema


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """
    A request. ``choice`` is ``auto``, ``any``, ``none``, or ``=`` and the name of a tool.

    ``form`` is a JSON schema that the answer has to follow. ``left_out`` says what is not carried.
    """

    system: str = ""
    turns: tuple[SpokenTurn, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    choice: str = "auto"
    parallel: bool | None = None
    most_tokens: int | None = None
    stops: tuple[str, ...] = ()
    form: Mapping[str, object] | None = None
    stream: bool = False
    counted: bool = True  # whether a stream is to end with the counts of tokens
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens: of the question (``cached`` of them were known already), and of the answer."""

    asked: int = 0
    cached: int = 0
    answered: int = 0


# ── an answer, piece by piece ──


@dataclass(frozen=True, slots=True)
class AnswerBegan:
    """An answer begins: its id."""

    id: str
    counts: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class TextCame:
    """Some more of the text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call begins; ``at`` tells it from the others of the answer."""

    at: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallCame:
    """Some more of the text of a call's arguments."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class AnswerEnded:
    """An answer ends, and why."""

    stop: Stop
    counts: TokenCounts = TokenCounts()


@dataclass(frozen=True, slots=True)
class AnswerBroke:
    """An answer that is none: what the provider says."""

    kind: str
    message: str


AnswerPiece = AnswerBegan | TextCame | CallBegan | CallCame | AnswerEnded | AnswerBroke


class AnswerHearing(Protocol):
    """Reads the answers of one protocol."""

    def event(self, event: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what an event of a stream adds."""

    def document(self, body: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what a whole answer says."""


class AnswerTelling(Protocol):
    """Spells one answer in one protocol."""

    def tell(self, piece: AnswerPiece) -> bytes:
        """Return the events of a stream that say a piece."""

    def document(self, pieces: Iterable[AnswerPiece]) -> dict[str, object]:
        """Return a whole answer."""


class ToolNames:
    """
    By which names the tools of a question are called where names have other rules.

    >>> names = ToolNames([OfferedTool("do.it"), OfferedTool("get", space="mcp__a")])
    >>> names.out("get", "mcp__a"), names.back(names.out("do.it")).name
    ('mcp__a__get', 'do.it')
    """

    def __init__(self, tools: Iterable[OfferedTool]) -> None:
        self._out: dict[tuple[str, str], str] = {}
        self._back: dict[str, OfferedTool] = {}
        for tool in tools:
            name = _lawful_name(f"{tool.space}__{tool.name}" if tool.space else tool.name)
            if name in self._back:  # two that are alike but for what is not lawful
                name = _marked(name, f"{tool.space}\0{tool.name}")
            self._out[tool.space, tool.name] = name
            self._back[name] = tool

    def out(self, name: str, space: str = "") -> str:
        """Return by which name a tool is called there; one that is not offered has one too."""
        return self._out.get((space, name)) or _lawful_name(f"{space}__{name}" if space else name)

    def spelled(self, name: str) -> str:
        """Return by which name a call is told there that names its tool as ``whole`` does."""
        space, mark, inner = name.rpartition(".")
        if mark and (space, inner) in self._out:
            return self.out(inner, space)
        return self.out(name)

    def back(self, name: str) -> OfferedTool:
        """Return the tool that a model calls by a name."""
        return self._back.get(name) or OfferedTool(name)

    def told(self) -> list[tuple[str, OfferedTool]]:
        """Return the tools with their names there."""
        return [(name, tool) for name, tool in self._back.items()]


def whole(tool: str, space: str) -> str:
    """Return the name of a call's tool, with the group that it is of."""
    return f"{space}.{tool}" if space else tool


def lawful_id(text: str) -> str:
    """
    Return an id of a call by which any protocol knows it.

    >>> lawful_id("call_1"), lawful_id("a:1") == lawful_id("a:1") != lawful_id("a;1")
    ('call_1', True)
    """
    return text if _LAWFUL.fullmatch(text) else _marked(_UNLAWFUL.sub("_", text) or "call", text)


def _lawful_name(text: str) -> str:
    if _LAWFUL.fullmatch(text):
        return text
    return _marked(_UNLAWFUL.sub("_", text) or "tool", text)


def _marked(name: str, text: str) -> str:
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: LONGEST_NAME - _DIGEST_CHARS - 1]}_{mark}"


def arguments_of(text: str) -> object:
    """Return the arguments that a text spells, or the text where it spells no object."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text


def as_object(arguments: object) -> Mapping[str, object]:
    """Return arguments as a function takes them: those of a tool without a schema as ``input``."""
    return arguments if isinstance(arguments, Mapping) else {"input": arguments}


def as_text(arguments: object) -> str:
    """Return arguments as a text."""
    return json.dumps(as_object(arguments), ensure_ascii=False)


def untold(what: str) -> InputError:
    """Return the error for what cannot be carried."""
    return InputError(f"{what} cannot be told to a model of another provider")


def same_turns(turns: Iterable[SpokenTurn]) -> tuple[SpokenTurn, ...]:
    """Return turns with those of the same speaker, one after another, as one; none is empty."""
    found: list[SpokenTurn] = []
    for turn in turns:
        if not turn.parts:
            continue
        if found and found[-1].who == turn.who:
            found[-1] = SpokenTurn(turn.who, found[-1].parts + turn.parts)
        else:
            found.append(turn)
    return tuple(found)
