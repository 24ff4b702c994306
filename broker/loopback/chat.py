"""OpenAI Chat Completions: how a request is read and a turn is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.loopback.script import Say, Text, Told, Turn, rows, texts

USAGE: Final = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class Chat:
    """The wire of ``POST …/chat/completions``."""

    def read(self, body: Mapping[str, object]) -> Iterator[Told]:
        """Yield the conversation: texts of the user, answers, results of calls."""
        for message in rows(body.get("messages")):
            role, content = message.get("role"), texts(message.get("content"))
            if role == "assistant":
                yield Told("model")
            elif role == "tool":
                call = str(message.get("tool_call_id", "")).removeprefix("call_")
                yield Told("result", content, call)
            elif role == "user":
                yield Told("user", content)

    def offers_tools(self, body: Mapping[str, object]) -> bool:
        """Whether the request offers any tool."""
        return bool(body.get("tools"))

    def write(self, turn: Turn, name: str, model: str) -> dict[str, Any]:
        """Return a turn as a completion with one choice."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(turn, Say):
            message["content"] = turn.text
        else:
            message["tool_calls"] = [
                {
                    "id": f"call_{name}-{at}",
                    "type": "function",
                    "function": {"name": tool, "arguments": arguments(given)},
                }
                for at, (tool, given) in enumerate(turn.calls)
            ]
        reason = "stop" if isinstance(turn, Say) else "tool_calls"
        return {
            "id": f"chatcmpl-{name}",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": USAGE,
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        """Yield the completion in chunks, and the word that ends them."""
        (choice,) = answer["choices"]
        message = choice["message"]
        yield _chunk(answer, {"role": "assistant", "content": message["content"] or ""})
        for index, call in enumerate(message.get("tool_calls", ())):
            opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            yield _chunk(answer, {"tool_calls": [opening]})
            rest = {"index": index, "function": {"arguments": call["function"]["arguments"]}}
            yield _chunk(answer, {"tool_calls": [rest]})
        yield _chunk(answer, {}, choice["finish_reason"])
        yield "", {**_base(answer), "choices": [], "usage": answer["usage"]}
        yield "", "[DONE]"


def arguments(given: Mapping[str, object] | Text) -> str:
    """Return the arguments of a call as the text of a JSON object."""
    return json.dumps({"input": given.text} if isinstance(given, Text) else dict(given))


def _base(answer: Mapping[str, Any]) -> dict[str, object]:
    return {**{k: answer[k] for k in ("id", "created", "model")}, "object": "chat.completion.chunk"}


def _chunk(
    answer: Mapping[str, Any], delta: Mapping[str, object], reason: str | None = None
) -> tuple[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return "", {**_base(answer), "choices": [choice]}
