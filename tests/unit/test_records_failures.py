"""Why a model call failed, in eight words."""

from __future__ import annotations

import json

import pytest

from broker.records.failures import MAX_MESSAGE_CHARS, answered, failed, said_of, told


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"type": "authentication_error", "message": "invalid x-api-key"}, "auth"),
        (403, {"type": "permission_error"}, "auth"),
        (429, {"type": "rate_limit_error"}, "rate_limit"),
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, "rate_limit"),
        (529, {"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        (503, {"message": "The engine is busy"}, "overloaded"),
        (500, {"type": "overloaded_error"}, "overloaded"),
        (400, {"message": "prompt is too long: 9 tokens > 8 maximum"}, "context_overflow"),
        (400, {"code": "context_length_exceeded"}, "context_overflow"),
        (413, {"type": "request_too_large"}, "context_overflow"),
        (400, {"status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the "
               "maximum"}, "context_overflow"),
        (429, {"status": "RESOURCE_EXHAUSTED"}, "rate_limit"),
        (400, {"type": "invalid_request_error", "message": "no such field"}, "provider"),
        (500, {"type": "api_error"}, "provider"),
        (404, {"type": "not_found_error"}, "provider"),
    ],
)  # fmt: skip
def test_an_answer_has_one_of_the_words(status: int, error: dict[str, str], kind: str) -> None:
    """The same word stands for the same trouble, whoever the provider is."""
    assert answered(status, json.dumps({"error": error})).kind == kind
    assert answered(status, json.dumps([{"error": error}])).kind == kind


@pytest.mark.parametrize("body", ["", "<html>busy</html>", "[]", "null", "[" * 100_000])
def test_an_answer_that_is_no_json_is_read_by_its_status(body: str) -> None:
    """A gateway's page is no obstacle."""
    assert answered(503, body).kind == "overloaded"
    assert answered(502, body).kind == "provider"


def test_an_error_in_the_midst_of_a_stream() -> None:
    """An event may say that there will be no answer."""
    assert told({"type": "overloaded_error", "message": "Overloaded"}).kind == "overloaded"
    assert told("nonsense").kind == "provider"


def test_a_message_is_clipped_and_clean() -> None:
    """A provider that quotes the key it was given does not put it into the record."""
    failure = failed("auth", "bad key sk-0123456789abcdef0123\n" + "x" * 9_000)
    assert failure.message.startswith("bad key [hidden] x")
    assert len(failure.message) == MAX_MESSAGE_CHARS
    long = "PASSWORD=" + "a" * 3 * MAX_MESSAGE_CHARS
    for cut in (*range(940, 1_000), *range(1_440, 1_500)):
        assert "hunter" not in failed("auth", f"{long[:cut]} https://me:hunter22@host/").message
    assert said_of('{"error":"no"}') == "no"
