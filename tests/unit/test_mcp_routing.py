"""Headers that repeat a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.mcp.messages import read_message
from broker.mcp.routing import METHOD, NAME, VERSION, contradicts, headers_of
from tests.mcpkit import call, said


@given(st.text(min_size=1, max_size=12).filter(lambda t: t.isprintable()))
def test_what_we_say_of_a_message_never_contradicts_it(name: str) -> None:
    """Whatever a tool is called, its headers hold the name, in characters that a header takes."""
    message = read_message(call(1, name))
    found = headers_of(message)
    assert all(value.isascii() and value.isprintable() for value in found.values())
    assert not contradicts(found[METHOD], found[NAME], message)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("ping", None),
        ("tools/call", "drop"),
        ("tools/call", "=?base64?ZHJvcA==?="),
        ("tools/call", "=?base64?not base64?="),
        ("tools/Call", "look"),
        (None, ""),
    ],
)
def test_a_header_that_says_something_else_is_seen(method: str | None, name: str | None) -> None:
    """Another method, another tool, and what cannot be read."""
    assert contradicts(method, name, read_message(call(1, "look")))


def test_a_message_without_a_name_has_no_such_header() -> None:
    """One that is there all the same contradicts it."""
    message = read_message(said("tools/list", 1))
    assert headers_of(message) == {METHOD: "tools/list"}
    assert contradicts(None, "look", message)
    assert not contradicts(None, None, message)


def test_the_version_is_the_messages_own() -> None:
    """A client without a handshake says it in every message."""
    about = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert headers_of(read_message(said("ping", 1, _meta=about)))[VERSION] == "2026-07-28"
    broken = {"io.modelcontextprotocol/protocolVersion": "1\r\nX: y"}
    assert VERSION not in headers_of(read_message(said("ping", 1, _meta=broken)))
