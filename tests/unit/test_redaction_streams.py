"""Secrets in streams, where they arrive in pieces."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.loopback.anthropic import Anthropic
from broker.loopback.chat import Chat
from broker.loopback.responses import Responses
from broker.loopback.script import Say, Use, Wire
from broker.loopback.server import events
from broker.redaction.hiding import Hider
from broker.redaction.streams import hide_stream
from broker.redaction.texts import secrets_in

TEXT = "first PASSWORD=hunter2 then ghp_0123456789abcdef0123 and https://me:pw@host/ so"


def stream(pieces: list[str]) -> str:
    """Return a stream in which a text arrives in pieces."""
    rows = [{"type": "content_block_delta", "index": 0, "delta": {"text": p}} for p in pieces]
    return events(("content_block_delta", row) for row in rows).decode()


def told(text: str) -> str:
    """Return what the pieces of a stream say together."""
    rows = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
    return "".join(row["delta"]["text"] for row in rows)


@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_cutting_hides_nothing_from_us(cuts: list[int]) -> None:
    """However a text is cut into pieces, together they say what hiding the whole text says."""
    at = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(at)]
    fresh, paths = hide_stream(stream(pieces), Hider())
    assert told(fresh) == Hider().text(TEXT)
    assert paths
    assert fresh.count("\n") == stream(pieces).count("\n")


@pytest.mark.parametrize("wire", [Anthropic(), Chat(), Responses()])
def test_arguments_of_a_call_are_read_as_the_document_they_are(wire: Wire) -> None:
    """In all three protocols a secret argument goes from every event that tells it."""
    turn = Use([("login", {"credentials": {"it": "hunter2"}, "user": "me"})])
    text = events(wire.stream(wire.write(turn, "main-0", "m"))).decode()
    assert "hunter2" in text
    fresh, paths = hide_stream(text, Hider())
    assert "hunter2" not in fresh
    assert paths


@pytest.mark.parametrize("wire", [Anthropic(), Chat(), Responses()])
def test_a_stream_without_secrets_is_not_touched(wire: Wire) -> None:
    """Every byte stays where nothing is hidden."""
    text = events(wire.stream(wire.write(Say("hello"), "main-0", "m"))).decode()
    assert hide_stream(text, Hider()) == (text, [])


def test_two_answers_at_once_are_two_channels() -> None:
    """Pieces of two blocks that arrive in turns are joined each with its own."""
    rows = [
        {"type": "d", "index": index, "delta": {"text": piece}}
        for index, piece in ((0, "PASSWORD="), (1, "nothing "), (0, "hunter2"), (1, "here"))
    ]
    fresh, paths = hide_stream(events(("d", row) for row in rows).decode(), Hider())
    assert "hunter2" not in fresh
    assert "nothing " in fresh
    assert "here" in fresh
    assert paths == ["data[2].delta.text (substring)"]


def test_a_line_that_cannot_be_read_is_searched() -> None:
    """A malformed event is text, and is searched as text."""
    fresh, paths = hide_stream('data: {"a": \ndata: {"PASSWORD": "hunter2\n', Hider())
    assert "hunter2" not in fresh
    assert paths == ["line[1] (substring)"]


def test_lines_of_json_are_a_stream_too() -> None:
    """A stream without `data:` is read line by line."""
    fresh, paths = hide_stream('{"a":1}\n{"password":"x"}\n', Hider())
    assert fresh == '{"a":1}\n{"password":"[hidden]"}\n'
    assert paths == ["data[1].password"]
    assert secrets_in(fresh) == []
