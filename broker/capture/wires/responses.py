"""OpenAI Responses: ``POST …/responses``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from broker.records.apis import RESPONSES, events, tells

_CALLS: Final = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
_THOUGHT: Final = "reasoning"  # is sent again or not, as the agent likes


class ResponsesReader:
    """The wire of Responses. A tool that the provider runs itself is no call of the agent's."""

    api = "openai.responses"

    def asked(self, body: Mapping[str, object], path: str) -> SaidRequest:
        """Return what a request says."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else rows(given)
        more = [
            tool
            for item in items
            if item.get("type") == "additional_tools"
            for tool in rows(item.get("tools"))
        ]
        tools = names(
            tool.get("name") or tool.get("type") for tool in [*rows(body.get("tools")), *more]
        )
        return SaidRequest(
            text_of(body.get("model")),
            tuple(_message(item) for item in items if item.get("type") != _THOUGHT),
            tools,
            framed(body.get("instructions"), tools),
            body.get("stream") is True,
        )

    def reply(self, text: str, *, stream: bool) -> SaidReply:
        """Return what an answer says."""
        heard = tells(RESPONSES, text, stream=stream)
        items = _items(text) if stream else rows(table(value_of(text)).get("output"))
        said = [texts(item.get("content")) for item in items if item.get("type") == "message"]
        return SaidReply(
            "\n".join(said),
            tuple(_called(item) for item in items if item.get("type") in _CALLS),
            heard.finish,
            heard.usage.get("input"),
            heard.usage.get("output"),
            heard.failure,
        )


def _message(item: Mapping[str, object]) -> SaidMessage:
    kind = text_of(item.get("type")) or "message"
    # The provider's own names of items are sent again or not.
    known = digest(
        {key: value for key, value in item.items() if key not in ("id", "type")} | {"type": kind}
    )
    if kind in _CALLS:
        return SaidMessage("model", known, (_called(item),))
    if kind.endswith("_output"):
        result = CallResult(text_of(item.get("call_id")), "", item.get("output"))
        return SaidMessage("user", known, (), (result,))
    return SaidMessage("model" if item.get("role") == "assistant" else "user", known)


def _called(item: Mapping[str, object]) -> ModelCall:
    given = item.get("arguments", item.get("input", item.get("action")))
    if isinstance(given, str) and item.get("type") == "function_call":
        given = value_of(given)
    space = text_of(item.get("namespace"))
    name = text_of(item.get("name")) or ("local_shell" if "action" in item else "")
    return ModelCall(text_of(item.get("call_id")), f"{space}.{name}" if space else name, given)


def _items(text: str) -> list[dict[str, object]]:
    """Return the items of a stream: those that were finished, else those of its last event."""
    done: list[dict[str, object]] = []
    whole: list[dict[str, object]] = []
    for event in map(table, events(text)):
        if event.get("type") == "response.output_item.done":
            done.append(dict(table(event.get("item"))))
        elif event.get("type") in ("response.completed", "response.incomplete"):
            whole = rows(table(event.get("response")).get("output"))
    return done or whole
