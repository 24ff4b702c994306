"""
OpenAI Chat Completions, read and spelled.

Decided here: how a question and an answer of this protocol are read into ``talk``, and spelled from
it. Its results hold texts alone, so one with an image is an error. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from broker.replay.translation import talk
from broker.replay.translation.shapes import count, event, rows, some, table, text, words
from broker.replay.translation.talk import (
    AnswerBegan,
    AnswerBroke,
    AnswerEnded,
    AnswerPiece,
    CallBegan,
    CallCame,
    CallPart,
    ImagePart,
    ModelQuestion,
    OfferedTool,
    Part,
    ResultPart,
    SpokenTurn,
    Stop,
    TextCame,
    TextPart,
    TokenCounts,
    ToolNames,
    untold,
)

API: Final = "openai.chat"
_STOPS: Final[Mapping[str, Stop]] = {
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refusal",
}
_NAMES: Final[Mapping[Stop, str]] = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
}
_CHOICES: Final = {"required": "any", "any": "required"}
_SYSTEM: Final = ("system", "developer")


def read_question(body: Mapping[str, Any]) -> ModelQuestion:
    """
    Return what a request asks.

    Raises:
        InputError: it holds what cannot be carried.
    """
    system, turns = _system(rows(body.get("messages")))
    chosen = body.get("tool_choice")
    named = table(chosen)
    name = text(table(named.get("function") or named.get("custom")).get("name"))
    choice = text(chosen) or "auto"
    form = table(table(body.get("response_format")).get("json_schema"))
    apart = body.get("parallel_tool_calls")
    return ModelQuestion(
        system,
        talk.same_turns(turns),
        tuple(_tools(body.get("tools"))),
        f"={name}" if name else _CHOICES.get(choice, choice),
        apart if isinstance(apart, bool) else None,
        some(body.get("max_completion_tokens")) or some(body.get("max_tokens")),
        tuple(words(body.get("stop"))),
        table(form.get("schema")) or None,
        body.get("stream") is True,
        table(body.get("stream_options")).get("include_usage") is True,
    )


def _system(messages: list[dict[str, Any]]) -> tuple[str, list[SpokenTurn]]:
    """Return the instructions that a conversation begins with, and the rest of it."""
    first = next(
        (n for n, row in enumerate(messages) if row.get("role") not in _SYSTEM), len(messages)
    )
    begun = ["".join(_texts(row.get("content"))) for row in messages[:first]]
    return "\n\n".join(filter(None, begun)), list(map(_turn, messages[first:]))


def _turn(row: Mapping[str, Any]) -> SpokenTurn:
    role, content = row.get("role"), row.get("content")
    if role in ("tool", "function"):
        parts = tuple(TextPart(each) for each in _texts(content))
        return SpokenTurn("user", (ResultPart(text(row.get("tool_call_id")), parts),))
    if role == "assistant":
        said: list[Part] = [TextPart(each) for each in _texts(content) if each]
        return SpokenTurn("model", (*said, *map(_call, rows(row.get("tool_calls")))))
    return SpokenTurn("system" if role in _SYSTEM else "user", tuple(_parts(content)))


def _call(call: Mapping[str, Any]) -> CallPart:
    custom, function = table(call.get("custom")), table(call.get("function"))
    if custom:
        return CallPart(text(call.get("id")), text(custom.get("name")), text(custom.get("input")))
    arguments = talk.arguments_of(text(function.get("arguments")))
    return CallPart(text(call.get("id")), text(function.get("name")), arguments)


def _texts(content: object) -> Iterator[str]:
    """Yield the texts of a content that holds nothing else."""
    for part in _parts(content):
        if not isinstance(part, TextPart):
            raise untold("an image in a place of texts")
        yield part.text


def _parts(content: object) -> Iterator[TextPart | ImagePart]:
    if isinstance(content, str):
        yield TextPart(content)
    for part in rows(content):
        kind = part.get("type")
        if kind in ("text", "refusal"):
            yield TextPart(text(part.get(kind)))
        elif kind == "image_url":
            yield ImagePart.read(text(table(part.get("image_url")).get("url")))
        else:
            raise untold(f"a part of the type `{str(kind)[:40]}`")


def _tools(value: object) -> Iterator[OfferedTool]:
    for row in rows(value):
        custom = table(row.get("custom"))
        if custom:
            yield custom_tool(custom)
            continue
        function = table(row.get("function"))
        about, schema = text(function.get("description")), table(function.get("parameters"))
        yield OfferedTool(text(function.get("name")), about, schema or _NOTHING)


_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}}


def custom_tool(custom: Mapping[str, Any]) -> OfferedTool:
    """Return a tool that takes a text; what the text must be like stands in its description."""
    form = table(custom.get("format"))
    grammar = text(table(form.get("grammar")).get("definition") or form.get("definition"))
    about = text(custom.get("description"))
    if grammar:
        about += f"\n\nThe text of `input` follows this grammar:\n{grammar}"
    return OfferedTool(text(custom.get("name")), about, kind="custom")


def write_question(asked: ModelQuestion, model: str, names: ToolNames) -> dict[str, object]:
    """
    Return the body of a request.

    Raises:
        InputError: a result holds an image.
    """
    system = [{"role": "system", "content": asked.system}] if asked.system else []
    turns = [message for turn in asked.turns for message in _messages(turn, names)]
    body: dict[str, object] = {"model": model, "messages": [*system, *turns]}
    if asked.most_tokens is not None:
        body["max_completion_tokens"] = asked.most_tokens
    if asked.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": tool.about,
                    "parameters": dict(tool.plain),
                },
            }
            for name, tool in names.told()
        ]
        if asked.choice.startswith("="):
            function = {"name": names.spelled(asked.choice[1:])}
            body["tool_choice"] = {"type": "function", "function": function}
        else:
            body["tool_choice"] = _CHOICES.get(asked.choice, asked.choice)
        if asked.parallel is not None:
            body["parallel_tool_calls"] = asked.parallel
    if asked.stops:
        body["stop"] = list(asked.stops)
    if asked.form is not None:
        schema = {"name": "answer", "schema": dict(asked.form)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if asked.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _messages(turn: SpokenTurn, names: ToolNames) -> Iterator[dict[str, object]]:
    for part in turn.parts:
        if isinstance(part, ResultPart):
            if any(isinstance(each, ImagePart) for each in part.parts):
                raise untold("an image in a tool's result")
            said = "\n".join(each.text for each in part.parts if isinstance(each, TextPart))
            id_ = talk.lawful_id(part.id)
            yield {"role": "tool", "tool_call_id": id_, "content": said}
    content = [_spelled(p) for p in turn.parts if isinstance(p, TextPart | ImagePart)]
    calls = [_told(part, names) for part in turn.parts if isinstance(part, CallPart)]
    if not content and not calls:
        return
    plain = len(content) == 1 and content[0]["type"] == "text"
    said_: object = content[0]["text"] if plain else content or None
    role = {"model": "assistant", "system": "system"}.get(turn.who, "user")
    yield {"role": role, "content": said_, **({"tool_calls": calls} if calls else {})}


def _spelled(part: TextPart | ImagePart) -> dict[str, object]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.address}}


def _told(call: CallPart, names: ToolNames) -> dict[str, object]:
    function = {"name": names.spelled(call.name), "arguments": talk.as_text(call.arguments)}
    return {"id": talk.lawful_id(call.id), "type": "function", "function": function}


# ── answers ──


class CompletionsHearing:
    """See ``talk.AnswerHearing``. The counts come behind the reason to stop."""

    def __init__(self) -> None:
        self._began = False
        self._stop: Stop | None = None
        self._counts = TokenCounts()
        self._calls: set[int] = set()

    def event(self, event: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what an event of a stream adds; the mark of the end is ``{"done": True}``."""
        if event.get("done") is True:
            return [] if self._stop is None else [AnswerEnded(self._stop, self._counts)]
        if event.get("error"):
            return [_broke(event)]
        found: list[AnswerPiece] = []
        if not self._began:
            self._began = True
            found.append(AnswerBegan(text(event.get("id"))))
        self._counts = _counts(event.get("usage")) or self._counts
        for choice in rows(event.get("choices"))[:1]:
            delta = table(choice.get("delta"))
            said = text(delta.get("content")) + text(delta.get("refusal"))
            found += [TextCame(said)] if said else []
            for call in rows(delta.get("tool_calls")):
                found += self._call(call)
            if reason := text(choice.get("finish_reason")):
                self._stop = _STOPS.get(reason, "end")
        return found

    def _call(self, call: Mapping[str, Any]) -> Iterator[AnswerPiece]:
        at, function = count(call.get("index")), table(call.get("function"))
        if at not in self._calls:
            self._calls.add(at)
            # Not every server of this protocol names its calls.
            yield CallBegan(at, text(call.get("id")) or f"call_{at}", text(function.get("name")))
        if said := text(function.get("arguments")):
            yield CallCame(at, said)

    def document(self, body: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what a whole answer says."""
        choice = next(iter(rows(body.get("choices"))), None)
        if choice is None:
            return [_broke(body)]
        message = table(choice.get("message"))
        calls = [{"index": at, **call} for at, call in enumerate(rows(message.get("tool_calls")))]
        said = {**message, "tool_calls": calls}
        chunk = {"id": body.get("id"), "usage": body.get("usage")}
        chunk["choices"] = [{"delta": said, "finish_reason": choice.get("finish_reason") or "stop"}]
        return [*self.event(chunk), *self.event({"done": True})]


def _broke(body: Mapping[str, Any]) -> AnswerBroke:
    error = table(body.get("error"))
    kind = text(error.get("type")) or text(error.get("code")) or "api_error"
    return AnswerBroke(kind, text(error.get("message")) or "the answer holds nothing")


def _counts(value: object) -> TokenCounts | None:
    usage = table(value)
    if not usage:
        return None
    cached = count(table(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return TokenCounts(
        count(usage.get("prompt_tokens")), cached, count(usage.get("completion_tokens"))
    )


class CompletionsTelling:
    """See ``talk.AnswerTelling``."""

    def __init__(self, model: str, names: ToolNames, *, counted: bool = True) -> None:
        self._model = model
        self._names = names
        self._counted = counted
        self._id = "chatcmpl-0"
        self._calls: dict[int, int] = {}

    def tell(self, piece: AnswerPiece) -> bytes:
        """Return the events of a stream that say a piece."""
        if isinstance(piece, AnswerBegan):
            self._id = piece.id or self._id
            return self._chunk({"role": "assistant", "content": ""})
        if isinstance(piece, TextCame):
            return self._chunk({"content": piece.text})
        if isinstance(piece, CallBegan):
            at = self._calls.setdefault(piece.at, len(self._calls))
            function = {"name": self._names.back(piece.name).name, "arguments": ""}
            call = {"index": at, "id": piece.id, "type": "function", "function": function}
            return self._chunk({"tool_calls": [call]})
        if isinstance(piece, CallCame):
            at = self._calls[piece.at]
            return self._chunk(
                {"tool_calls": [{"index": at, "function": {"arguments": piece.text}}]}
            )
        if isinstance(piece, AnswerEnded):
            ended = self._chunk({}, _NAMES[piece.stop])
            counts = event({**self._head("chat.completion.chunk"), "choices": [], **_usage(piece)})
            return ended + (counts if self._counted else b"") + b"data: [DONE]\n\n"
        return event(error_body(piece))

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self._id, "object": kind, "created": 0, "model": self._model}

    def _chunk(self, delta: Mapping[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
        return event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def document(self, pieces: Iterable[AnswerPiece]) -> dict[str, object]:
        """Return a whole answer."""
        said: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        ended = AnswerEnded("end")
        for piece in pieces:
            if isinstance(piece, AnswerBegan):
                self._id = piece.id or self._id
            elif isinstance(piece, TextCame):
                said.append(piece.text)
            elif isinstance(piece, CallBegan):
                function = {"name": self._names.back(piece.name).name, "arguments": ""}
                calls[piece.at] = {"id": piece.id, "type": "function", "function": function}
            elif isinstance(piece, CallCame):
                calls[piece.at]["function"]["arguments"] += piece.text
            elif isinstance(piece, AnswerEnded):
                ended = piece
            else:
                return error_body(piece)
        message: dict[str, object] = {"role": "assistant", "content": "".join(said) or None}
        if calls:
            message["tool_calls"] = list(calls.values())
        choice = {"index": 0, "message": message, "finish_reason": _NAMES[ended.stop]}
        return {**self._head("chat.completion"), "choices": [choice], **_usage(ended)}


def _usage(ended: AnswerEnded) -> dict[str, object]:
    counts = ended.counts
    return {
        "usage": {
            "prompt_tokens": counts.asked,
            "completion_tokens": counts.answered,
            "total_tokens": counts.asked + counts.answered,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
        }
    }


def error_body(broke: AnswerBroke) -> dict[str, object]:
    """
    Return how this protocol spells an error.

    >>> error_body(AnswerBroke("server_error", "busy"))["error"]["message"]
    'busy'
    """
    return {
        "error": {"message": broke.message, "type": broke.kind, "code": broke.kind, "param": None}
    }
