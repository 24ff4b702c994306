"""The official clients over a transport that is handed in."""

from __future__ import annotations

import sys
from typing import Any

import anthropic
import httpx2
import pytest

from broker.agentloop.clients import official_client, outbound
from broker.agentloop.providers import Endpoint, ModelChoice
from broker.capabilities.credentials import Secret
from broker.errors import CapabilityError, ModelError, StoreError

CHOICES = {
    api: ModelChoice(Endpoint("p", api, "https://p.test/v1", "K"), "m")
    for api in ("messages", "responses", "chat")
}
PATHS = {
    "messages": "/v1/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
}
BODIES: dict[str, dict[str, Any]] = {
    "messages": {"model": "m", "max_tokens": 1, "messages": []},
    "responses": {"model": "m", "input": []},
    "chat": {"model": "m", "messages": []},
}
ALL = pytest.mark.parametrize("api", list(CHOICES))


def client(api: str, answer: Any, secret: Secret | None = None) -> Any:
    """Return a client over a transport that answers."""
    return official_client(CHOICES[api], secret, httpx2.MockTransport(answer), retries=0)


@ALL
def test_every_byte_passes_the_transport(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the environment names a proxy, nothing goes around what records."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        stream = b'event: ping\ndata: {"type": "ping", "choices": []}\n\n'
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    list(client(api, answer, Secret("s3cr3t")).events(BODIES[api]))
    (request,) = seen
    assert request.url.path == PATHS[api]
    assert "s3cr3t" in " ".join(request.headers.values())
    assert b'"stream":true' in request.read().replace(b" ", b"")


@ALL
def test_an_error_of_ours_passes_as_it_is(api: str) -> None:
    """What the recorder raises is not taken for the provider's fault, whatever wraps it."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        raise StoreError("a record cannot be written")

    with pytest.raises(StoreError, match="a record"):
        list(client(api, answer).events(BODIES[api]))


@ALL
def test_a_connection_that_fails_is_the_network(api: str) -> None:
    """The kind is told, and the cause is named."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("nobody listens")

    with pytest.raises(ModelError, match="nobody listens") as raised:
        list(client(api, answer).events(BODIES[api]))
    assert raised.value.kind == "network"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has not installed it is told which."""
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(CapabilityError, match=r"capability-broker\[agent\]"):
        official_client(CHOICES["messages"], None, httpx2.MockTransport(lambda request: None))
    assert anthropic.__name__ == "anthropic"


def _made(made: list[object]) -> Any:
    def transport(*, proxy: str | None) -> None:
        made.append(proxy)

    return transport


@pytest.mark.parametrize(
    ("url", "proxied"),
    [("https://api.test/v1", True), ("http://127.0.0.1:1/v1", False), ("http://plain.test", False)],
)
def test_a_proxy_of_the_environment_stands_below_the_recorder(
    url: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real way out takes the proxy that is named for its scheme, and none to this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made: list[object] = []
    monkeypatch.setattr(httpx2, "HTTPTransport", _made(made))
    outbound(url, lambda: {"https": "http://proxy.test:1"})
    assert made == ["http://proxy.test:1" if proxied else None]
