"""What would undo the hook in a run of Copilot CLI, and which MCP servers are the person's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.agents.copilot.settings import configured, undoing, user_folder

OFF = {"disableAllHooks": True}
SERVERS = {"mcpServers": {"notes": {}}}


def put(path: Path, content: object) -> Path:
    """Write a file, an object as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("repo/ws/.github/copilot/settings.json", OFF),
        ("repo/ws/.github/copilot/settings.local.json", "// x\n" + json.dumps(OFF)),
        ("repo/ws/.claude/settings.json", OFF),
        ("repo/ws/.claude/settings.local.json", {"disableAllHooks": "yes"}),
        ("repo/.github/copilot/settings.json", OFF),
        ("repo/.github/copilot/settings.json", "{"),
        ("user/settings.json", OFF),
        ("user/config.json", "// managed\n" + json.dumps(OFF)),
        ("user/extensions/x/extension.mjs", ""),
        ("repo/ws/.github/extensions/x/extension.mjs", ""),
        ("repo/.github/extensions/x/extension.mjs", ""),
    ],
)
def test_what_would_undo_the_hook_is_named(tmp_path: Path, name: str, content: object) -> None:
    """In the folder of the run, above it in its repository, and of the user's own."""
    (tmp_path / "repo/ws").mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    put(tmp_path / name, content)
    told = undoing(tmp_path / "user", tmp_path / "repo/ws")
    assert told is not None
    assert name.partition("/extensions")[0] in told


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("repo/ws/.github/copilot/settings.json", {"disableAllHooks": False, "hooks": {}}),
        ("repo/ws/.github/hooks/x.json", {"version": 1, "hooks": {"preToolUse": [{}]}}),
        (".claude/settings.json", OFF),
        ("user/settings.json", {"model": "x"}),
    ],
)
def test_what_would_not_is_left_alone(tmp_path: Path, name: str, content: object) -> None:
    """Hooks that run before ours, and what lies outside of the repository."""
    (tmp_path / "repo/ws").mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    put(tmp_path / name, content)
    assert undoing(tmp_path / "user", tmp_path / "repo/ws") is None


def test_without_a_repository_the_folder_counts_alone(tmp_path: Path) -> None:
    """What lies above it is nothing that Copilot reads."""
    (tmp_path / "ws").mkdir()
    put(tmp_path / ".claude/settings.json", OFF)
    assert undoing(tmp_path / "user", tmp_path / "ws") is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """What cannot be read is taken to say the worst."""
    place = tmp_path / "ws/.claude/settings.json"
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    assert "cannot be read" in str(undoing(tmp_path / "user", tmp_path / "ws"))


def test_the_servers_are_those_of_the_person(tmp_path: Path) -> None:
    """From the file of the user's own, and as typed, a file or JSON; a repository names none."""
    put(tmp_path / "user/mcp-config.json", {"mcpServers": {"mine": {}}})
    put(tmp_path / "ws/typed.json", {"mcpServers": {"filed": {}}})
    put(tmp_path / "ws/.mcp.json", {"mcpServers": {"theirs": {}}})
    typed = ["@typed.json", json.dumps(SERVERS), "no json", "@none.json", '{"mcpServers": []}']
    found = configured(tmp_path / "user", tmp_path / "ws", typed)
    assert set(found) == {"mine", "filed", "notes"}


def test_its_folder_is_where_it_looks_for_it() -> None:
    """A home of one's own counts."""
    assert user_folder({"HOME": "/h"}) == Path("/h/.copilot")
    assert user_folder({"HOME": "/h", "COPILOT_HOME": "/c"}) == Path("/c")
