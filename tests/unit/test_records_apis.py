"""Which API a request speaks, and what an answer tells."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.loopback.anthropic import Anthropic
from broker.loopback.chat import Chat
from broker.loopback.responses import Responses
from broker.loopback.script import Say, Use, Wire
from broker.loopback.server import events
from broker.records.apis import CHAT, MESSAGES, OTHER, RESPONSES, api_of, model_of, tells

WIRES: list[tuple[str, Wire]] = [(MESSAGES, Anthropic()), (CHAT, Chat()), (RESPONSES, Responses())]
FINISH = {
    MESSAGES: ("end_turn", "tool_use"),
    CHAT: ("stop", "tool_calls"),
    RESPONSES: ("completed", "completed"),
}


def stream(rows: Iterable[object]) -> str:
    """Return rows as the events of a stream."""
    return events(("", row) for row in rows).decode()


def test_the_path_says_which_api() -> None:
    """Only a POST to one of three endings asks a model."""
    assert api_of("POST", "/x/v1/messages") == MESSAGES
    assert api_of("POST", "/openai/v1/chat/completions") == CHAT
    assert api_of("POST", "/v1/responses") == RESPONSES
    assert api_of("GET", "/v1/responses") == OTHER
    assert api_of("POST", "/v1/responses/r1/cancel") == OTHER


@pytest.mark.parametrize(("api", "wire"), WIRES)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_whole_answer_tells_its_end_and_its_counts(api: str, wire: Wire, streamed: bool) -> None:
    """Finish reason and usage are read from both forms of all three APIs."""
    for turn, finish in zip((Say("hi"), Use([("read", {})])), FINISH[api], strict=True):
        answer = wire.write(turn, "main-0", "m")
        body = events(wire.stream(answer)).decode() if streamed else json.dumps(answer)
        told = tells(api, body, stream=streamed)
        assert (told.failure, told.finish) == (None, finish)
        if not (api == CHAT and streamed):  # where counts come only when they are asked for
            assert (told.usage["input"], told.usage["output"]) == (1, 1)


@pytest.mark.parametrize(("api", "wire"), WIRES)
def test_every_cut_of_a_stream_is_seen(api: str, wire: Wire) -> None:
    """A stream that ends before its last event is told as a failure of the network."""
    body = events(wire.stream(wire.write(Say("hello"), "main-0", "m"))).decode()
    parts = body.split("\n\n")
    last = next(at for at, part in enumerate(parts) if '"finish_reason": "stop"' in part) + 1 if (
        api == CHAT) else len(parts) - 1  # fmt: skip
    for cut in range(last):
        told = tells(api, "\n\n".join(parts[:cut]) + "\n\n", stream=True)
        assert told.failure is not None
        assert told.failure.kind == "network", parts[:cut]


@pytest.mark.parametrize("api", [MESSAGES, CHAT, RESPONSES])
def test_an_event_that_is_no_json_is_the_providers_fault(api: str) -> None:
    """A malformed stream is no answer, even if its end comes."""
    told = tells(api, 'data: {"type": \n\ndata: [DONE]\n\n', stream=True)
    assert told.failure is not None
    assert told.failure.kind == "provider"


@pytest.mark.parametrize(
    ("api", "rows", "kind"),
    [
        (MESSAGES, [{"type": "error", "error": {"type": "overloaded_error"}}], "overloaded"),
        (CHAT, [{"error": {"code": "rate_limit_exceeded"}}], "rate_limit"),
        (RESPONSES, [{"type": "error", "code": "server_is_overloaded"}], "overloaded"),
        (RESPONSES, [{"type": "response.failed", "response": {"error": {
            "code": "context_length_exceeded"}}}], "context_overflow"),
    ],
)  # fmt: skip
def test_an_error_within_a_stream(api: str, rows: list[object], kind: str) -> None:
    """What a stream says of its own failure is normalised like a status."""
    told = tells(api, stream(rows), stream=True)
    assert told.failure is not None
    assert told.failure.kind == kind


def test_details_of_usage() -> None:
    """Cached and reasoning tokens are told under one name for all."""
    usage = {
        "input_tokens": 9,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    body = json.dumps({"status": "completed", "usage": usage})
    assert tells(RESPONSES, body, stream=False).usage == {
        "input": 9,
        "output": 5,
        "cache_read": 4,
        "reasoning": 3,
    }


def test_an_incomplete_response_says_why() -> None:
    """A response that ran out of tokens is whole, and its finish says so."""
    response = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    rows = [{"type": "response.incomplete", "response": response}]
    told = tells(RESPONSES, stream(rows), stream=True)
    assert (told.failure, told.finish) == (None, "max_output_tokens")


@given(body=st.text() | st.binary().map(lambda b: b.decode("utf-8", "replace")), end=st.text())
def test_reading_never_fails(body: str, end: str) -> None:
    """Whatever an answer holds, it is read, and what is not understood is not told."""
    for api in (MESSAGES, CHAT, RESPONSES, OTHER):
        for streamed in (True, False):
            assert tells(api, f"data: {body}\n\n{end}", stream=streamed).usage == {}
    assert isinstance(model_of(body.encode()), str)


@pytest.mark.parametrize("body", ['{"choices": 5}', '{"usage": {"input_tokens": -1}}', "[]", "{}"])
def test_values_of_the_wrong_kind_are_not_told(body: str) -> None:
    """A count that is none and a list that is none tell nothing."""
    for api in (MESSAGES, CHAT, RESPONSES):
        told = tells(api, body, stream=False)
        assert told.failure is not None
        assert told.usage == {}
