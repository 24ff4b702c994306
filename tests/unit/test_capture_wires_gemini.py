"""Gemini: what is special to it."""

from __future__ import annotations

import json

from broker.capture.wires.gemini import GeminiReader

READER = GeminiReader()


def part(**more: object) -> dict[str, object]:
    """Return an answer of one part."""
    return {"candidates": [{"content": {"role": "model", "parts": [more]}, "finishReason": "STOP"}]}


def test_a_stream_that_is_a_list() -> None:
    """Without events a stream is a list of answers, which are read like one."""
    said = json.dumps(
        [part(text="a"), part(text="b"), part(functionCall={"name": "f", "args": {}})]
    )
    found = READER.reply(said, stream=True)
    assert (found.text, [c.name for c in found.calls], found.finish) == ("ab", ["f"], "STOP")


def test_thoughts_are_not_said() -> None:
    """What a model thought is no text, and makes no other message of one that is sent again."""
    assert READER.reply(json.dumps(part(text="hm", thought=True)), stream=False).text == ""
    call = {"functionCall": {"name": "f", "args": {}}}
    with_ = [
        {
            "role": "model",
            "parts": [{"text": "hm", "thought": True}, {**call, "thoughtSignature": "x"}],
        }
    ]
    one = READER.asked({"contents": with_}, "/models/m:generateContent")
    other = READER.asked({"contents": [{"role": "model", "parts": [call]}]}, "")
    assert one.messages[0].digest == other.messages[0].digest
    assert one.model == "m"


def test_an_error_in_the_midst() -> None:
    """An error that comes as an event is the answer's failure."""
    said = 'data: {"error": {"status": "RESOURCE_EXHAUSTED", "message": "slow"}}\n\n'
    found = READER.reply(said, stream=True)
    assert found.failure is not None
    assert found.failure.kind == "rate_limit"


def test_ids_are_taken_where_there_are_any() -> None:
    """Newer versions give calls an id, older ones do not."""
    said = json.dumps(part(functionCall={"id": "x", "name": "f", "args": {}}))
    assert READER.reply(said, stream=False).calls[0].id == "x"
