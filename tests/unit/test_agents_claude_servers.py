"""Which MCP servers Claude Code would use, and where its options end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.agents.adapter import Launch
from broker.agents.claude.servers import configured, typed_values


def names(root: Path, *arguments: str, **environ: str) -> list[str]:
    """Return the names of the servers of a run."""
    launch = Launch((), {"HOME": str(root), **environ}, root / "ws", root / "s", root / "k")
    return sorted(configured(launch, arguments))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A home with two servers of the person's, one of them switched off here."""
    (tmp_path / "ws").mkdir()
    own = {
        "mcpServers": {"mine": {"command": "a"}, "off": {"command": "b"}},
        "projects": {str(tmp_path / "ws"): {"disabledMcpServers": ["off"]}},
    }
    (tmp_path / ".claude.json").write_text(json.dumps(own))
    typed = {"mcpServers": {"typed": {"command": "c"}}}
    (tmp_path / "ws" / "typed.json").write_text(json.dumps(typed))
    return tmp_path


def test_the_servers_are_those_of_the_person(root: Path) -> None:
    """Their own, and those typed; with `--strict-mcp-config` only the latter."""
    assert names(root) == ["mine"]
    assert names(root, "--mcp-config", "typed.json", '{"mcpServers":{"j":{}}}') == [
        "j",
        "mine",
        "typed",
    ]
    assert names(root, "--strict-mcp-config", "--mcp-config=typed.json") == ["typed"]
    assert names(root, "--strict-mcp-config") == []
    assert names(root, CLAUDE_CONFIG_DIR=str(root / "none")) == []


def test_what_cannot_be_read_names_none(root: Path) -> None:
    """Claude Code says so itself, and a file of another shape is no reason to end."""
    (root / ".claude.json").write_text('{"mcpServers": [], "projects": 7}')
    assert names(root, "--mcp-config", "none.json", "{broken") == []


@pytest.mark.parametrize(
    ("arguments", "values", "rest"),
    [
        (["go"], [], ["go"]),
        (["--mcp-config", "a", "b", "--model", "x"], ["a", "b"], ["--model", "x"]),
        (["--mcp-config=a", "go"], ["a"], ["go"]),
        (["-p", "go", "--mcp-config", "a"], ["a"], ["-p", "go"]),
        (["--mcp-config", "a", "--", "--mcp-config", "b"], ["a"], ["--", "--mcp-config", "b"]),
        (["--mcp-config", "-", "x"], ["-", "x"], []),
    ],
)
def test_the_option_takes_all_that_follows(
    arguments: Sequence[str], values: list[str], rest: list[str]
) -> None:
    """Up to the next option, or to the end of options; nothing is lost."""
    assert typed_values(arguments) == (values, rest)
