"""OpenAI Responses: how a request is read and a turn is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

from broker.loopback.chat import arguments
from broker.loopback.script import Say, Text, Told, Turn, rows, texts

USAGE: Final = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}
# Items of the conversation that the model made.
_OURS: Final = frozenset(
    ("function_call", "custom_tool_call", "local_shell_call", "reasoning", "tool_search_call")
)


class Responses:
    """The wire of ``POST …/responses``. A tool of free text is called by ``script.Text``."""

    def read(self, body: Mapping[str, object]) -> Iterator[Told]:
        """Yield the conversation; items of one answer count once."""
        given = body.get("input")
        if isinstance(given, str):
            yield Told("user", given)
        answering = False
        for item in rows(given):
            kind = str(item.get("type", "message"))
            role = item.get("role")
            ours = kind in _OURS or (kind == "message" and role == "assistant")
            if ours and not answering:
                yield Told("model")
            answering = ours
            if kind.endswith("_output"):
                output = item.get("output")
                text = output if isinstance(output, str) else texts(output) or json.dumps(output)
                call = str(item.get("call_id", "")).removeprefix("call_")
                yield Told("result", text, call)
            elif kind == "agent_message" or role == "user":
                yield Told("user", texts(item.get("content")))

    def offers_tools(self, body: Mapping[str, object]) -> bool:
        """Whether the request offers any tool, in its own list or in an item of the input."""
        items = rows(body.get("input"))
        return bool(body.get("tools")) or any(i.get("type") == "additional_tools" for i in items)

    def write(self, turn: Turn, name: str, model: str) -> dict[str, Any]:
        """Return a turn as a response."""
        if isinstance(turn, Say):
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            output = [_item("message", f"msg_{name}", role="assistant", content=[part])]
        else:
            output = [_call(f"{name}-{at}", *each) for at, each in enumerate(turn.calls)]
        return {
            "id": f"resp_{name}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "usage": USAGE,
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        """Yield the response as it grows, each event with its number."""
        numbers = count()
        started = {**answer, "status": "in_progress", "output": []}
        yield _event(numbers, "response.created", response=started)
        for at, item in enumerate(answer["output"]):
            for kind, data in _grown(item):
                yield _event(numbers, f"response.{kind}", output_index=at, **data)
        yield _event(numbers, "response.completed", response=answer)


def _item(kind: str, id_: str, **more: object) -> dict[str, Any]:
    return {"type": kind, "id": id_, "status": "completed", **more}


def _call(name: str, tool: str, given: Mapping[str, object] | Text) -> dict[str, Any]:
    # A tool in a namespace is called `NAMESPACE/TOOL` in a script.
    space, slash, plain = tool.rpartition("/")
    more: dict[str, object] = {"call_id": f"call_{name}", "name": plain}
    if slash:
        more["namespace"] = space
    if isinstance(given, Text):
        return _item("custom_tool_call", f"ctc_{name}", input=given.text, **more)
    return _item("function_call", f"fc_{name}", arguments=arguments(given), **more)


def _grown(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the events of one item of the output."""
    here = {"item_id": item["id"]}
    if item["type"] == "message":
        (part,) = item["content"]
        yield "output_item.added", {"item": {**item, "status": "in_progress", "content": []}}
        inside = {**here, "content_index": 0}
        yield "content_part.added", {**inside, "part": {**part, "text": ""}}
        yield "output_text.delta", {**inside, "delta": part["text"]}
        yield "output_text.done", {**inside, "text": part["text"]}
        yield "content_part.done", {**inside, "part": part}
    elif item["type"] == "function_call":
        yield "output_item.added", {"item": {**item, "status": "in_progress", "arguments": ""}}
        yield "function_call_arguments.delta", {**here, "delta": item["arguments"]}
        yield "function_call_arguments.done", {**here, "arguments": item["arguments"]}
    else:
        yield "output_item.added", {"item": {**item, "status": "in_progress"}}
    yield "output_item.done", {"item": item}


def _event(numbers: Iterator[int], kind: str, **data: object) -> tuple[str, object]:
    return kind, {"type": kind, "sequence_number": next(numbers), **data}
