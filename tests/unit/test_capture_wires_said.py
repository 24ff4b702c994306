"""What is told of a request and of its answer is the same in all four protocols."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.capture.wires.said import bare, digest, framed, texts, value_of
from broker.loopback.script import Say
from tests.wirekit import PAIRS, TURN, answer, path, request

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_is_read(name: str, stream: bool) -> None:
    """Text, calls with their arguments, reason to stop and counts, whole or as a stream."""
    reader, wire = PAIRS[name]
    talk = reader.reply(answer(wire, Say("hello"), "s-0", stream=stream), stream=stream)
    assert (talk.text, talk.calls, talk.failure) == ("hello", (), None)
    assert (talk.input_tokens, talk.output_tokens) == (1, 1)
    use = reader.reply(answer(wire, TURN, "s-0", stream=stream), stream=stream)
    assert [(c.name, c.arguments) for c in use.calls] == [
        ("read", {"path": "a"}),
        ("shell", {"cmd": "ls"}),
    ]
    assert bool(use.finish)
    assert all(bool(c.id) == (name != "gemini") for c in use.calls)


@pytest.mark.parametrize("name", PAIRS)
def test_a_request_is_read(name: str) -> None:
    """Model, tools, messages, the calls and the results in them."""
    reader, _ = PAIRS[name]
    said = reader.asked(request(name, "go", [(TURN, ["one", "two"])]), path(name))
    assert (said.model, said.tools, said.stream) == ("m-1", ("read", "shell"), True)
    calls = [(c.name, c.arguments) for m in said.messages for c in m.calls]
    assert calls == [("read", {"path": "a"}), ("shell", {"cmd": "ls"})]
    results = [r for m in said.messages for r in m.results]
    assert len(results) == 2
    assert said.messages[0].who == "user"
    assert any(m.who == "model" for m in said.messages)


@pytest.mark.parametrize("name", PAIRS)
def test_a_conversation_keeps_its_beginning(name: str) -> None:
    """What was sent before is known again when more is sent, and another user's word is not."""
    reader, _ = PAIRS[name]
    first = reader.asked(request(name, "go"), path(name))
    later = reader.asked(request(name, "go", [(TURN, ["one", "two"])]), path(name))
    other = reader.asked(request(name, "stop"), path(name))
    start = [m.digest for m in first.messages]
    assert [m.digest for m in later.messages][: len(start)] == start
    assert [m.digest for m in other.messages] != start
    assert first.frame == later.frame == other.frame


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=25)
@given(
    body=st.dictionaries(
        st.sampled_from(["model", "messages", "input", "contents", "tools", "system"]), JSON
    ),
    text=st.text(),
)
def test_reading_never_fails(name: str, body: dict[str, object], text: str) -> None:
    """Whatever a request or an answer holds, it is read as far as it is understood."""
    reader, _ = PAIRS[name]
    reader.asked(body, path(name))
    for stream in (True, False):
        reader.reply(text, stream=stream)
        reader.reply("data: " + text + "\n\n", stream=stream)


@given(JSON)
def test_what_stands_beside_does_not_count(value: object) -> None:
    """A message is known by its content, whatever marks stand beside it."""
    assert digest([value]) == digest([bare(value)])
    assert digest({"a": value, "cache_control": {"type": "ephemeral"}}) == digest({"a": value})


def test_small_words() -> None:
    """Texts of parts, values of arguments, and what a conversation is asked within."""
    assert texts({"parts": [{"text": "a"}]}) == texts("a") == "a"
    assert value_of("{") == "{"
    assert framed("x" * 200 + "today", ["b", "a"]) == framed("x" * 200 + "tomorrow", ["a", "b"])
    assert framed("x", ["a"]) != framed("x", [])
