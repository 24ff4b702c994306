"""
Which API a request speaks, and what an answer of it tells.

Decided here: how model, finish reason and usage are read from Messages, Chat Completions and
Responses, as one document or as a stream, and when an answer is whole. Not decided here: what to
do with an answer that is not.

An answer is whole when it says so itself: a stream by its last event, a document by being one.
A connection that ends early is seen so, whatever the transport thinks of it.

Rules a maintainer keeps: reading never fails; what is not understood is not told. Another API is
recorded too: it counts in no turn, and a good status makes its answers whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.records.failures import failed, told
from broker.records.model import Failure
from broker.redaction.hiding import clipped

MESSAGES: Final = "anthropic-messages"
CHAT: Final = "openai-chat"
RESPONSES: Final = "openai-responses"
OTHER: Final = "other"
_MAX_WORD_CHARS: Final = 256  # characters of a model's name or a reason to stop
_ENDINGS: Final = (("/messages", MESSAGES), ("/chat/completions", CHAT), ("/responses", RESPONSES))


@dataclass(slots=True)
class Heard:
    """What an answer tells of itself; ``failure`` says why it is none, or not whole."""

    finish: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    failure: Failure | None = None


def api_of(method: str, path: str) -> str:
    """
    Return which API a request speaks.

    >>> api_of("POST", "/v1/messages"), api_of("POST", "/v1/messages/count_tokens")
    ('anthropic-messages', 'other')
    """
    if method == "POST":
        for ending, api in _ENDINGS:
            if path.endswith(ending):
                return api
    return OTHER


def model_of(body: bytes) -> str:
    """
    Return the model that a request names, or nothing.

    >>> model_of(b'{"model":"m-1"}'), model_of(b"x")
    ('m-1', '')
    """
    return _word(_object(_json(body.decode("utf-8", "replace"))).get("model"))


def tells(api: str, body: str, *, stream: bool) -> Heard:
    """Return what an answer with a good status tells."""
    if api == OTHER:
        return Heard()
    if stream:
        return _streamed(api, body)
    value = _json(body)
    if not isinstance(value, dict):
        return Heard(failure=failed("provider", "the answer is no JSON object"))
    if value.get("error") and not value.get("choices"):
        return Heard(failure=told(value["error"]))
    return _document(api, value)


def _document(api: str, value: Mapping[str, object]) -> Heard:
    found = Heard()
    _add_usage(found, value.get("usage"))
    if api == CHAT:
        for choice in _rows(value.get("choices")):
            found.finish = _word(choice.get("finish_reason")) or found.finish
    elif api == RESPONSES:
        found.finish = _word(value.get("status"))
        reason = _word(_object(value.get("incomplete_details")).get("reason"))
        found.finish = reason or found.finish
    else:
        found.finish = _word(value.get("stop_reason"))
    if not found.finish:
        found.failure = failed("provider", "the answer has no end: it names no reason to stop")
    return found


# ── streams ──


def _streamed(api: str, body: str) -> Heard:
    found = Heard()
    ended = False
    for event in events(body):
        if event is None:
            found.failure = found.failure or failed("provider", "an event of the stream is no JSON")
            continue
        if event == "[DONE]":
            ended = True
            continue
        ended = _heard(api, _object(event), found) or ended
    # Not every server of this API sends the mark of the end behind the reason to stop.
    ended = ended or (api == CHAT and found.finish is not None)
    if found.failure is None and not ended:
        found.failure = failed("network", "the stream ended before its last event")
    return found


def events(body: str) -> Iterator[object]:
    """
    Yield the data of each event: its JSON, the text `[DONE]`, or None for what is neither.

    >>> list(events('data: {"a":1}\\n\\ndata: [DONE]\\n\\n'))
    [{'a': 1}, '[DONE]']
    """
    data: list[str] = []
    # A last event without the blank line after it never came whole.
    for line in body.replace("\r\n", "\n").split("\n"):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            text = "\n".join(data)
            data = []
            yield text if text == "[DONE]" else _json(text)


def _heard(api: str, event: Mapping[str, object], found: Heard) -> bool:
    """Take in one event; return whether it is the last of its answer."""
    kind = _text(event.get("type"))
    if kind == "error" or (event.get("error") and not kind.startswith("response.")):
        found.failure = told(event.get("error") or event)
        return True
    if api == MESSAGES:
        return _heard_messages(kind, event, found)
    if api == CHAT:
        _add_usage(found, event.get("usage"))
        for choice in _rows(event.get("choices")):
            found.finish = _word(choice.get("finish_reason")) or found.finish
        return False
    return _heard_responses(kind, event, found)


def _heard_messages(kind: str, event: Mapping[str, object], found: Heard) -> bool:
    if kind == "message_start":
        _add_usage(found, _object(event.get("message")).get("usage"))
    elif kind == "message_delta":
        _add_usage(found, event.get("usage"))
        found.finish = _word(_object(event.get("delta")).get("stop_reason")) or found.finish
    return kind == "message_stop"


def _heard_responses(kind: str, event: Mapping[str, object], found: Heard) -> bool:
    if kind not in ("response.completed", "response.incomplete", "response.failed"):
        return False
    response = _object(event.get("response"))
    if kind == "response.failed":
        _add_usage(found, response.get("usage"))
        found.failure = told(response.get("error") or "the response failed")
        return True
    whole = _document(RESPONSES, response)
    found.finish, found.usage = whole.finish or kind.removeprefix("response."), whole.usage
    return True


# ── counts of tokens ──

_USAGE: Final = (
    ("input_tokens", "input"),
    ("prompt_tokens", "input"),
    ("output_tokens", "output"),
    ("completion_tokens", "output"),
    ("cache_read_input_tokens", "cache_read"),
    ("cache_creation_input_tokens", "cache_write"),
)
_DETAILS: Final = (
    ("input_tokens_details", "cached_tokens", "cache_read"),
    ("prompt_tokens_details", "cached_tokens", "cache_read"),
    ("output_tokens_details", "reasoning_tokens", "reasoning"),
    ("completion_tokens_details", "reasoning_tokens", "reasoning"),
)


def _add_usage(found: Heard, value: object) -> None:
    """Take in counts; a later one replaces an earlier one, since they grow."""
    usage = _object(value)
    for name, ours in _USAGE:
        _add(found, ours, usage.get(name))
    for group, name, ours in _DETAILS:
        _add(found, ours, _object(usage.get(group)).get(name))


def _add(found: Heard, name: str, value: object) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        found.usage[name] = value


# ── JSON of any shape ──


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _rows(value: object) -> list[Mapping[str, object]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _word(value: object) -> str:
    """Return a text that stands in a record as it is: whoever sent it chose what it says."""
    return clipped(_text(value), _MAX_WORD_CHARS)
