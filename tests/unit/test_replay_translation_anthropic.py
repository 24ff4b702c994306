"""Anthropic Messages: what is spelled is read again as what it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from broker.errors import InputError
from broker.mcp.sse import EventReader
from broker.replay.translation import anthropic
from broker.replay.translation.talk import (
    AnswerBroke,
    AnswerPiece,
    CallPart,
    ModelQuestion,
    OfferedTool,
    ResultPart,
    SpokenTurn,
    TextPart,
    ToolNames,
)
from tests.translationkit import answers, questions, summed


@given(questions())
def test_a_question_is_read_as_it_was_spelled(asked: ModelQuestion) -> None:
    """Texts, images, names, ids and arguments are the same after there and back."""
    body = anthropic.write_question(asked, "m", ToolNames(asked.tools))
    # Where no tool is to be called, this protocol does not say how many may be at once.
    expected = replace(asked, parallel=None) if asked.choice == "none" else asked
    assert anthropic.read_question(json.loads(json.dumps(body))) == expected


@given(answers())
def test_an_answer_is_read_as_it_was_told(pieces: list[AnswerPiece]) -> None:
    """A stream and a whole answer come to the same text, calls, end and counts."""
    telling, hearing, reader = (
        anthropic.MessagesTelling("m", ToolNames(())),
        anthropic.MessagesHearing(),
        EventReader(),
    )
    told = b"".join(map(telling.tell, pieces))
    heard = [p for e in reader.feed(told) for p in hearing.event(json.loads(e.data))]
    assert summed(heard) == summed(pieces)
    whole = anthropic.MessagesTelling("m", ToolNames(())).document(pieces)
    assert summed(anthropic.MessagesHearing().document(whole)) == summed(pieces)


def test_what_cannot_be_carried_is_named_or_an_error() -> None:
    """Thoughts and a provider's own tools are left out and said; a document is an error."""
    said = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "yes"},
    ]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": said}]
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    found = anthropic.read_question({"messages": messages, "tools": tools})
    assert found.left_out == ("thoughts", "the provider's own tool `web_search`")
    assert found.turns[1] == SpokenTurn("model", (TextPart("yes"),))
    with pytest.raises(InputError, match="`document`"):
        anthropic.read_question({"messages": [{"role": "user", "content": [{"type": "document"}]}]})


def test_results_come_first_and_there_are_two_who_speak() -> None:
    """What another protocol has in another order is put as this one wants it."""
    turns = (
        SpokenTurn("model", (CallPart("a:1", "do.it", "free text"),)),
        SpokenTurn("system", (TextPart("mind this"),)),
        SpokenTurn("user", (ResultPart("a:1", (TextPart("done"),), failed=True),)),
    )
    asked = ModelQuestion("", turns, (OfferedTool("do.it", kind="custom"),))
    body = anthropic.write_question(asked, "m", ToolNames(asked.tools))
    call, answer = body["messages"]  # type: ignore[misc]  # a list
    (use,) = call["content"]
    assert use["input"] == {"input": "free text"}
    result, text = answer["content"]
    assert (result["tool_use_id"], result["is_error"]) == (use["id"], True)
    assert text == {"type": "text", "text": "mind this"}
    assert use["name"] == body["tools"][0]["name"]  # type: ignore[index]  # a list
    assert use["name"].startswith("do_it_")


def test_an_error_in_a_stream_is_heard() -> None:
    """What the provider says went wrong is passed on as that."""
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    assert anthropic.MessagesHearing().event(event) == [AnswerBroke("overloaded_error", "busy")]
    assert b"overloaded_error" in anthropic.MessagesTelling("m", ToolNames(())).tell(
        AnswerBroke("overloaded_error", "busy")
    )
