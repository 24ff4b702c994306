"""Requests are told apart by whose they are, and each call and result in them is new once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.capture import conversation
from broker.capture.conversation import MAIN, Conversations, New, Owner, owner_of
from broker.capture.wires.said import ModelCall, SaidReply
from broker.loopback.script import Say, Turn, Use
from broker.records.failures import failed
from tests.wirekit import PAIRS, TURN, answer, path, request

NOBODY = Owner()
BROKEN = SaidReply(failure=failed("network", "cut"))


class Talk:
    """An agent and its model, in one protocol, whose conversations are seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen = Conversations()
        self.reader, self.wire = PAIRS[name]

    def asks(self, said: str, turns: Any = (), owner: Owner = NOBODY, **more: Any) -> New:
        """Send a request."""
        body = request(self.name, said, turns, **more)
        return self.seen.asked(self.reader.api, self.reader.asked(body, path(self.name)), owner)

    def hears(self, conversation: str, turn: Turn, at: int = 0) -> tuple[ModelCall, ...]:
        """Answer a request."""
        text = answer(self.wire, turn, f"s-{at}", stream=True)
        return self.seen.answered(conversation, self.reader.reply(text, stream=True))


@pytest.fixture(params=PAIRS)
def talk(request: pytest.FixtureRequest) -> Talk:
    """A talk in each protocol."""
    return Talk(request.param)


def test_each_call_and_each_result_once(talk: Talk) -> None:
    """Of calls that come back in every later request, each is new once, and so is its result."""
    turns: list[tuple[Turn, list[str]]] = []
    calls: list[str] = []
    results: list[str] = []
    for at in range(6):
        for _ in range(3):  # the first and the second try came to nothing
            new = talk.asks("go", turns)
            assert (new.name, new.calls, new.anew) == (MAIN, (), False)
            results += [result.id for result in new.results]
            if _ < 2:
                talk.seen.answered(MAIN, BROKEN)
        calls += [call.id for call in talk.hears(MAIN, TURN, at)]
        turns = [*turns, (TURN, [f"one {at}", f"two {at}"])]
    assert len(calls) == len(set(calls)) == 12
    assert results == calls[:10]


def test_results_name_their_tool_and_whether_they_failed() -> None:
    """A result has the name of its call, also where the protocol does not say it again."""
    for name in ("anthropic", "gemini"):
        talk = Talk(name)
        talk.asks("go")
        talk.hears(MAIN, TURN)
        new = talk.asks("go", [(TURN, ["one", "two"])])
        assert [(r.name, r.failed) for r in new.results] == [("read", False), ("shell", True)]


def test_subagents_without_any_header(talk: Talk) -> None:
    """Conversations that begin differently are told apart, while they take turns and at once."""
    talk.asks("main errand")
    first = talk.asks("first errand")
    second = talk.asks("second errand")
    twin = talk.asks("second errand")  # waits for its own answer, so it is another's
    assert [first.name, second.name, twin.name] == ["sub-1", "sub-2", "sub-3"]
    for name in (MAIN, "sub-1", "sub-2", "sub-3"):
        talk.hears(name, Use([("read", {"path": name})]))
    # Only the ids of calls tell twins apart, and a script gives both the same ones.
    for said, name in (("main errand", MAIN), ("first errand", "sub-1")):
        turns = [(Use([("read", {"path": name})]), ["text"])]
        new = talk.asks(said, turns)
        assert (new.name, len(new.results)) == (name, 1)


def test_a_twin_is_known_by_the_ids_of_its_calls() -> None:
    """Two subagents with one errand are told apart by the calls that their answers made."""
    talk = Talk("anthropic")
    talk.asks("main")
    talk.asks("errand")
    talk.asks("errand")
    for at, name in ((7, "sub-1"), (8, "sub-2")):
        talk.hears(name, TURN, at)
    for at, name in ((8, "sub-2"), (7, "sub-1")):
        body = request("anthropic", "errand", [(TURN, ["one", "two"])])
        for part in (*body["messages"][1]["content"], *body["messages"][2]["content"]):
            for key in ("id", "tool_use_id"):
                if key in part:
                    part[key] = part[key].replace("s-0", f"s-{at}")
        said = talk.reader.asked(body, "")
        new = talk.seen.asked(talk.reader.api, said, Owner())
        assert (new.name, len(new.results)) == (name, 2)


def test_headers_go_before_all_else(talk: Talk) -> None:
    """Where an agent says whose a request is, the same words are two conversations."""
    one, other = Owner("claude a", helper=True), Owner("claude b", helper=True)
    talk.asks("go", owner=Owner("claude "))
    assert talk.asks("go", owner=one).name == "sub-1"
    assert talk.asks("go", owner=other).name == "sub-2"
    talk.hears("sub-2", Say("hello"))
    new = talk.asks("go", [(Say("hello"), [])], owner=other)
    assert new.name == "sub-2"


def test_a_question_on_the_side(talk: Talk) -> None:
    """What offers no tools and fits nowhere is apart, also as the first of all."""
    assert talk.asks("a title, please", tools=[]).name == "side-1"
    assert talk.asks("go").name == MAIN
    assert talk.asks("another title", tools=[]).name == "side-2"
    talk.hears(MAIN, TURN)
    assert talk.asks("go", [(TURN, ["one", "two"])]).name == MAIN


def test_a_conversation_that_was_compacted_goes_on(talk: Talk) -> None:
    """With the same instructions and tools a new beginning is the main conversation's own."""
    talk.asks("go")
    talk.hears(MAIN, Say("hello"))
    new = talk.asks("what was said so far, in short", [(TURN, ["old", "old"])])
    assert (new.name, new.anew, new.calls, new.results) == (MAIN, True, (), ())
    talk.hears(MAIN, TURN, 5)


def test_a_subagent_may_have_other_tools(talk: Talk) -> None:
    """Other tools mean another agent, even if the main one is not waiting."""
    talk.asks("go")
    talk.hears(MAIN, Say("hello"))
    fewer = request(talk.name, "errand")["tools"]
    fewer = [{"functionDeclarations": [{"name": "read"}]}] if talk.name == "gemini" else fewer[:1]
    assert talk.asks("errand", tools=fewer).name == "sub-1"


def test_a_call_that_no_answer_was_seen_to_make(talk: Talk) -> None:
    """After an answer that could not be read its calls are taken from the next request."""
    talk.asks("go")
    talk.seen.answered(MAIN, BROKEN)
    new = talk.asks("go", [(TURN, ["one", "two"])])
    if talk.name == "gemini":  # without ids nobody knows that they are new
        assert new.calls == ()
        return
    assert [call.name for call in new.calls] == ["read", "shell"]
    assert [result.id for result in new.results] == [call.id for call in new.calls]


def test_an_agent_that_gives_ids_itself() -> None:
    """A call without an id keeps our name when its agent gives it one for its results."""
    talk = Talk("gemini")
    talk.asks("go")
    ours = [call.id for call in talk.hears(MAIN, TURN)]
    body = request("gemini", "go", [(TURN, ["one", "two"])])
    for at, content in enumerate(body["contents"][1:]):
        for n, part in enumerate(content["parts"]):
            part["functionCall" if at == 0 else "functionResponse"]["id"] = f"theirs-{n}"
    new = talk.seen.asked(talk.reader.api, talk.reader.asked(body, ""), Owner())
    assert new.calls == ()
    assert [result.id for result in new.results] == ours == ["main-0", "main-1"]


def test_ids_that_a_model_gives_again() -> None:
    """A model that counts its calls anew in each answer is understood all the same."""
    talk = Talk("chat")
    turns: list[tuple[Turn, list[str]]] = []
    for at in range(3):
        body = request("chat", "go", turns)
        for message in body["messages"]:
            for call in message.get("tool_calls", ()):
                call["id"] = "call_0"
            if "tool_call_id" in message:
                message["tool_call_id"] = "call_0"
        new = talk.seen.asked("openai.chat", talk.reader.asked(body, ""), Owner())
        assert [r.content for r in new.results] == ([f"text {at - 1}"] if at else [])
        call = ModelCall("call_0", "read", {"path": "a"})
        talk.seen.answered(MAIN, SaidReply(calls=(call,)))
        turns.append((Use([("read", {"path": "a"})]), [f"text {at}"]))


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["ask", "fail", "talk", "call"]), max_size=12))
def test_nothing_is_told_twice(steps: list[str]) -> None:
    """However tries, failures, words and calls follow each other, no call or result repeats."""
    for name in ("anthropic", "gemini"):
        talk = Talk(name)
        turns: list[tuple[Turn, list[str]]] = []
        calls: Counter[str] = Counter()
        results: Counter[str] = Counter()
        for step in steps:
            new = talk.asks("go", turns)
            calls.update(call.id for call in new.calls)
            results.update(result.id for result in new.results)
            if step == "fail":
                talk.seen.answered(new.name, BROKEN)
            elif step == "talk":
                talk.hears(new.name, Say("hm"), len(turns))
                turns.append((Say("hm"), []))
            elif step == "call":
                calls.update(call.id for call in talk.hears(new.name, TURN, len(turns)))
                turns.append((TURN, ["one", "two"]))
        assert set(calls.values()) <= {1}
        assert set(results.values()) <= {1}
        assert results.keys() <= calls.keys()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of very many conversations forgets the oldest, and never the main one."""
    monkeypatch.setattr(conversation, "MAX_CAPTURE_CONVERSATIONS", 20)
    talk = Talk("chat")
    talk.asks("go")
    for at in range(25):
        talk.asks(f"errand {at}")
    assert len(talk.seen._all) == 20
    assert MAIN in talk.seen._all
    assert talk.seen.answered("sub-1", SaidReply()) == ()


@pytest.mark.parametrize(
    ("marks", "helper"),
    [
        ({"x-claude-code-session-id": "s"}, False),
        ({"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, True),
        ({"thread-id": "t"}, False),
        ({"thread-id": "t", "x-codex-parent-thread-id": "p"}, True),
        ({"thread-id": "t", "x-openai-subagent": "review"}, True),
        ({"x-session-id": "s"}, False),
        ({"x-session-id": "s", "x-parent-session-id": "p"}, True),
        ({"x-interaction-type": "conversation-subagent"}, True),
        ({"x-interaction-type": "conversation-user"}, False),
        ({"content-type": "application/json"}, False),
    ],
)
def test_whose_a_request_is(marks: dict[str, str], helper: bool) -> None:
    """Each agent's own headers say whether a subagent asks."""
    assert owner_of(marks).helper == helper
