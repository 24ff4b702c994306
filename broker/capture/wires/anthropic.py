"""Anthropic Messages: ``POST …/v1/messages``."""

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
    value_of,
)
from broker.records.apis import MESSAGES, events, tells


class AnthropicReader:
    """The wire of Messages. A tool that the provider runs itself is no call of the agent's."""

    api = "anthropic.messages"

    def asked(self, body: Mapping[str, object], path: str) -> SaidRequest:
        """Return what a request says."""
        tools = names(tool.get("name") for tool in rows(body.get("tools")))
        return SaidRequest(
            text_of(body.get("model")),
            tuple(_message(each) for each in rows(body.get("messages"))),
            tools,
            framed(body.get("system"), tools),
            body.get("stream") is True,
        )

    def reply(self, text: str, *, stream: bool) -> SaidReply:
        """Return what an answer says."""
        heard = tells(MESSAGES, text, stream=stream)
        blocks = list(_grown(text)) if stream else rows(table(value_of(text)).get("content"))
        return SaidReply(
            "\n".join(text_of(b.get("text")) for b in blocks if b.get("type") == "text"),
            tuple(_called(block) for block in blocks if block.get("type") == "tool_use"),
            heard.finish,
            heard.usage.get("input"),
            heard.usage.get("output"),
            heard.failure,
        )


def _message(message: Mapping[str, object]) -> SaidMessage:
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else rows(content)
    model = message.get("role") == "assistant"
    return SaidMessage(
        "model" if model else "user",
        digest([message.get("role"), parts]),
        tuple(_called(part) for part in parts if part.get("type") == "tool_use"),
        tuple(
            CallResult(
                text_of(part.get("tool_use_id")),
                "",
                part.get("content"),
                part.get("is_error") is True,
            )
            for part in parts
            if part.get("type") == "tool_result"
        ),
    )


def _called(block: Mapping[str, object]) -> ModelCall:
    return ModelCall(text_of(block.get("id")), text_of(block.get("name")), block.get("input"))


def _grown(text: str) -> Iterator[dict[str, object]]:
    """Yield the blocks of a stream, each with all that was added to it."""
    blocks: dict[object, dict[str, object]] = {}
    pieces: dict[object, list[str]] = {}
    for event in map(table, events(text)):
        at, kind = event.get("index"), event.get("type")
        if not isinstance(at, int):
            continue
        if kind == "content_block_start":
            blocks[at] = dict(table(event.get("content_block")))
            pieces[at] = []
        elif kind == "content_block_delta" and at in blocks:
            delta = table(event.get("delta"))
            pieces[at].append(text_of(delta.get("text")) or text_of(delta.get("partial_json")))
    for at, block in blocks.items():
        grown = "".join(pieces[at])
        if block.get("type") == "text":
            block["text"] = text_of(block.get("text")) + grown
        elif grown:
            block["input"] = value_of(grown)
        yield block
