"""Which model another provider's is, and what is told of its errors and broken streams."""

from __future__ import annotations

import json

import pytest

from broker.config import ModelSetting
from broker.errors import CapabilityError, InputError
from broker.replay.translation.other import OtherModel, TranslatedRequest, other_model

ASKED = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def _other(api: str = "chat") -> OtherModel:
    found = other_model("there/m-2", (ModelSetting("there", "http://x.example/v1", api, ""),), {})
    assert found is not None
    return found


def _request(*, stream: bool = True, api: str = "chat") -> TranslatedRequest:
    body = json.dumps({**ASKED, "stream": stream}).encode()
    return TranslatedRequest(_other(api), "/v1/messages?beta=true", body)


def test_a_provider_is_named_before_its_model() -> None:
    """A name of another form is a model of the agent's own; a known provider needs its key."""
    assert other_model("gpt-5", (), {}) is None
    assert other_model("someone/gpt-5", (), {}) is None
    with pytest.raises(CapabilityError, match="OPENAI_API_KEY"):
        other_model("openai/gpt-5", (), {})
    found = other_model("anthropic/claude-x", (), {"ANTHROPIC_API_KEY": "k-1"})
    assert found is not None
    assert (found.api, found.model, found.path) == (
        "anthropic.messages",
        "claude-x",
        "/v1/messages",
    )
    assert found.fields["x-api-key"] == "k-1"
    assert "k-1" not in repr(found)
    assert "authorization" not in _other().fields  # it wants no key


def test_a_stream_is_translated_as_it_comes() -> None:
    """Each event is told as soon as it is whole, however the bytes are cut."""
    request = _request()
    chunk = {"id": "c1", "choices": [{"delta": {"content": "yes"}}]}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    said = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in (chunk, end))
    told = [request.streamed(said[n : n + 1]) for n in range(len(said))]
    assert b"text_delta" in b"".join(told)
    assert b"message_stop" not in b"".join(told)
    assert b"message_stop" in request.streamed(b"data: [DONE]\n\n")
    assert request.ended() == b""


def test_a_stream_that_breaks_off_says_so() -> None:
    """What came is told, and then an error; never an end that was not there."""
    request = _request()
    request.streamed(b'data: {"id": "c1", "choices": [{"delta": {"content": "yes"}}]}\n\n')
    rest = request.ended()
    assert b"event: error" in rest
    assert b"message_stop" not in rest
    assert request.streamed(b'data: {"choices": [{"delta": {"content": "more"}}]}\n\n') == b""
    request = _request()
    request.streamed(b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\n')
    assert b'"max_tokens"' in request.ended()  # not every server sends the mark of the end


def test_errors_are_spelled_as_the_agent_reads_them() -> None:
    """A provider's error, and what is no JSON at all, in the agent's own protocol."""
    error = json.dumps({"error": {"code": "rate_limit", "message": "slow down"}}).encode()
    told = json.loads(_request().refused(error))
    assert told == {"type": "error", "error": {"type": "rate_limit", "message": "slow down"}}
    assert json.loads(_request().refused(b"<html>no"))["type"] == "error"
    whole = _request(stream=False)
    assert json.loads(whole.document(b"nonsense"))["type"] == "error"


def test_what_is_no_question_is_not_asked() -> None:
    """Another path, another protocol, and a body that is no object."""
    for path, body in (
        ("/v1/models", b"{}"),
        ("/v1/messages", b"[]"),
        ("/v1/messages", b"no"),
        ("/v1beta/models/gemini:generateContent", b"{}"),
    ):
        with pytest.raises(InputError):
            TranslatedRequest(_other(), path, body)
