"""Which methods act."""

from __future__ import annotations

from broker.mcp import methods
from broker.mcp.messages import read_message
from tests.mcpkit import call, said

ACTS = {
    "tools/call",
    "resources/read",
    "resources/subscribe",
    "prompts/get",
    "completion/complete",
    "tasks/list",
}
ACTS_BACK = {"sampling/createMessage", "elicitation/create"}


def test_what_acts_is_never_listed_as_harmless() -> None:
    """No method that can act stands in a table of those that go on undecided."""
    asked = methods.ASKED_HARMLESSLY | methods.TOLD_HARMLESSLY | methods.OF_TASKS
    assert not ACTS & asked
    assert not ACTS_BACK & (methods.ASKED_BACK_HARMLESSLY | methods.TOLD_BACK_HARMLESSLY)


def test_a_tool_call_is_a_call_of_its_tool() -> None:
    """The tool is named after our name of the server, and the arguments are its own."""
    message = read_message(call(1, "look", path="a"))
    assert methods.called(message, "notes") == ("mcp__notes__look", {"path": "a"})


def test_a_call_without_a_name_names_no_tool() -> None:
    """What the session refuses as unreadable stays unreadable."""
    for name in (None, 7, "", ["look"]):
        message = read_message(said("tools/call", 1, name=name))
        assert methods.called(message, "notes")[0] is None


def test_any_other_method_is_a_call_that_bears_its_name() -> None:
    """Its parameters are the arguments, without what is only about the message."""
    message = read_message(said("vendor/do", 1, uri="a:b", _meta={"progressToken": 1}))
    assert methods.called(message, "notes") == ("mcp__notes__vendor/do", {"uri": "a:b"})
