"""
A conversation over Anthropic Messages.

Decided here: how it is told and read. What the model said goes back as the blocks that it came
in, so that thoughts keep their signatures. What another API said is told by its texts and calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from broker.agentloop.conversation import (
    Answers,
    AskedCall,
    CallAnswer,
    ModelReply,
    Piece,
    SpokenLine,
)
from broker.agentloop.dialect import (
    MAX_OUTPUT_TOKENS,
    ModelQuery,
    asked_call,
    joined_texts,
    rows_of,
)

API: Final = "anthropic-messages"
_DELTAS: Final = {  # which text of a block each kind of delta goes on with
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}


class MessagesDialect:
    """See ``ApiDialect``."""

    api = API

    def body(self, asked: ModelQuery, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return the body of a request."""
        return {
            "model": asked.model,
            "max_tokens": MAX_OUTPUT_TOKENS,
            "cache_control": {"type": "ephemeral"},
            "system": asked.prompt,
            "tools": [
                {"name": tool.name, "description": tool.about, "input_schema": dict(tool.schema)}
                for tool in asked.tools
            ],
            "messages": _told(pieces),
        }

    def gathering(self) -> MessagesGathering:
        """Return what hears one answer."""
        return MessagesGathering()

    def pieces(self, body: Mapping[str, Any]) -> list[Piece]:
        """Return the conversation that the body of a request tells."""
        found: list[Piece] = []
        for message in rows_of(body.get("messages")):
            parts = rows_of(message.get("content"))
            if message.get("role") == "assistant":
                found.append(reply_of(parts))
                continue
            results = [part for part in parts if part.get("type") == "tool_result"]
            if results:
                found.append(Answers(tuple(map(_answer, results))))
            found += [SpokenLine(str(part["text"])) for part in parts if part.get("type") == "text"]
        return found


def _told(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return the messages; what the user's side says in a row is one message."""
    messages: list[dict[str, Any]] = []
    for piece in pieces:
        role = "assistant" if isinstance(piece, ModelReply) else "user"
        content = _content(piece)
        if messages and messages[-1]["role"] == role == "user":
            messages[-1]["content"] = [*messages[-1]["content"], *content]
        elif content:
            messages.append({"role": role, "content": content})
    return messages


def _content(piece: Piece) -> list[dict[str, Any]]:
    if isinstance(piece, SpokenLine):
        return [{"type": "text", "text": piece.text}]
    if isinstance(piece, Answers):
        return [_result(item) for item in piece.items]
    if piece.api == API:
        return [dict(block) for block in piece.raw]
    text = [{"type": "text", "text": piece.text}] if piece.text.strip() else []
    return [
        *text,
        *(
            {"type": "tool_use", "id": call.ref, "name": call.tool, "input": dict(call.arguments)}
            for call in piece.calls
        ),
    ]


def _result(item: CallAnswer) -> dict[str, Any]:
    told = {"type": "tool_result", "tool_use_id": item.ref, "content": item.text}
    return told if item.ok else {**told, "is_error": True}


def _answer(part: Mapping[str, Any]) -> CallAnswer:
    return CallAnswer(str(part["tool_use_id"]), str(part["content"]), not part.get("is_error"))


def reply_of(blocks: Sequence[Mapping[str, Any]], finish: str = "") -> ModelReply:
    """Return the reply that consists of these blocks."""
    calls = tuple(
        AskedCall(str(block["id"]), str(block["name"]), dict(block["input"]))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    return ModelReply(joined_texts(blocks, "text"), calls, API, tuple(blocks), finish)


class MessagesGathering:
    """See ``Gathering``."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._finish = ""
        self._ended = False

    def take(self, event: Mapping[str, Any]) -> str:
        """Take in one event; return the text that it adds."""
        kind, at = event.get("type"), event.get("index", -1)
        if kind == "content_block_start":
            self._blocks[at] = dict(event["content_block"])
        elif kind == "content_block_delta" and at in self._blocks:
            return self._grow(at, event["delta"])
        elif kind == "message_delta":
            self._finish = str(event["delta"].get("stop_reason") or self._finish)
        self._ended = self._ended or kind == "message_stop"
        return ""

    def _grow(self, at: int, delta: Mapping[str, Any]) -> str:
        kind = str(delta.get("type"))
        if kind == "input_json_delta":
            self._inputs[at] = self._inputs.get(at, "") + str(delta.get("partial_json", ""))
        elif kind in _DELTAS:
            name = _DELTAS[kind]
            added = str(delta.get(name, ""))
            self._blocks[at][name] = str(self._blocks[at].get(name) or "") + added
            return added if kind == "text_delta" else ""
        return ""

    def reply(self) -> ModelReply | None:
        """Return the answer; None when it did not come to its end."""
        if not self._ended:
            return None
        faults: dict[str, AskedCall] = {}
        blocks = []
        for at, block in sorted(self._blocks.items()):
            if at in self._inputs:
                call = asked_call(str(block["id"]), str(block["name"]), self._inputs[at])
                block["input"] = dict(call.arguments)
                if call.fault:
                    faults[call.ref] = call
            # A text without a letter is what the API itself does not take back.
            if block.get("type") != "text" or str(block.get("text", "")).strip():
                blocks.append(json.loads(json.dumps(block)))
        whole = reply_of(blocks, self._finish)
        calls = tuple(faults.get(call.ref, call) for call in whole.calls)
        return ModelReply(whole.text, calls, API, whole.raw, self._finish)
