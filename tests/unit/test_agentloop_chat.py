"""OpenAI Chat Completions: what is particular to it."""

from __future__ import annotations

from broker.agentloop.chat import ChatDialect, ChatGathering
from broker.agentloop.conversation import SpokenLine
from broker.agentloop.dialect import ModelQuery


def test_a_server_that_names_no_call_gets_names() -> None:
    """A call without an id is answered by one of ours."""
    hearing = ChatGathering()
    call = {"index": 0, "function": {"name": "read", "arguments": '{"path": "a"}'}}
    hearing.take({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    reply = hearing.reply()
    assert reply is not None
    assert [(c.ref, c.tool, c.arguments) for c in reply.calls] == [
        ("call_0", "read", {"path": "a"})
    ]


def test_arguments_come_in_pieces() -> None:
    """Pieces of two calls are told apart by their place."""
    hearing = ChatGathering()
    for at, piece in ((0, '{"a"'), (1, "{}"), (0, ": 1}")):
        call = {"index": at, "id": f"c{at}", "function": {"name": "read", "arguments": piece}}
        hearing.take({"choices": [{"delta": {"tool_calls": [call]}}]})
    hearing.take({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    reply = hearing.reply()
    assert reply is not None
    assert [call.arguments for call in reply.calls] == [{"a": 1}, {}]


def test_the_prompt_stands_in_front() -> None:
    """The prompt is the system's message, and is no part of the conversation that is read back."""
    dialect = ChatDialect()
    body = dialect.body(ModelQuery("m", "You are.", ()), [SpokenLine("go")])
    assert body["messages"][0] == {"role": "system", "content": "You are."}
    assert dialect.pieces(body) == [SpokenLine("go")]
    assert "tools" not in body
