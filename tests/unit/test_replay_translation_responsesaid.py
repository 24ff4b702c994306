"""The answers of OpenAI Responses: what is told is heard again as what it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from broker.mcp.sse import EventReader
from broker.replay.translation.responsesaid import ResponsesHearing, ResponsesTelling
from broker.replay.translation.talk import (
    AnswerBegan,
    AnswerBroke,
    AnswerEnded,
    AnswerPiece,
    CallBegan,
    CallCame,
    OfferedTool,
    ToolNames,
)
from tests.translationkit import answers, summed


def _events(told: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in EventReader().feed(told)]


@given(answers())
def test_an_answer_is_read_as_it_was_told(pieces: list[AnswerPiece]) -> None:
    """A stream and a whole answer come to the same text, calls, end and counts, in order."""
    events = _events(b"".join(map(ResponsesTelling("m", ToolNames(())).tell, pieces)))
    hearing = ResponsesHearing()
    assert summed([p for e in events for p in hearing.event(e)]) == summed(pieces)
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    whole = ResponsesTelling("m", ToolNames(())).document(pieces)
    assert whole == events[-1]["response"]
    assert summed(ResponsesHearing().document(whole)) == summed(pieces)


def test_tools_get_what_they_take() -> None:
    """One that takes a text gets the text, a shell its words, one of a group its group."""
    tools = [
        OfferedTool("apply_patch", kind="custom"),
        OfferedTool("local_shell", kind="local_shell"),
        OfferedTool("look", space="mcp__n"),
    ]
    given_ = ['{"input": "*** Begin"}', '{"command": ["ls", "-l"]}', '{"at": 1}']
    names = ToolNames(tools)
    pieces: list[AnswerPiece] = [AnswerBegan("a")]
    for at, (name, _) in enumerate(names.told()):
        pieces += [CallBegan(at, f"c{at}", name), CallCame(at, given_[at])]
    events = _events(
        b"".join(map(ResponsesTelling("m", names).tell, [*pieces, AnswerEnded("tools")]))
    )
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    patch, shell, look = done
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin")
    assert (shell["type"], shell["action"]["command"]) == ("local_shell_call", ["ls", "-l"])
    assert (look["name"], look["namespace"], look["arguments"]) == ("look", "mcp__n", '{"at": 1}')


def test_a_failure_is_heard_and_told() -> None:
    """A response that failed is none."""
    broke = AnswerBroke("server_error", "no")
    (event,) = _events(ResponsesTelling("m", ToolNames(())).tell(broke))
    assert event["type"] == "response.failed"
    assert ResponsesHearing().event(event) == [broke]
    error = {"type": "error", "code": "rate_limit", "message": "slow"}
    assert ResponsesHearing().event(error) == [AnswerBroke("rate_limit", "slow")]


def test_an_answer_that_came_whole_within_its_items_is_heard() -> None:
    """Servers that tell no parts of an item tell it when it is done."""
    text = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"a": 1}'}
    hearing = ResponsesHearing()
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": text},
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": {}},
    ]
    found = summed([p for e in events for p in hearing.event(e)])
    assert found == ("hi", [("c", "read", {"a": 1})], AnswerEnded("tools"))
