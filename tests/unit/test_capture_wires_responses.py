"""Responses: what is special to it."""

from __future__ import annotations

import json

from broker.capture.wires.responses import ResponsesReader

READER = ResponsesReader()


def test_calls_of_each_kind() -> None:
    """Calls of functions, of tools of free text and of the shell are calls; reasoning is not."""
    output = [
        {"type": "reasoning", "id": "r"},
        {
            "type": "function_call",
            "call_id": "a",
            "name": "f",
            "namespace": "n",
            "arguments": '{"x":1}',
        },
        {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "*** Begin"},
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        {"type": "web_search_call", "id": "w"},
    ]
    found = READER.reply(json.dumps({"status": "completed", "output": output}), stream=False)
    assert [(c.id, c.name, c.arguments) for c in found.calls] == [
        ("a", "n.f", {"x": 1}),
        ("b", "apply_patch", "*** Begin"),
        ("c", "local_shell", {"command": ["ls"]}),
    ]


def test_items_are_the_same_without_their_names() -> None:
    """An item is known without the provider's own name of it, and reasoning does not count."""
    item = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    said = [{"type": "reasoning"}, {**item, "id": "fc_1", "status": "completed"}]
    one = READER.asked({"input": said}, "").messages
    other = READER.asked({"input": [item]}, "").messages
    assert [m.digest for m in one] == [m.digest for m in other]


def test_tools_that_come_as_an_item() -> None:
    """Tools that stand in the input are offered like those of the request's own list."""
    more = {"type": "additional_tools", "tools": [{"type": "function", "name": "late"}]}
    said = READER.asked(
        {"input": [more, {"role": "user", "content": "a"}], "tools": [{"type": "web"}]}, ""
    )
    assert said.tools == ("web", "late")


def test_a_text_alone() -> None:
    """An input that is a text is one message of the user's."""
    (message,) = READER.asked({"input": "go"}, "").messages
    assert message.who == "user"
