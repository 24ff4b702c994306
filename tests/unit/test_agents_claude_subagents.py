"""Where Claude Code's subagents are defined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.agents.claude.subagents import definitions, spelled
from broker.agents.definitions import Listing
from broker.errors import LaunchError


def test_files_and_the_option_define_subagents(tmp_path: Path) -> None:
    """The person's files, in folders too, and what was typed; the workspace's are not loaded."""
    folder = tmp_path / ".claude/agents/team"
    folder.mkdir(parents=True)
    (folder / "looker.md").write_text("---\nname: looker\ntools: Read, Task\n---\n")
    typed = json.dumps({"typed": {"tools": ["Read"], "disallowedTools": ["Bash"]}, "open": {}})
    found = definitions({"HOME": str(tmp_path)}, typed)
    assert found.listed("looker") == Listing(("Read", "Agent", "Task"))
    assert found.listed("typed") == Listing(("Read",), ("Bash",))
    assert found.listed("open") == Listing()
    assert found.listed("other") is None
    (tmp_path / "agents.json").write_text(typed)
    named = definitions({"HOME": "/none"}, str(tmp_path / "agents.json"))
    assert named.listed("typed") == Listing(("Read",), ("Bash",))


@pytest.mark.parametrize("typed", ["{broken", "[]", "none.json", '{"a": {"tools": 7}}'])
def test_an_option_that_cannot_be_read_is_an_error(typed: str) -> None:
    """The run does not start with agents that nobody knows."""
    with pytest.raises(LaunchError, match="--agents"):
        definitions({"HOME": "/none"}, typed)


def test_a_server_stands_for_its_tools() -> None:
    """A definition may name a whole server; a scope has a pattern for that."""
    assert spelled("mcp__notes") == ("mcp__notes__*",)
    assert spelled("mcp__notes__look") == ("mcp__notes__look",)
    assert spelled("mcp__notes__*") == ("mcp__notes__*",)
