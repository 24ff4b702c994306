"""One request and its answer, as ASGI hands them over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from broker.limits import MAX_SERVED_BODY_BYTES
from broker.service.exchange import Gone, Rejected, WebRequest, json_response, rejection

JSON = (b"content-type", b"application/json; charset=utf-8")
Header = tuple[bytes, bytes]


def _exchange(messages: Sequence[Mapping[str, Any]], *headers: Header) -> tuple[WebRequest, list]:
    left, sent = list(messages), []

    async def receive() -> Mapping[str, Any]:
        return left.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    return WebRequest.of({"headers": [JSON, *headers]}, receive, send), sent


def _part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_read_whole() -> None:
    """A body that comes in parts is one, and nothing is left unread."""
    exchange, _ = _exchange([_part(b'{"a"', True), _part(b":1}")])
    assert asyncio.run(exchange.object()) == {"a": 1}
    assert not exchange.unread


def test_a_client_that_leaves_is_not_answered() -> None:
    """Half a body and a client that is gone make no request."""
    exchange, _ = _exchange([_part(b'{"a"', True), {"type": "http.disconnect"}])
    with pytest.raises(Gone):
        asyncio.run(exchange.object())


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_long_is_answered_all_the_same(announced: bool) -> None:
    """Announced or not, it is refused, and the rest is taken in before the answer ends."""
    big = _part(b"x" * (MAX_SERVED_BODY_BYTES + 1), True)
    said = [(b"content-length", b"10000000")] if announced else []
    exchange, sent = _exchange([big, _part(b"x", True), _part(b"x")], *said)

    async def work() -> None:
        with pytest.raises(Rejected) as told:
            await exchange.object()
        await exchange.answer(rejection(told.value))

    asyncio.run(work())
    assert (sent[0]["status"], sent[1]["more_body"], sent[2]["body"]) == (413, True, b"")


@pytest.mark.parametrize("name", [b"authorization", b"content-length", b"Content-Type"])
def test_a_header_that_counts_stands_once(name: bytes) -> None:
    """Two of them could be read in two ways, so neither is."""
    with pytest.raises(Rejected) as told:
        _exchange([], (name, b"1"), (name, b"2"))
    assert told.value.status == 400


@pytest.mark.parametrize(("given", "kept"), [(b"a-1", "a-1"), (b"a b", ""), (b"x" * 129, "")])
def test_a_request_is_called_what_its_client_calls_it(given: bytes, kept: str) -> None:
    """A name that can be sent back is, and no other, so that no header can be made up."""
    exchange, sent = _exchange([], (b"x-request-id", given))
    asyncio.run(exchange.answer(json_response(200, {})))
    assert exchange.request_id == kept
    assert ((b"x-request-id", kept.encode()) in sent[0]["headers"]) == bool(kept)
