"""Anthropic Messages: what is particular to it."""

from __future__ import annotations

from broker.agentloop.conversation import Answers, CallAnswer, ModelReply, SpokenLine
from broker.agentloop.dialect import ModelQuery
from broker.agentloop.messages import MessagesDialect, MessagesGathering

ASKED = ModelQuery("m-1", "You are.", ())


def heard(*events: dict[str, object]) -> ModelReply | None:
    """Return what events come to."""
    hearing = MessagesGathering()
    for event in events:
        hearing.take(event)
    return hearing.reply()


def block(at: int, content: dict[str, object], *deltas: dict[str, object]) -> list[dict]:
    """Return the events of one block."""
    return [
        {"type": "content_block_start", "index": at, "content_block": content},
        *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": at},
    ]


def test_thoughts_go_back_with_their_signature() -> None:
    """What the model thought is kept as it came, and is no part of what it says."""
    reply = heard(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Yes."}),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    assert reply is not None
    assert (reply.text, reply.finish) == ("Yes.", "end_turn")
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    told = MessagesDialect().body(ASKED, [SpokenLine("go"), reply])["messages"]
    assert told[1]["content"][0] == thought


def test_a_call_that_was_cut_off_has_a_fault() -> None:
    """Arguments that end in their midst are none, and the block still goes back."""
    use = {"type": "tool_use", "id": "t", "name": "write", "input": {}}
    reply = heard(
        *block(0, use, {"type": "input_json_delta", "partial_json": '{"path": "a'}),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    )
    assert reply is not None
    (call,) = reply.calls
    assert (call.fault, reply.raw[0]["input"]) == ("the arguments are no JSON object", {})


def test_results_and_a_line_are_one_message_of_the_user() -> None:
    """The API wants the two sides in turns, with results in front."""
    answers = Answers((CallAnswer("t", "no", ok=False),))
    told = MessagesDialect().body(ASKED, [answers, SpokenLine("go on")])["messages"]
    (message,) = told
    assert [part["type"] for part in message["content"]] == ["tool_result", "text"]
    assert message["content"][0]["is_error"] is True


def test_a_text_of_blanks_is_left_out() -> None:
    """The API does not take back what it may say."""
    reply = heard(
        *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": " \n"}),
        {"type": "message_stop"},
    )
    assert reply is not None
    assert reply.raw == ()
