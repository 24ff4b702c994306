"""`broker mcp`: what is typed."""

from __future__ import annotations

import pytest

from tests.console import Console


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the server's command"),
        (["--url", "http://h/", "--", "s"], "name the server's command"),
        (["--header", "nothing", "--url", "http://h/"], "NAME:VALUE"),
        (["--listen", "1", "--", "s"], "--listen"),
        (["--server", "a b", "--", "s"], "no name"),
        (["--scope", "nonsense", "--", "s"], "nonsense"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: list[str], said: str, broker: Console) -> None:
    """The exit code is 2, and the line says what is wrong."""
    done = broker("mcp", *words)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_secret_headers_are_texts(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable holds a JSON object of texts, or nothing is started."""
    for text in ("[]", "{", '{"a":1}'):
        monkeypatch.setenv("BROKER_MCP_HEADERS", text)
        assert "BROKER_MCP_HEADERS" in broker("mcp", "--url", "http://h/").err


def test_an_address_may_come_from_the_environment(
    broker: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where neither a command nor an address is typed: it may hold a key."""
    monkeypatch.setenv("BROKER_MCP_URL", "ftp://h/?key=secret")
    done = broker("mcp")
    assert done.code == 2
    assert "no address of the web" in done.err
    monkeypatch.setenv("BROKER_MCP_URL", "ftp://h/")
    assert "no address" not in broker("mcp", "--listen", "1", "--", "s").err


def test_help_says_how_tools_are_named(broker: Console) -> None:
    """Whoever writes a scope finds the names there."""
    assert "mcp__SERVER__resources/read" in broker("mcp", "--help").out
