"""The models of a run: whose turn it is, how many there are, and what is told when none answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from broker.agentloop.chat import ChatDialect
from broker.agentloop.conversation import SpokenLine
from broker.agentloop.dialect import ModelQuery
from broker.agentloop.models import ProviderModels, unanswered
from broker.errors import LimitError, ModelError
from broker.harness.outcome import Result
from broker.harness.script import ToolCall
from broker.records.model import Failure


class Answering:
    """A client that answers with chunks, and keeps what it was asked."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, Any]] = []

    def events(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the next answer."""
        self.asked.append(body)
        yield from self.answers.pop(0)


def chunk(finish: str | None = None, **delta: object) -> dict[str, Any]:
    """Return one event of an answer."""
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def call(text: str) -> dict[str, Any]:
    """Return an answer's event that calls `read` with these arguments."""
    function = {"name": "read", "arguments": text}
    return chunk("tool_calls", tool_calls=[{"index": 0, "id": "c", "function": function}])


def models(
    *answers: list[dict[str, Any]], turns: int = 9
) -> tuple[ProviderModels, Answering, list]:
    """Return models over a client, and what they tell."""
    client, told = Answering(*answers), []
    made = ProviderModels(
        client,
        ChatDialect(),
        lambda: ModelQuery("m", "p", ()),
        lambda actor, text: told.append((actor, text)),
        turns=turns,
    )
    return made, client, told


def test_a_turn_after_the_other_until_it_ends() -> None:
    """Results go back, the last word ends it, and more that is said begins it anew."""
    made, client, told = models(
        [chunk(content="I "), chunk(content="look."), call('{"path": "a"}')],
        [chunk("stop", content="Done.")],
        [chunk("stop", content="Again.")],
    )
    made.talk.say("go")
    model = made.model()
    first = model.turn([])
    assert first is not None
    assert first.calls == (ToolCall("read", {"path": "a"}),)
    second = model.turn([Result("done", "one")])
    assert second is not None
    assert (second.text, model.turn([])) == ("Done.", None)
    again = model.turn([Result("failed", "the check failed")])
    assert again is not None
    assert again.text == "Again."
    assert told[:2] == [("main", "I "), ("main", "look.")]
    assert client.asked[1]["messages"][-1]["content"] == "one"


def test_arguments_that_cannot_be_read_are_a_fault_of_the_call() -> None:
    """The pipeline is given the fault, and no arguments."""
    made, _, _ = models([call('{"path')])
    made.talk.say("go")
    turn = made.model().turn([])
    assert turn is not None
    assert [(c.arguments, bool(c.fault)) for c in turn.calls] == [({}, True)]


def test_a_helper_has_a_conversation_of_its_own() -> None:
    """It sees its prompt, and the first agent sees nothing of what it says."""
    made, client, told = models([chunk("stop", content="Helped.")])
    made.talk.say("go")
    assert made.model("only this", "helper-1").turn([]) is not None
    assert [m["content"] for m in client.asked[0]["messages"]] == ["p", "only this"]
    assert made.talk.pieces == [SpokenLine("go")]
    assert told == [("helper-1", "Helped.")]


def test_turns_have_an_end() -> None:
    """An agent that goes on and on is stopped by name, and goes on when it is asked again."""
    made, client, _ = models(*([call("{}")] for _ in range(4)), turns=2)
    made.talk.say("go")
    model = made.model()
    model.turn([])
    model.turn([Result("done", "")])
    with pytest.raises(LimitError, match="2 turns") as raised:
        model.turn([Result("done", "")])
    assert raised.value.code == "limit.turns"
    assert made.model().turn([]) is not None
    assert len(client.asked) == 3


def test_an_answer_that_ends_early_says_so() -> None:
    """The person and the run are told why a text stops in its midst."""
    made, _, told = models([chunk("length", content="It is")])
    made.talk.say("go")
    turn = made.model().turn([])
    assert turn is not None
    assert turn.text == "It is\n(the answer ended early: length)"
    assert "".join(text for _, text in told) == turn.text


def test_an_answer_without_an_end_is_no_part_of_the_conversation() -> None:
    """A stream that just stops is an error, and the same question may be asked again."""
    made, _, _ = models([chunk(content="half")], [chunk("stop", content="whole")])
    made.talk.say("go")
    with pytest.raises(ModelError) as raised:
        made.model().turn([])
    assert raised.value.kind == "network"
    assert made.talk.pieces == [SpokenLine("go")]
    turn = made.model().turn([])
    assert turn is not None
    assert turn.text == "whole"


def test_a_model_with_nothing_to_say_ends() -> None:
    """An empty answer is no turn, and asks for no other."""
    made, client, _ = models([chunk("stop", content="")])
    made.talk.say("go")
    assert made.model().turn([]) is None
    assert len(client.asked) == 1


@pytest.mark.parametrize(
    ("kind", "help_"),
    [("auth", "key"), ("context_overflow", "new session"), ("rate_limit", "wait")],
)
def test_each_kind_of_failure_says_what_may_help(kind: Any, help_: str) -> None:
    """The message names the model, the kind, and what to do."""
    error = unanswered(Failure(kind, "status 4: no"), "a/b")
    assert error.code == f"model.{kind}"
    assert all(word in error.message for word in ("a/b", kind, "status 4: no", help_))
