"""Messages: what is special to it."""

from __future__ import annotations

import json

from broker.capture.wires.anthropic import AnthropicReader
from broker.loopback.server import events

READER = AnthropicReader()


def test_a_tool_of_the_provider_is_no_call() -> None:
    """What the provider runs itself is not the agent's to run."""
    blocks = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]
    said = {"content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 3}}
    found = READER.reply(json.dumps(said), stream=False)
    assert found.calls == ()
    assert found.input_tokens == 3


def test_arguments_that_come_in_pieces() -> None:
    """The pieces of a call's arguments make one object; a call without any keeps its own."""
    told = [
        ("", {"type": "content_block_start", "index": 0,
              "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {}}}),
        ("", {"type": "content_block_delta", "index": 0, "delta": {"partial_json": '{"p'}}),
        ("", {"type": "content_block_delta", "index": 0, "delta": {"partial_json": '":1}'}}),
        ("", {"type": "content_block_start", "index": 1,
              "content_block": {"type": "tool_use", "id": "b", "name": "y", "input": {}}}),
        ("", {"type": "content_block_delta", "index": 7, "delta": {"text": "nowhere"}}),
        ("", {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        ("", {"type": "message_stop"}),
    ]  # fmt: skip
    found = READER.reply(events(told).decode(), stream=True)
    assert [(c.id, c.arguments) for c in found.calls] == [("a", {"p": 1}), ("b", {})]


def test_a_stream_that_breaks_off_says_so() -> None:
    """What was said until then is read, and the failure is told."""
    block = {"type": "text", "text": "a"}
    told = [
        ("", {"type": "content_block_start", "index": 0, "content_block": block}),
        ("", {"type": "content_block_delta", "index": 0, "delta": {"text": "b"}}),
    ]  # fmt: skip
    found = READER.reply(events(told).decode(), stream=True)
    assert found.text == "ab"
    assert found.failure is not None
    assert found.failure.kind == "network"


def test_a_text_and_its_one_part_are_the_same_message() -> None:
    """A message of one text is known again when it is sent as a list of one part."""
    one = {"messages": [{"role": "user", "content": "go"}]}
    part = {"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}
    other = {"messages": [{"role": "user", "content": [part]}]}
    digests = [READER.asked(b, "").messages[0].digest for b in (one, other)]
    assert digests[0] == digests[1]
