"""The same conversation in four protocols, as the scripted model on loopback speaks them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from broker.capture.wires.anthropic import AnthropicReader
from broker.capture.wires.chat import ChatReader
from broker.capture.wires.gemini import GeminiReader
from broker.capture.wires.responses import ResponsesReader
from broker.capture.wires.said import WireReader
from broker.loopback.anthropic import Anthropic
from broker.loopback.chat import Chat
from broker.loopback.gemini import Gemini
from broker.loopback.responses import Responses
from broker.loopback.script import Say, Turn, Use, Wire
from broker.loopback.server import events

PAIRS: Mapping[str, tuple[WireReader, Wire]] = {
    "anthropic": (AnthropicReader(), Anthropic()),
    "chat": (ChatReader(), Chat()),
    "responses": (ResponsesReader(), Responses()),
    "gemini": (GeminiReader(), Gemini()),
}
TURN = Use([("read", {"path": "a"}), ("shell", {"cmd": "ls"})])


def answer(wire: Wire, turn: Turn, name: str, *, stream: bool) -> str:
    """Return an answer as the model sends it."""
    said = wire.write(turn, name, "m")
    return events(wire.stream(said)).decode() if stream else json.dumps(said)


def path(name: str) -> str:
    """Return where a protocol is spoken."""
    return {
        "anthropic": "/v1/messages",
        "chat": "/v1/chat/completions",
        "responses": "/v1/responses",
        "gemini": "/v1beta/models/m-1:streamGenerateContent",
    }[name]


def request(name: str, said: str, turns: Sequence[tuple[Turn, Sequence[str]]] = (), **more: Any):
    """Return a request: what the user said, and each answer with the results of its calls."""
    make = {"anthropic": _messages, "chat": _chat, "responses": _responses, "gemini": _gemini}
    return {**make[name](said, turns), **more}


def _ids(name: str, at: int, turn: Turn) -> list[tuple[str, str, Any]]:
    calls = turn.calls if isinstance(turn, Use) else ()
    return [(f"{name}s-{at}-{n}", tool, given) for n, (tool, given) in enumerate(calls)]


def _messages(said: str, turns: Sequence[tuple[Turn, Sequence[str]]]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [{"role": "user", "content": said}]
    for at, (turn, results) in enumerate(turns):
        uses = [
            {"type": "tool_use", "id": id_, "name": tool, "input": given}
            for id_, tool, given in _ids("toolu_", at, turn)
        ]
        text = [{"type": "text", "text": turn.text}] if isinstance(turn, Say) else []
        found.append({"role": "assistant", "content": [*text, *uses]})
        told = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": result, "is_error": n == 1}
            for n, (use, result) in enumerate(zip(uses, results, strict=False))
        ]
        if told:
            found.append({"role": "user", "content": told})
    tools = [{"name": "read"}, {"name": "shell"}]
    return {"model": "m-1", "system": "be good", "messages": found, "tools": tools, "stream": True}


def _chat(said: str, turns: Sequence[tuple[Turn, Sequence[str]]]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": said},
    ]
    for at, (turn, results) in enumerate(turns):
        calls = [
            {"id": i, "type": "function", "function": {"name": t, "arguments": json.dumps(g)}}
            for i, t, g in _ids("call_", at, turn)
        ]
        content = turn.text if isinstance(turn, Say) else None
        found.append(
            {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
        )
        for call, result in zip(calls, results, strict=False):
            found.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    tools = [{"type": "function", "function": {"name": n}} for n in ("read", "shell")]
    return {"model": "m-1", "messages": found, "tools": tools, "stream": True}


def _responses(said: str, turns: Sequence[tuple[Turn, Sequence[str]]]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "input_text", "text": said}]}
    ]
    for at, (turn, results) in enumerate(turns):
        if isinstance(turn, Say):
            part = {"type": "output_text", "text": turn.text}
            found.append({"type": "message", "role": "assistant", "content": [part]})
        calls = _ids("call_", at, turn)
        found += [
            {"type": "function_call", "call_id": i, "name": t, "arguments": json.dumps(g)}
            for i, t, g in calls
        ]
        for (id_, _, _), result in zip(calls, results, strict=False):
            found.append({"type": "function_call_output", "call_id": id_, "output": result})
    tools = [{"type": "function", "name": "read"}, {"type": "function", "name": "shell"}]
    return {
        "model": "m-1", "instructions": "be good", "input": found, "tools": tools, "stream": True
    }  # fmt: skip


def _gemini(said: str, turns: Sequence[tuple[Turn, Sequence[str]]]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": said}]}]
    for turn, results in turns:
        calls = turn.calls if isinstance(turn, Use) else ()
        parts: list[dict[str, Any]] = [{"functionCall": {"name": t, "args": g}} for t, g in calls]
        text = [{"text": turn.text}] if isinstance(turn, Say) else []
        found.append({"role": "model", "parts": [*text, *parts]})
        told = [
            {"functionResponse": {"name": t, "response": {"error" if n == 1 else "output": result}}}
            for n, ((t, _), result) in enumerate(zip(calls, results, strict=False))
        ]
        if told:
            found.append({"role": "user", "parts": told})
    tools = [{"functionDeclarations": [{"name": "read"}, {"name": "shell"}]}]
    instruction = {"role": "user", "parts": [{"text": "be good"}]}
    return {"contents": found, "systemInstruction": instruction, "tools": tools}
