"""
A conversation over OpenAI Chat Completions, which most other servers of models speak as well.

Decided here: how it is told and read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.agentloop.conversation import Answers, CallAnswer, ModelReply, Piece, SpokenLine
from broker.agentloop.dialect import ModelQuery, asked_call, rows_of

API: Final = "openai-chat"


class ChatDialect:
    """See ``ApiDialect``."""

    api = API

    def body(self, asked: ModelQuery, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the body of a request."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": asked.prompt}]
        for piece in pieces:
            messages += _told(piece)
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.about,
                    "parameters": dict(tool.schema),
                },
            }
            for tool in asked.tools
        ]
        return {"model": asked.model, "messages": messages, **({"tools": tools} if tools else {})}

    def gathering(self) -> ChatGathering:
        """Return what hears one answer."""
        return ChatGathering()

    def pieces(self, body: Mapping[str, Any]) -> list[Piece]:
        """Return the conversation that the body of a request tells."""
        found: list[Piece] = []
        for message in rows_of(body.get("messages")):
            role = message.get("role")
            if role == "user":
                found.append(SpokenLine(str(message.get("content", ""))))
            elif role == "assistant":
                found.append(reply_of(message))
            elif role == "tool":
                item = CallAnswer(str(message["tool_call_id"]), str(message.get("content", "")))
                before = found[-1] if found else None
                if isinstance(before, Answers):
                    found[-1] = Answers((*before.items, item))
                else:
                    found.append(Answers((item,)))
        return found


def _told(piece: Piece) -> list[dict[str, Any]]:
    if isinstance(piece, SpokenLine):
        return [{"role": "user", "content": piece.text}]
    if isinstance(piece, Answers):
        return [
            {"role": "tool", "tool_call_id": item.ref, "content": item.text} for item in piece.items
        ]
    if piece.api == API:
        return [dict(message) for message in piece.raw]
    return [_message(piece.text, [(c.ref, c.tool, json.dumps(c.arguments)) for c in piece.calls])]


def _message(text: str, calls: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": tool, "arguments": arguments}}
            for id_, tool, arguments in calls
        ]
    return message


def reply_of(message: Mapping[str, Any], finish: str = "") -> ModelReply:
    """Return the reply that a message of the assistant is."""
    calls = tuple(
        asked_call(str(call["id"]), str(call["function"]["name"]), call["function"]["arguments"])
        for call in rows_of(message.get("tool_calls"))
    )
    text = message.get("content")
    said = text if isinstance(text, str) else ""
    raw = (message,) if said or calls else ()
    return ModelReply(said, calls, API, raw, finish)


class ChatGathering:
    """See ``Gathering``."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, list[str]] = {}
        self._finish = ""

    def take(self, event: Mapping[str, Any]) -> str:
        """Take in one event; return the text that it adds."""
        added = ""
        for choice in rows_of(event.get("choices"))[:1]:
            self._finish = str(choice.get("finish_reason") or self._finish)
            delta = choice.get("delta") or {}
            added = str(delta.get("content") or "")
            for call in rows_of(delta.get("tool_calls")):
                kept = self._calls.setdefault(int(call.get("index", 0)), ["", "", ""])
                function = call.get("function") or {}
                kept[0] = kept[0] or str(call.get("id") or "")
                kept[1] = kept[1] or str(function.get("name") or "")
                kept[2] += str(function.get("arguments") or "")
        self._text.append(added)
        return added

    def reply(self) -> ModelReply | None:
        """Return the answer; None when it did not come to its end."""
        if not self._finish:
            return None
        calls = [
            # Not every server of this API names its calls.
            (id_ or f"call_{at}", tool, arguments or "{}")
            for at, (id_, tool, arguments) in sorted(self._calls.items())
        ]
        return reply_of(_message("".join(self._text), calls), self._finish)
