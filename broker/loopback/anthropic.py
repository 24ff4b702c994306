"""Anthropic Messages: how a request is read and a turn is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from broker.loopback.script import Say, Text, Told, Turn, rows, texts

USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


class Anthropic:
    """The wire of ``POST …/v1/messages``."""

    def read(self, body: Mapping[str, object]) -> Iterator[Told]:
        """Yield the conversation: texts of the user, answers, results of calls."""
        for message in rows(body.get("messages")):
            if message.get("role") == "assistant":
                yield Told("model")
                continue
            content = message.get("content")
            for part in rows(content):
                if part.get("type") == "tool_result":
                    failed = bool(part.get("is_error"))
                    call = str(part.get("tool_use_id", "")).removeprefix("toolu_")
                    yield Told("result", texts(part.get("content")), call, failed)
            yield Told("user", texts(content))

    def offers_tools(self, body: Mapping[str, object]) -> bool:
        """Whether the request offers any tool."""
        return bool(body.get("tools"))

    def write(self, turn: Turn, name: str, model: str) -> dict[str, Any]:
        """Return a turn as a message."""
        if isinstance(turn, Say):
            content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}]
        else:
            content = [
                _use(f"toolu_{name}-{at}", tool, given)
                for at, (tool, given) in enumerate(turn.calls)
            ]
        return {
            "id": f"msg_{name}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": "end_turn" if isinstance(turn, Say) else "tool_use",
            "stop_sequence": None,
            "usage": USAGE,
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        """Yield the message in the six kinds of event that make a stream of it."""
        start = {**answer, "content": [], "stop_reason": None}
        yield _event("message_start", message=start)
        for index, block in enumerate(answer["content"]):
            empty: dict[str, object]
            if block["type"] == "text":
                empty = {"type": "text", "text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield _event("content_block_start", index=index, content_block=empty)
            yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        end = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield _event("message_delta", delta=end, usage={"output_tokens": 1})
        yield _event("message_stop")


def _use(id_: str, tool: str, given: Mapping[str, object] | Text) -> dict[str, Any]:
    plain = {"input": given.text} if isinstance(given, Text) else dict(given)
    return {"type": "tool_use", "id": id_, "name": tool, "input": plain}


def _event(kind: str, **data: object) -> tuple[str, object]:
    return kind, {"type": kind, **data}
