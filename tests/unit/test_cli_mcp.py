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


def test_help_says_how_tools_are_named(broker: Console) -> None:
    """Whoever writes a scope finds the names there."""
    assert "mcp__SERVER__resources/read" in broker("mcp", "--help").out
