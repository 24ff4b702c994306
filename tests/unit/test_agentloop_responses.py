"""OpenAI Responses: what is particular to it."""

from __future__ import annotations

import pytest

from broker.agentloop.conversation import SpokenLine
from broker.agentloop.dialect import ModelQuery
from broker.agentloop.responses import ResponsesDialect, ResponsesGathering


@pytest.mark.parametrize(
    ("model", "thinks"), [("gpt-6", True), ("o4-mini", True), ("gpt-4.1", False)]
)
def test_nothing_is_kept_at_the_provider(model: str, thinks: bool) -> None:
    """Thoughts come back encrypted from the models that have some, and nothing is stored."""
    body = ResponsesDialect().body(ModelQuery(model, "You are.", ()), [])
    assert body["store"] is False
    assert ("include" in body) is thinks


def test_thoughts_go_back_as_they_came() -> None:
    """An item that means nothing to us is told again, at its place."""
    thought = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "xyz"}
    text = {"type": "output_text", "text": "Yes.", "annotations": []}
    said = {"type": "message", "role": "assistant", "id": "m", "content": [text]}
    hearing = ResponsesGathering()
    hearing.take({"type": "response.completed", "response": {"status": "completed",
                  "output": [thought, said]}})  # fmt: skip
    reply = hearing.reply()
    assert reply is not None
    assert (reply.text, reply.finish) == ("Yes.", "completed")
    body = ResponsesDialect().body(ModelQuery("m", "p", ()), [SpokenLine("go"), reply])
    assert body["input"][1:] == [thought, said]


def test_an_answer_that_ends_early_says_why() -> None:
    """What is incomplete has its reason as the end."""
    hearing = ResponsesGathering()
    details = {"reason": "max_output_tokens"}
    response = {"status": "incomplete", "incomplete_details": details, "output": []}
    hearing.take({"type": "response.incomplete", "response": response})
    reply = hearing.reply()
    assert reply is not None
    assert reply.finish == "max_output_tokens"
