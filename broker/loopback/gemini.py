"""Gemini generateContent: how a request is read and a turn is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.loopback.script import Say, Text, Told, Turn, rows, texts

USAGE: Final = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
_SIGNATURE: Final = "c2NyaXB0"  # a model that thinks signs its calls; any base64 will do


class Gemini:
    """The wire of ``POST …/models/MODEL:generateContent`` and ``:streamGenerateContent``."""

    def read(self, body: Mapping[str, object]) -> Iterator[Told]:
        """Yield the conversation; results carry no id and come in the order of their calls."""
        for content in rows(body.get("contents")):
            if content.get("role") == "model":
                yield Told("model")
                continue
            parts = rows(content.get("parts"))
            for part in parts:
                found = part.get("functionResponse")
                if isinstance(found, dict):
                    response = found.get("response")
                    failed = isinstance(response, dict) and "error" in response
                    yield Told("result", json.dumps(response, ensure_ascii=False), "", failed)
            yield Told("user", texts(parts))

    def offers_tools(self, body: Mapping[str, object]) -> bool:
        """Whether the request offers any tool."""
        return bool(body.get("tools"))

    def write(self, turn: Turn, name: str, model: str) -> dict[str, Any]:
        """Return a turn as one candidate."""
        if isinstance(turn, Say):
            parts: list[dict[str, Any]] = [{"text": turn.text}]
        else:
            parts = [
                {
                    "functionCall": {"name": tool, "args": _args(given)},
                    "thoughtSignature": _SIGNATURE,
                }
                for tool, given in turn.calls
            ]
        content = {"role": "model", "parts": parts}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": USAGE,
            "modelVersion": model,
            "responseId": name,
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        """Yield the answer as the one chunk of a stream."""
        yield "", answer


def _args(given: Mapping[str, object] | Text) -> dict[str, object]:
    return {"input": given.text} if isinstance(given, Text) else dict(given)
