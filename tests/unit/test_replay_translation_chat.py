"""OpenAI Chat Completions: what is spelled is read again as what it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from broker.errors import InputError
from broker.mcp.sse import EventReader
from broker.replay.translation import chat
from broker.replay.translation.talk import (
    AnswerBroke,
    AnswerPiece,
    ImagePart,
    ModelQuestion,
    ResultPart,
    SpokenTurn,
    ToolNames,
)
from tests.translationkit import answers, questions, summed


@given(questions())
def test_a_question_is_read_as_it_was_spelled(asked: ModelQuestion) -> None:
    """Texts, images, names, ids and arguments are the same after there and back."""
    body = chat.write_question(asked, "m", ToolNames(asked.tools))
    found = chat.read_question(json.loads(json.dumps(body)))
    assert found == asked if asked.stream else found.turns == asked.turns
    assert found.tools == asked.tools


@given(answers())
def test_an_answer_is_read_as_it_was_told(pieces: list[AnswerPiece]) -> None:
    """A stream and a whole answer come to the same text, calls, end and counts."""
    hearing = chat.CompletionsHearing()
    told = b"".join(map(chat.CompletionsTelling("m", ToolNames(())).tell, pieces))
    events = [e.data for e in EventReader().feed(told)]
    assert events.pop() == b"[DONE]"
    heard = [p for e in [*map(json.loads, events), {"done": True}] for p in hearing.event(e)]
    assert summed(heard) == summed(pieces)
    whole = chat.CompletionsTelling("m", ToolNames(())).document(pieces)
    assert summed(chat.CompletionsHearing().document(whole)) == summed(pieces)


def test_a_result_with_an_image_has_no_place() -> None:
    """An image in a tool's result is an error that says so, and so is a part of another kind."""
    image = ResultPart("c", (ImagePart("image/png", "aGk="),))
    asked = ModelQuestion(turns=(SpokenTurn("user", (image,)),))
    with pytest.raises(InputError, match="an image in a tool's result"):
        chat.write_question(asked, "m", ToolNames(()))
    with pytest.raises(InputError, match="`input_audio`"):
        chat.read_question({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]})


def test_a_tool_with_a_grammar_takes_a_text() -> None:
    """What its text must be like stands in its description."""
    custom = {"name": "patch", "description": "Patches.", "format": {"definition": "start: x"}}
    (tool,) = chat.read_question({"tools": [{"type": "custom", "custom": custom}]}).tools
    assert (tool.kind, tool.plain["required"]) == ("custom", ["input"])
    assert tool.about.endswith("grammar:\nstart: x")


def test_an_error_is_heard() -> None:
    """An answer that holds an error, or nothing, is none."""
    error = {"error": {"code": "rate_limit", "message": "slow"}}
    assert chat.CompletionsHearing().event(error) == [AnswerBroke("rate_limit", "slow")]
    (empty,) = chat.CompletionsHearing().document({})
    assert isinstance(empty, AnswerBroke)
