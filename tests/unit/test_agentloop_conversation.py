"""A conversation: every call is answered, and whose turn it is."""

from __future__ import annotations

from broker.agentloop.conversation import (
    STOPPED,
    Answers,
    AskedCall,
    Dialogue,
    ModelReply,
    SpokenLine,
)
from broker.harness.outcome import Result

CALLS = (AskedCall("c1", "read", {"path": "a"}), AskedCall("c2", "shell", {}))
ASKING = ModelReply("I look.", CALLS, "chat", ({"role": "assistant"},))


def test_results_answer_calls_in_their_order() -> None:
    """Each result belongs to its call, and says whether it went well."""
    talk = Dialogue([SpokenLine("go"), ASKING])
    assert (talk.due, talk.waiting) == (False, CALLS)
    talk.answer([Result("done", "one"), Result("refused", "no")])
    last = talk.pieces[-1]
    assert isinstance(last, Answers)
    assert [(item.ref, item.text, item.ok) for item in last.items] == [
        ("c1", "one", True),
        ("c2", "no", False),
    ]
    assert talk.due


def test_a_turn_that_was_stopped_leaves_no_call_without_an_answer() -> None:
    """What a person says next goes behind the answers that say so."""
    talk = Dialogue([SpokenLine("go"), ASKING])
    talk.say("something else")
    _, _, answers, said = talk.pieces
    assert isinstance(answers, Answers)
    assert {item.text for item in answers.items} == {STOPPED}
    assert said == SpokenLine("something else")


def test_results_without_calls_are_said() -> None:
    """A check that failed after the last word is told as text."""
    talk = Dialogue([SpokenLine("go"), ModelReply("Done.", (), "chat", ({"role": "assistant"},))])
    talk.answer([])
    assert not talk.due
    talk.answer([Result("failed", "the check failed")])
    assert talk.pieces[-1] == SpokenLine("the check failed")


def test_a_reply_without_content_leaves_nothing() -> None:
    """An API does not take back what is empty, so it is not kept."""
    talk = Dialogue([SpokenLine("go")])
    talk.add(ModelReply("", (), "chat", ()))
    assert talk.pieces == [SpokenLine("go")]
