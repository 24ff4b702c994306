"""
Anthropic Messages, read and spelled.

Decided here: how a question and an answer of this protocol are read into ``talk``, and spelled from
it. Pure.
"""

from __future__ import annotations

import json
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

API: Final = "anthropic.messages"
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_STOPS: Final[Mapping[str, Stop]] = {
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_NAMES: Final[Mapping[Stop, str]] = {
    "end": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
}
_CHOICES: Final = ("auto", "any", "none")


def read_question(body: Mapping[str, Any]) -> ModelQuestion:
    """
    Return what a request asks.

    Raises:
        InputError: it holds what cannot be carried.
    """
    left_out: list[str] = []
    turns = [
        SpokenTurn(
            {"assistant": "model", "system": "system"}.get(text(row.get("role")), "user"),  # type: ignore[arg-type]  # one of the three
            tuple(_parts(row.get("content"), left_out)),
        )
        for row in rows(body.get("messages"))
    ]
    choice = table(body.get("tool_choice"))
    kind = text(choice.get("type"))
    form = table(table(body.get("output_config")).get("format") or body.get("output_format"))
    apart = choice.get("disable_parallel_tool_use")
    return ModelQuestion(
        _system(body.get("system")),
        talk.same_turns(turns),
        tuple(_tools(body.get("tools"), left_out)),
        f"={text(choice.get('name'))}" if kind == "tool" else kind or "auto",
        None if apart is None else apart is False,
        some(body.get("max_tokens")),
        tuple(words(body.get("stop_sequences"))),
        table(form.get("schema")) or None,
        body.get("stream") is True,
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _system(value: object) -> str:
    if isinstance(value, str):
        return value
    return "\n\n".join(filter(None, (text(row.get("text")) for row in rows(value))))


def _parts(content: object, left_out: list[str]) -> Iterator[Part]:
    if isinstance(content, str):
        yield TextPart(content)
    for block in rows(content):
        kind = block.get("type")
        if kind == "tool_use":
            yield CallPart(text(block.get("id")), text(block.get("name")), block.get("input") or {})
        elif kind == "tool_result":
            yield ResultPart(
                text(block.get("tool_use_id")),
                tuple(_plain(block.get("content"))),
                block.get("is_error") is True,
            )
        elif kind in _THOUGHTS:
            left_out.append("thoughts")
        else:
            yield from _plain([block])


def _plain(content: object) -> Iterator[TextPart | ImagePart]:
    """Yield the texts and images of a content."""
    if isinstance(content, str):
        yield TextPart(content)
    for block in rows(content):
        kind, source = block.get("type"), table(block.get("source"))
        if kind == "text":
            yield TextPart(text(block.get("text")))
        elif kind == "image" and source.get("type") == "base64":
            yield ImagePart(text(source.get("media_type")), text(source.get("data")))
        elif kind == "image" and source.get("type") == "url":
            yield ImagePart(url=text(source.get("url")))
        else:
            raise untold(f"a block of the type `{str(kind)[:40]}`")


def _tools(value: object, left_out: list[str]) -> Iterator[OfferedTool]:
    for row in rows(value):
        if "input_schema" not in row:
            left_out.append(f"the provider's own tool `{text(row.get('name'))[:40]}`")
            continue
        about = text(row.get("description"))
        yield OfferedTool(text(row.get("name")), about, table(row.get("input_schema")))


def write_question(asked: ModelQuestion, model: str, names: ToolNames) -> dict[str, object]:
    """Return the body of a request."""
    body: dict[str, object] = {
        "model": model,
        "max_tokens": asked.most_tokens or talk.MOST_TOKENS,
        "messages": list(_messages(asked, names)),
    }
    if asked.system:
        body["system"] = asked.system
    if asked.tools:
        body["tools"] = [
            {"name": name, "description": tool.about, "input_schema": dict(tool.plain)}
            for name, tool in names.told()
        ]
        body["tool_choice"] = _choice(asked, names)
    if asked.stops:
        body["stop_sequences"] = list(asked.stops)
    if asked.form is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(asked.form)}}
    if asked.stream:
        body["stream"] = True
    return body


def _choice(asked: ModelQuestion, names: ToolNames) -> dict[str, object]:
    if asked.choice.startswith("="):
        found: dict[str, object] = {"type": "tool", "name": names.spelled(asked.choice[1:])}
    else:
        found = {"type": asked.choice if asked.choice in _CHOICES else "auto"}
    if asked.parallel is not None and found["type"] != "none":
        found["disable_parallel_tool_use"] = not asked.parallel
    return found


def _messages(asked: ModelQuestion, names: ToolNames) -> Iterator[dict[str, object]]:
    turns = talk.same_turns(
        # There are two who speak; what was put between them is told by who asks.
        SpokenTurn("user", turn.parts) if turn.who == "system" else turn
        for turn in asked.turns
    )
    for turn in turns:
        # Results come first, right behind what they answer.
        ordered = sorted(turn.parts, key=lambda part: not isinstance(part, ResultPart))
        content = [block for part in ordered if (block := _block(part, names))]
        if content:
            role = "assistant" if turn.who == "model" else "user"
            yield {"role": role, "content": content}


def _block(part: Part, names: ToolNames) -> dict[str, object] | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, ImagePart):
        if part.url:
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    if isinstance(part, CallPart):
        return {
            "type": "tool_use",
            "id": talk.lawful_id(part.id),
            "name": names.spelled(part.name),
            "input": dict(talk.as_object(part.arguments)),
        }
    content = [block for each in part.parts if (block := _block(each, names))]
    return {
        "type": "tool_result",
        "tool_use_id": talk.lawful_id(part.id),
        "content": content,
        **({"is_error": True} if part.failed else {}),
    }


# ── answers ──


class MessagesHearing:
    """See ``talk.AnswerHearing``."""

    def __init__(self) -> None:
        self._counts = TokenCounts()
        self._stop: Stop = "end"
        self._calls: set[int] = set()

    def event(self, event: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what an event of a stream adds."""
        kind, at = event.get("type"), count(event.get("index"))
        if kind == "message_start":
            message = table(event.get("message"))
            self._counts = _counts(message.get("usage"), self._counts)
            return [AnswerBegan(text(message.get("id")), self._counts)]
        if kind == "content_block_start":
            block = table(event.get("content_block"))
            if block.get("type") == "tool_use":
                self._calls.add(at)
                return [CallBegan(at, text(block.get("id")), text(block.get("name")))]
            return [TextCame(text(block["text"]))] if block.get("text") else []
        if kind == "content_block_delta":
            delta = table(event.get("delta"))
            if delta.get("type") == "text_delta":
                return [TextCame(text(delta.get("text")))]
            if delta.get("type") == "input_json_delta" and at in self._calls:
                return [CallCame(at, text(delta.get("partial_json")))]
            return []
        if kind == "message_delta":
            reason = text(table(event.get("delta")).get("stop_reason"))
            self._stop = _STOPS.get(reason, "end") if reason else self._stop
            self._counts = _counts(event.get("usage"), self._counts)
            return []
        if kind == "message_stop":
            return [AnswerEnded(self._stop, self._counts)]
        return [_broke(event)] if kind == "error" else []

    def document(self, body: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what a whole answer says."""
        if body.get("type") == "error":
            return [_broke(body)]
        counts = _counts(body.get("usage"), TokenCounts())
        found: list[AnswerPiece] = [AnswerBegan(text(body.get("id")), counts)]
        for at, block in enumerate(rows(body.get("content"))):
            if block.get("type") == "text":
                found.append(TextCame(text(block.get("text"))))
            elif block.get("type") == "tool_use":
                found.append(CallBegan(at, text(block.get("id")), text(block.get("name"))))
                found.append(CallCame(at, json.dumps(block.get("input") or {})))
        return [*found, AnswerEnded(_STOPS.get(text(body.get("stop_reason")), "end"), counts)]


def _broke(body: Mapping[str, Any]) -> AnswerBroke:
    error = table(body.get("error"))
    return AnswerBroke(text(error.get("type")) or "api_error", text(error.get("message")))


def _counts(value: object, before: TokenCounts) -> TokenCounts:
    usage = table(value)
    cached = count(usage.get("cache_read_input_tokens"))
    asked = count(usage.get("input_tokens")) + cached
    asked += count(usage.get("cache_creation_input_tokens"))
    # Counts grow; an event that does not tell some leaves them.
    return TokenCounts(
        max(asked, before.asked),
        max(cached, before.cached),
        max(count(usage.get("output_tokens")), before.answered),
    )


class MessagesTelling:
    """See ``talk.AnswerTelling``."""

    def __init__(self, model: str, names: ToolNames) -> None:
        self._model = model
        self._names = names
        self._open = ""  # the kind of the block that is being told
        self._at = -1
        self._id = "msg_0"

    def tell(self, piece: AnswerPiece) -> bytes:
        """Return the events of a stream that say a piece."""
        return b"".join(event(body, str(body["type"])) for body in self._events(piece))

    def _events(self, piece: AnswerPiece) -> Iterator[dict[str, object]]:
        if isinstance(piece, AnswerBegan):
            message = self._message(piece.id, [], None, piece.counts)
            yield {"type": "message_start", "message": message}
        elif isinstance(piece, TextCame):
            if self._open != "text":
                yield from self._begin("text", {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": piece.text})
        elif isinstance(piece, CallBegan):
            block = {"type": "tool_use", "id": piece.id, "name": self._name(piece), "input": {}}
            yield from self._begin(f"call {piece.at}", block)
        elif isinstance(piece, CallCame):
            yield self._delta({"type": "input_json_delta", "partial_json": piece.text})
        elif isinstance(piece, AnswerEnded):
            yield from self._end()
            delta = {"stop_reason": _NAMES[piece.stop], "stop_sequence": None}
            yield {"type": "message_delta", "delta": delta, "usage": _usage(piece.counts)}
            yield {"type": "message_stop"}
        else:
            yield error_body(piece)

    def _begin(self, kind: str, block: Mapping[str, object]) -> Iterator[dict[str, object]]:
        yield from self._end()
        self._open = kind
        self._at += 1
        yield {"type": "content_block_start", "index": self._at, "content_block": dict(block)}

    def _end(self) -> Iterator[dict[str, object]]:
        if self._open:
            self._open = ""
            yield {"type": "content_block_stop", "index": self._at}

    def _delta(self, delta: Mapping[str, object]) -> dict[str, object]:
        return {"type": "content_block_delta", "index": self._at, "delta": dict(delta)}

    def _name(self, piece: CallBegan) -> str:
        return self._names.back(piece.name).name

    def _message(
        self, id_: str, content: list[object], stop: str | None, counts: TokenCounts
    ) -> dict[str, object]:
        return {
            "id": id_ or self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": _usage(counts),
        }

    def document(self, pieces: Iterable[AnswerPiece]) -> dict[str, object]:
        """Return a whole answer."""
        blocks: list[dict[str, Any]] = []
        calls: dict[int, dict[str, Any]] = {}
        id_, stop, counts = "", "end_turn", TokenCounts()
        for piece in pieces:
            if isinstance(piece, AnswerBegan):
                id_ = piece.id
            elif isinstance(piece, TextCame):
                if not blocks or blocks[-1]["type"] != "text":
                    blocks.append({"type": "text", "text": ""})
                blocks[-1]["text"] += piece.text
            elif isinstance(piece, CallBegan):
                name = self._name(piece)
                calls[piece.at] = {"type": "tool_use", "id": piece.id, "name": name, "input": ""}
                blocks.append(calls[piece.at])
            elif isinstance(piece, CallCame):
                calls[piece.at]["input"] += piece.text
            elif isinstance(piece, AnswerEnded):
                stop, counts = _NAMES[piece.stop], piece.counts
            else:
                return error_body(piece)
        for call in calls.values():
            call["input"] = dict(talk.as_object(talk.arguments_of(call["input"])))
        return self._message(id_, [*blocks], stop, counts)


def _usage(counts: TokenCounts) -> dict[str, object]:
    return {
        "input_tokens": counts.asked - counts.cached,
        "cache_read_input_tokens": counts.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": counts.answered,
    }


def error_body(broke: AnswerBroke) -> dict[str, object]:
    """
    Return how this protocol spells an error.

    >>> error_body(AnswerBroke("overloaded_error", "busy"))["error"]
    {'type': 'overloaded_error', 'message': 'busy'}
    """
    return {"type": "error", "error": {"type": broke.kind, "message": broke.message}}
