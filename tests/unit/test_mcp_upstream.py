"""Requests to a server behind an address."""

from __future__ import annotations

import pytest

from broker.errors import InputError, StoreError
from broker.mcp.upstream import Upstream, read_address_of
from tests.mcpkit import WebServer


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://a/b", "https://", "http://u:p@h/", "http://h:x/", "http://h/#a"],
)
def test_only_an_address_of_the_web_is_one(url: str) -> None:
    """Anything else is an error before anything is sent."""
    with pytest.raises(InputError):
        read_address_of(url)


def test_an_address_keeps_its_query() -> None:
    """Path and query are asked for as they were given."""
    found = read_address_of("http://[::1]:80/mcp?key=1")
    assert (found.host, found.port, found.path) == ("::1", 80, "/mcp?key=1")


def test_headers_go_there_but_for_those_of_the_connection() -> None:
    """The person's own come last and win; no encoding is asked for."""
    with WebServer(lambda *_: (200, {}, [b"{}"])) as server:
        upstream = Upstream(server.url, {"Authorization": "mine"})
        sent = {"Authorization": "theirs", "Origin": "x", "Connection": "close", "X-A": "1"}
        upstream.ask("POST", sent, b"{}").close()
        _, heard, body = server.heard[0]
    assert body == b"{}"
    assert (heard["authorization"], heard["x-a"]) == ("mine", "1")
    assert heard["accept-encoding"] == "identity"
    assert "origin" not in heard


@pytest.mark.parametrize(
    ("status", "headers"),
    [(302, {"Location": "http://elsewhere/"}), (307, {}), (200, {"Content-Encoding": "gzip"})],
)
def test_an_answer_that_leads_away_is_a_fault(status: int, headers: dict[str, str]) -> None:
    """Neither a redirect nor an encoding that is not read here is passed on."""
    with WebServer(lambda *_: (status, headers, [])) as server:
        reply = Upstream(server.url).ask("GET", {})
        assert reply.fault()
        reply.close()


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    """A refused connection, and one that ends before an answer."""
    with WebServer(lambda *_: (200, {}, [])) as server:
        url = server.url
    with pytest.raises(StoreError):
        Upstream(url).ask("POST", {}, b"{}")


def test_a_header_cannot_hold_a_second_one() -> None:
    """A line break in a value is an error, and nothing is sent."""
    with WebServer(lambda *_: (200, {}, [])) as server:
        with pytest.raises(StoreError):
            Upstream(server.url, {"X": "1\r\nY: 2"}).ask("GET", {})
        assert server.heard == []
