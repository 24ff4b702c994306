"""Chat Completions: what is special to it, and to those who speak it otherwise."""

from __future__ import annotations

from broker.capture.wires.chat import ChatReader
from broker.loopback.server import events

READER = ChatReader()


def chunk(**delta: object) -> tuple[str, object]:
    """Return one chunk of a stream."""
    return "", {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def test_calls_without_an_index() -> None:
    """A server that gives no index begins a new call by its id, and goes on without one."""
    told = [
        chunk(tool_calls=[{"id": "a", "function": {"name": "x", "arguments": '{"p"'}}]),
        chunk(tool_calls=[{"function": {"arguments": ":1}"}}]),
        chunk(tool_calls=[{"id": "b", "function": {"name": "y", "arguments": "{}"}}]),
        ("", {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
    ]
    found = READER.reply(events(told).decode(), stream=True)
    assert [(c.id, c.name, c.arguments) for c in found.calls] == [
        ("a", "x", {"p": 1}),
        ("b", "y", {}),
    ]


def test_instructions_are_no_message() -> None:
    """Two conversations that share only their instructions share no beginning."""
    system = {"role": "system", "content": "be good"}
    body = {"messages": [system, {"role": "user", "content": "a"}]}
    said = READER.asked(body, "")
    assert len(said.messages) == 1
    assert said.frame != READER.asked({"messages": body["messages"][1:]}, "").frame


def test_an_answer_with_and_without_content_is_the_same_message() -> None:
    """Beside calls some send an empty content, some null, some none."""
    call = {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    found = {
        READER.asked({"messages": [{"role": "assistant", "tool_calls": [call], **more}]}, "")
        .messages[0]
        .digest
        for more in ({}, {"content": None}, {"content": ""})
    }
    assert len(found) == 1


def test_only_the_first_choice_is_read() -> None:
    """A request for several answers has one conversation."""
    first = '{"message":{"content":"a"},"finish_reason":"stop"}'
    said = f'{{"choices":[{first},{{"message":{{"content":"b"}}}}]}}'
    assert READER.reply(said, stream=False).text == "a"
