"""OpenAI Responses: a question is read as it was spelled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from broker.errors import InputError
from broker.replay.translation import anthropic, chat, responses
from broker.replay.translation.talk import (
    CallPart,
    ImagePart,
    ModelQuestion,
    ResultPart,
    SpokenTurn,
    TextPart,
    ToolNames,
)
from tests.translationkit import questions


@given(questions())
def test_a_question_is_read_as_it_was_spelled(asked: ModelQuestion) -> None:
    """Texts, images, names, ids and arguments are the same after there and back."""
    body = responses.write_question(asked, "m", ToolNames(asked.tools))
    assert responses.read_question(json.loads(json.dumps(body))) == asked


@given(questions())
def test_the_way_through_all_three_changes_nothing(asked: ModelQuestion) -> None:
    """From one protocol to the next and the next, and back: the conversation is the same."""
    found = asked
    for protocol in (anthropic, chat, responses, anthropic):
        body = protocol.write_question(found, "m", ToolNames(found.tools))
        found = protocol.read_question(json.loads(json.dumps(body)))
    assert (found.system, found.turns, found.tools, found.choice) == (
        asked.system,
        asked.turns,
        asked.tools,
        asked.choice,
    )


def test_what_codex_sends_is_read() -> None:
    """Instructions of a developer, groups of tools, tools that take a text, shells, thoughts."""
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "b"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "look",
            "namespace": "mcp__n",
            "arguments": "{}",
        },
        {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"},
        {
            "type": "local_shell_call",
            "call_id": "c3",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}],
        },
    ]
    tools = [
        {"type": "namespace", "name": "mcp__n", "tools": [{"type": "function", "name": "look"}]},
        {"type": "custom", "name": "apply_patch", "format": {"definition": "start: x"}},
        {"type": "local_shell"},
        {"type": "web_search"},
    ]
    found = responses.read_question({"instructions": "a", "input": items, "tools": tools})
    assert found.system == "a\n\nb"
    assert found.left_out == ("the provider's own tool `web_search`", "thoughts")
    assert found.turns == (
        SpokenTurn("user", (TextPart("go"),)),
        SpokenTurn(
            "model",
            (
                CallPart("c1", "mcp__n.look", {}),
                CallPart("c2", "apply_patch", "*** Begin"),
                CallPart("c3", "local_shell", {"command": ["ls"]}),
            ),
        ),
        SpokenTurn(
            "user",
            (
                ResultPart("c1", (TextPart("seen"),)),
                ResultPart("c2", (ImagePart("image/png", "aGk="),)),
            ),
        ),
    )
    body = anthropic.write_question(found, "m", ToolNames(found.tools))
    names = [each["name"] for each in body["tools"]]  # type: ignore[attr-defined]  # a list
    assert names == ["mcp__n__look", "apply_patch", "local_shell"]
    uses = [each["name"] for each in body["messages"][1]["content"]]  # type: ignore[index]  # a list
    assert uses == names


def test_what_is_kept_at_the_provider_is_an_error() -> None:
    """A question that leans on what only its provider knows is not half told."""
    with pytest.raises(InputError, match="previous_response_id"):
        responses.read_question({"previous_response_id": "resp_1", "input": "go"})
    with pytest.raises(InputError, match="`item_reference`"):
        responses.read_question(
            {"input": [{"role": "user", "content": "a"}, {"type": "item_reference"}]}
        )
    with pytest.raises(InputError, match="stop at"):
        responses.write_question(ModelQuestion(stops=("x",)), "m", ToolNames(()))
