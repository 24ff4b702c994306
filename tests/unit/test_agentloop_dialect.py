"""What all three dialects must be: they tell a conversation, and read back what they told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agentloop.chat import ChatDialect
from broker.agentloop.conversation import (
    Answers,
    AskedCall,
    CallAnswer,
    ModelReply,
    Piece,
    SpokenLine,
)
from broker.agentloop.dialect import (
    ApiDialect,
    ModelQuery,
    ToldTool,
    asked_call,
    gathered,
    rows_of,
    stream_events,
)
from broker.agentloop.messages import MessagesDialect
from broker.agentloop.responses import ResponsesDialect
from broker.loopback.anthropic import Anthropic
from broker.loopback.chat import Chat
from broker.loopback.responses import Responses
from broker.loopback.script import Say, Turn, Use, Wire
from broker.loopback.server import events
from broker.records.apis import api_of

DIALECTS: list[tuple[ApiDialect, Wire]] = [
    (MessagesDialect(), Anthropic()),
    (ResponsesDialect(), Responses()),
    (ChatDialect(), Chat()),
]
ALL = pytest.mark.parametrize(("dialect", "wire"), DIALECTS, ids=["messages", "responses", "chat"])
ASKED = ModelQuery("m-1", "You are.", (ToldTool("read", "Reads.", {"type": "object"}),))
USE = Use([("read", {"path": "a"}), ("grep", {"pattern": "ü"})])

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9).filter(str.strip)
VALUES = st.one_of(st.integers(-9, 9), TEXTS, st.lists(TEXTS, max_size=2))
CALLS = st.lists(
    st.tuples(st.sampled_from(["read", "shell"]), st.dictionaries(TEXTS, VALUES, max_size=2)),
    max_size=2,
)


def answer_of(wire: Wire, turn: Turn, name: str = "main-0") -> str:
    """Return the stream in which a provider says a turn."""
    return events(wire.stream(wire.write(turn, name, "m-1"))).decode()


@st.composite
def talks(draw: st.DrawFn) -> list[tuple[str, str, list[tuple[str, dict[str, object]]]]]:
    """Draw turns: what is said to the model, what it says, and what it calls."""
    return draw(st.lists(st.tuples(TEXTS, TEXTS, CALLS), min_size=1, max_size=3))


def conversation(
    wire: Wire, dialect: ApiDialect, drawn: list[tuple[str, str, list]]
) -> list[Piece]:
    """Return a conversation with what a provider of this API said."""
    pieces: list[Piece] = []
    for n, (said, text, calls) in enumerate(drawn):
        pieces.append(SpokenLine(said))
        turn: Turn = Use(calls) if calls else Say(text)
        reply = gathered(dialect, answer_of(wire, turn, f"main-{n}"))
        assert reply is not None
        pieces.append(reply)
        if calls:
            pieces.append(Answers(tuple(CallAnswer(c.ref, text) for c in reply.calls)))
    return pieces


def plainly(pieces: list[Piece]) -> list[object]:
    """Return what was said, without what an API wraps it in."""
    return [
        (piece.text, [(c.ref, c.tool, dict(c.arguments)) for c in piece.calls])
        if isinstance(piece, ModelReply)
        else piece
        for piece in pieces
    ]


@ALL
@given(drawn=talks())
def test_what_is_told_is_read_back(dialect: ApiDialect, wire: Wire, drawn: list) -> None:
    """A request's body tells the whole conversation, and nothing else."""
    pieces = conversation(wire, dialect, drawn)
    body = json.loads(json.dumps(dialect.body(ASKED, pieces)))
    assert plainly(dialect.pieces(body)) == plainly(pieces)
    assert dialect.body(ASKED, dialect.pieces(body)) == body


@ALL
@given(drawn=talks())
def test_a_body_begins_like_the_one_before(dialect: ApiDialect, wire: Wire, drawn: list) -> None:
    """What was told once is told the same way ever after, so that it is kept once."""
    pieces = conversation(wire, dialect, drawn)
    name = "input" if "input" in dialect.body(ASKED, []) else "messages"
    before: list[object] = []
    for end in range(1, len(pieces) + 1):
        told = dialect.body(ASKED, pieces[:end])[name]
        # The last message of a person may still grow: their line goes behind the results.
        kept = max(0, len(before) - 1)
        assert told[:kept] == before[:kept]
        before = told


@ALL
@pytest.mark.parametrize("other", DIALECTS, ids=["messages", "responses", "chat"])
def test_a_conversation_goes_on_over_another_api(
    dialect: ApiDialect, wire: Wire, other: tuple[ApiDialect, Wire]
) -> None:
    """Texts and calls of one API are told over each other one."""
    pieces = conversation(wire, dialect, [("go", "x", list(USE.calls)), ("on", "Done.", [])])
    body = json.loads(json.dumps(other[0].body(ASKED, pieces)))
    assert plainly(other[0].pieces(body)) == plainly(pieces)


@ALL
@pytest.mark.parametrize("turn", [Say("Hello."), USE], ids=["say", "use"])
def test_a_stream_is_gathered(dialect: ApiDialect, wire: Wire, turn: Turn) -> None:
    """What a provider streams becomes its reply; what it says comes as it is said."""
    hearing = dialect.gathering()
    stream = answer_of(wire, turn)
    said = "".join(hearing.take(event) for event in stream_events(stream))
    reply = hearing.reply()
    assert reply is not None
    assert reply.text == said == (turn.text if isinstance(turn, Say) else "")
    wanted = [] if isinstance(turn, Say) else list(turn.calls)
    assert [(call.tool, call.arguments) for call in reply.calls] == wanted


@ALL
def test_an_answer_without_its_end_is_none(dialect: ApiDialect, wire: Wire) -> None:
    """A stream that stops anywhere before its end is no reply."""
    whole = answer_of(wire, USE)
    blocks = [block + "\n\n" for block in whole.split("\n\n") if block]
    ends = {"anthropic-messages": 1, "openai-responses": 1, "openai-chat": 3}[dialect.api]
    for n in range(len(blocks) - ends + 1):
        assert gathered(dialect, "".join(blocks[:n])) is None
    assert gathered(dialect, whole) is not None


def test_the_names_of_apis_are_those_of_records() -> None:
    """A record says by the same word what it was asked over."""
    paths = ["/v1/messages", "/v1/responses", "/v1/chat/completions"]
    assert [api_of("POST", path) for path in paths] == [dialect.api for dialect, _ in DIALECTS]


@pytest.mark.parametrize("text", ['{"a', "[1]", "1", '"x"', "{" * 100_000])
def test_arguments_that_are_no_object_are_a_fault(text: str) -> None:
    """They are never guessed, and nothing is called with them."""
    call = asked_call("c", "read", text)
    assert (call.arguments, call.fault) == ({}, "the arguments are no JSON object")
    assert asked_call("c", "read", "") == AskedCall("c", "read", {})


def test_what_is_no_event_is_passed_over() -> None:
    """Comments, the mark of the end and broken data are no events."""
    stream = ': hi\n\ndata: {"a": 1}\r\n\r\ndata: [DONE]\n\ndata: {"b\n\ndata: [1]\n\n'
    assert list(stream_events(stream)) == [{"a": 1}]
    assert rows_of(None) == rows_of("x") == []
