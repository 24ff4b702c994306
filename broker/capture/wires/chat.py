"""OpenAI Chat Completions: ``POST …/chat/completions``, of OpenAI and of many others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.capture.wires.said import (
    CallResult,
    ModelCall,
    SaidMessage,
    SaidReply,
    SaidRequest,
    digest,
    framed,
    names,
    rows,
    table,
    text_of,
    texts,
    value_of,
)
from broker.records.apis import CHAT, events, tells

_INSTRUCTIONS = ("system", "developer")


class ChatReader:
    """The wire of Chat Completions. Of several choices the first one is read."""

    api = "openai.chat"

    def asked(self, body: Mapping[str, object], path: str) -> SaidRequest:
        """Return what a request says."""
        tools = names(
            table(t.get("function")).get("name") or t.get("name") for t in rows(body.get("tools"))
        )
        messages = rows(body.get("messages"))
        # Instructions stand at the front of the same list, alike in many conversations.
        told = [m for m in messages if m.get("role") in _INSTRUCTIONS]
        return SaidRequest(
            text_of(body.get("model")),
            tuple(_message(m) for m in messages if m.get("role") not in _INSTRUCTIONS),
            tools,
            framed(texts(told[0].get("content")) if told else "", tools),
            body.get("stream") is True,
        )

    def reply(self, text: str, *, stream: bool) -> SaidReply:
        """Return what an answer says."""
        heard = tells(CHAT, text, stream=stream)
        if stream:
            message = _grown(text)
        else:
            choices = rows(table(value_of(text)).get("choices"))
            message = table(choices[0].get("message")) if choices else {}
        return SaidReply(
            texts(message.get("content")),
            tuple(_calls(message)),
            heard.finish,
            heard.usage.get("input"),
            heard.usage.get("output"),
            heard.failure,
        )


def _message(message: Mapping[str, object]) -> SaidMessage:
    role = message.get("role")
    calls = tuple(_calls(message))
    # Some send no content beside calls, some an empty one: the same message.
    content = texts(message.get("content")) or message.get("content") or ""
    said = [
        role,
        content,
        [[c.id, c.name, c.arguments] for c in calls],
        message.get("tool_call_id"),
    ]
    results: tuple[CallResult, ...] = ()
    if role == "tool":
        name = text_of(message.get("name"))
        results = (CallResult(text_of(message.get("tool_call_id")), name, message.get("content")),)
    return SaidMessage("model" if role == "assistant" else "user", digest(said), calls, results)


def _calls(message: Mapping[str, object]) -> Iterator[ModelCall]:
    for call in rows(message.get("tool_calls")):
        function = table(call.get("function")) or table(call.get("custom"))
        given = function.get("arguments", function.get("input"))
        arguments = value_of(given) if isinstance(given, str) else given
        yield ModelCall(text_of(call.get("id")), text_of(function.get("name")), arguments)


def _grown(text: str) -> Mapping[str, object]:
    """Return the message that the chunks of a stream make together."""
    content: list[str] = []
    calls: dict[object, dict[str, object]] = {}
    pieces: dict[object, list[str]] = {}
    last: object = 0
    for event in map(table, events(text)):
        choices = rows(event.get("choices"))
        delta = table(choices[0].get("delta")) if choices else {}
        content.append(text_of(delta.get("content")))
        for call in rows(delta.get("tool_calls")):
            # Some leave the index out, and begin a new call by its id.
            last = call.get("index", call.get("id") or last)
            function = table(call.get("function"))
            known = calls.setdefault(last, {"id": "", "name": ""})
            for key, value in (("id", call.get("id")), ("name", function.get("name"))):
                known[key] = known[key] or text_of(value)
            pieces.setdefault(last, []).append(text_of(function.get("arguments")))
    whole = [
        {"id": call["id"], "function": {"name": call["name"], "arguments": "".join(pieces[at])}}
        for at, call in calls.items()
    ]
    return {"content": "".join(content), "tool_calls": whole}
