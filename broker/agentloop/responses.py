"""
A conversation over OpenAI Responses.

Decided here: how it is told and read. Nothing is kept at the provider: each request holds the whole
conversation, and what the model thought goes back encrypted, as it came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.agentloop.conversation import Answers, CallAnswer, ModelReply, Piece, SpokenLine
from broker.agentloop.dialect import ModelQuery, asked_call, joined_texts, rows_of

API: Final = "openai-responses"
_WHOLE: Final = ("response.completed", "response.incomplete")
_OURS: Final = ("function_call", "reasoning")
_WITHOUT_THOUGHTS: Final = ("gpt-3", "gpt-4")  # models that refuse to be asked for them


class ResponsesDialect:
    """See ``ApiDialect``."""

    api = API

    def body(self, asked: ModelQuery, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the body of a request."""
        items: list[dict[str, Any]] = []
        for piece in pieces:
            items += _told(piece)
        thinks = not asked.model.startswith(_WITHOUT_THOUGHTS)
        return {
            "model": asked.model,
            "instructions": asked.prompt,
            "store": False,
            **({"include": ["reasoning.encrypted_content"]} if thinks else {}),
            "tools": [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.about,
                    "parameters": dict(tool.schema),
                    "strict": False,
                }
                for tool in asked.tools
            ],
            "input": items,
        }

    def gathering(self) -> ResponsesGathering:
        """Return what hears one answer."""
        return ResponsesGathering()

    def pieces(self, body: Mapping[str, Any]) -> list[Piece]:
        """Return the conversation that the body of a request tells."""
        found: list[Piece] = []
        said: list[Mapping[str, Any]] = []
        answers: list[CallAnswer] = []
        for item in [*rows_of(body.get("input")), {}]:
            kind, role = item.get("type", "message"), item.get("role")
            if kind in _OURS or role == "assistant":
                said.append(item)
                continue
            if said:
                found.append(reply_of(said))
                said = []
            if kind == "function_call_output":
                answers.append(CallAnswer(str(item["call_id"]), str(item["output"])))
                continue
            if answers:
                found.append(Answers(tuple(answers)))
                answers = []
            if role == "user":
                found.append(SpokenLine(str(item.get("content", ""))))
        return found


def _told(piece: Piece) -> list[dict[str, Any]]:
    if isinstance(piece, SpokenLine):
        return [{"role": "user", "content": piece.text}]
    if isinstance(piece, Answers):
        return [
            {"type": "function_call_output", "call_id": item.ref, "output": item.text}
            for item in piece.items
        ]
    if piece.api == API:
        return [dict(item) for item in piece.raw]
    text = [{"role": "assistant", "content": piece.text}] if piece.text else []
    return [
        *text,
        *(
            {
                "type": "function_call",
                "call_id": call.ref,
                "name": call.tool,
                "arguments": json.dumps(call.arguments),
            }
            for call in piece.calls
        ),
    ]


def reply_of(items: Sequence[Mapping[str, Any]], finish: str = "") -> ModelReply:
    """Return the reply that consists of these items."""
    texts = []
    for item in items:
        content = item.get("content") if item.get("role") == "assistant" else None
        plain = isinstance(content, str)
        texts.append(str(content) if plain else joined_texts(rows_of(content), "output_text"))
    calls = tuple(
        asked_call(str(item["call_id"]), str(item["name"]), str(item["arguments"]))
        for item in items
        if item.get("type") == "function_call"
    )
    return ModelReply("\n".join(filter(None, texts)), calls, API, tuple(items), finish)


class ResponsesGathering:
    """See ``Gathering``."""

    def __init__(self) -> None:
        self._response: Mapping[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> str:
        """Take in one event; return the text that it adds."""
        if event.get("type") in _WHOLE:
            self._response = event["response"]
        if event.get("type") == "response.output_text.delta":
            return str(event.get("delta", ""))
        return ""

    def reply(self) -> ModelReply | None:
        """Return the answer; None when it did not come to its end."""
        if self._response is None:
            return None
        reason = (self._response.get("incomplete_details") or {}).get("reason")
        finish = str(reason or self._response.get("status") or "")
        return reply_of(rows_of(self._response.get("output")), finish)
