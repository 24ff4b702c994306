"""
Why a model call failed, in eight words that are the same for every provider.

``auth`` the provider does not know who asks, or denies it · ``rate_limit`` asked too often ·
``overloaded`` the provider has no room · ``context_overflow`` the conversation is too long ·
``network`` the connection failed · ``aborted`` the caller gave up · ``provider`` any other answer
that is no answer · ``unknown`` nothing of this.

Not decided here: whether to try again.

A rule a maintainer keeps: what the provider says of itself goes before the number of the status,
since gateways change numbers; the message is clipped and cleared of secrets.
"""

from __future__ import annotations

import json
import re
from typing import Final

from broker.records.model import Failure, FailureKind
from broker.redaction.hiding import clipped

MAX_MESSAGE_CHARS: Final = 500

_SAID: Final[tuple[tuple[re.Pattern[str], FailureKind], ...]] = (
    (
        re.compile(
            r"context_length_exceeded|request_too_large|prompt is too long|maximum context length"
            r"|context window|input token count .{0,40}exceeds|too many tokens in",
            re.IGNORECASE,
        ),
        "context_overflow",
    ),
    (re.compile(r"overloaded|server_is_overloaded|slow_down|UNAVAILABLE"), "overloaded"),
    (
        re.compile(r"rate_limit|insufficient_quota|RESOURCE_EXHAUSTED|too_many_requests"),
        "rate_limit",
    ),
    (
        re.compile(
            r"authentication_error|permission_error|invalid_api_key|PERMISSION_DENIED"
            r"|UNAUTHENTICATED|billing_error"
        ),
        "auth",
    ),
)
_STATUS: Final[dict[int, FailureKind]] = {
    401: "auth",
    402: "auth",
    403: "auth",
    407: "auth",
    413: "context_overflow",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}


def answered(status: int, body: str) -> Failure:
    """
    Return why an answer with this status is a failure.

    >>> answered(529, '{"error":{"type":"overloaded_error","message":"Overloaded"}}')
    Failure(kind='overloaded', message='status 529: Overloaded')
    >>> answered(400, '{"error":{"code":"context_length_exceeded","message":"too long"}}').kind
    'context_overflow'
    """
    said = said_of(body)
    kind = _kind(said) or _STATUS.get(status, "provider")
    return failed(kind, f"status {status}" + (f": {_message(said)}" if said else ""))


def told(error: object) -> Failure:
    """Return why an answer is a failure that says so in its midst, as a stream may."""
    return failed(_kind(error) or "provider", _message(error))


def failed(kind: FailureKind, message: str) -> Failure:
    """Return a failure with a message that can be kept."""
    return Failure(kind, " ".join(clipped(message, MAX_MESSAGE_CHARS).split()))


def said_of(body: str) -> object:
    """Return what the body of an error says: the error in it, else its text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip()
    if isinstance(value, list) and value:
        value = value[0]
    return value.get("error", value) if isinstance(value, dict) else body.strip()


def _kind(error: object) -> FailureKind | None:
    if isinstance(error, dict):
        text = " ".join(str(error.get(name, "")) for name in ("type", "code", "status", "message"))
    else:
        text = str(error)[: 4 * MAX_MESSAGE_CHARS]
    return next((kind for pattern, kind in _SAID if pattern.search(text)), None)


def _message(error: object) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error.get("code") or "")
    return str(error)
