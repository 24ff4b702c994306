"""What in Claude Code's settings switches hooks off."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.agents.claude.settings import (
    config_folder,
    managed_settings,
    off_in_environment,
    switched_off,
    user_settings,
    workspace_rules,
)
from broker.limits import MAX_SETTINGS_BYTES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the settings lie."""
    return tmp_path / "settings.json"


@pytest.mark.parametrize(
    "settings",
    [
        {"disableAllHooks": True},
        {"disableAllHooks": "true"},
        {"disableAllHooks": 1},
        {"disableAllHooks": "yes"},
        {"strictPluginOnlyCustomization": True},
        {"strictPluginOnlyCustomization": ["hooks"]},
        {"env": {"CLAUDE_CODE_SIMPLE": "1"}},
        {"env": {"CLAUDE_CODE_SAFE_MODE": True}},
    ],
)
def test_every_switch_is_seen(file: Path, settings: object) -> None:
    """Each setting that keeps injected hooks from running is named."""
    file.write_text(json.dumps(settings))
    assert switched_off(file)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"disableAllHooks": false}',
        '{"disableAllHooks": "false"}',
        '{"disableAllHooks": null}',
        '{"env": {"CLAUDE_CODE_SIMPLE": "0"}}',
        '{"env": []}',
        '{"allowManagedHooksOnly": true}',
        '{"strictPluginOnlyCustomization": false}',
        "[]",
        "",
        '{"disableAllHooks": fal',
        '{"disableAllHooks":',
    ],
)
def test_what_switches_nothing_off_passes(file: Path, text: str) -> None:
    """Settings that say no such thing, or are in the midst of being written, are no reason."""
    file.write_text(text)
    assert switched_off(file) is None


def test_a_missing_file_switches_nothing_off(file: Path) -> None:
    """Most people have no such file, and one that cannot be read is a reason."""
    assert switched_off(file) is None
    file.mkdir()
    assert switched_off(file)


@pytest.mark.parametrize("text", ['{"disableAllHooks": true', '// x\n{"disableAllHooks" : 1}'])
def test_a_file_that_is_not_json_counts_as_soon_as_it_says_so(file: Path, text: str) -> None:
    """A switch is seen before the file is whole, and in a file with comments."""
    file.write_text(text)
    assert switched_off(file)


def test_a_file_without_end_is_a_reason(file: Path) -> None:
    """What is too long to be read may say anything."""
    file.write_text(" " * (MAX_SETTINGS_BYTES + 1))
    assert switched_off(file)


def test_an_administrator_may_allow_only_managed_hooks(file: Path) -> None:
    """In managed settings one more switch counts."""
    file.write_text('{"allowManagedHooksOnly": true}')
    assert switched_off(file, managed=True)


def test_where_settings_lie(tmp_path: Path) -> None:
    """The user's folder follows the environment; managed files are found with their drop-ins."""
    assert user_settings({"HOME": "/h"}) == (Path("/h/.claude/settings.json"),)
    assert config_folder({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == Path("/c")
    (tmp_path / "managed-settings.d").mkdir()
    (tmp_path / "managed-settings.d/10-x.json").write_text("{}")
    names = [path.name for path in managed_settings(tmp_path)]
    assert names == ["managed-settings.json", "10-x.json"]


def test_variables_that_switch_hooks_off() -> None:
    """A variable counts when Claude Code would take it for a yes."""
    assert off_in_environment({"CLAUDE_CODE_SIMPLE": "1"}) == "CLAUDE_CODE_SIMPLE"
    assert off_in_environment({"CLAUDE_CODE_SAFE_MODE": "True"}) == "CLAUDE_CODE_SAFE_MODE"
    assert off_in_environment({"CLAUDE_CODE_SIMPLE": "0", "CLAUDE_CODE_SAFE_MODE": ""}) is None


def test_only_what_tightens_is_taken_from_a_workspace(tmp_path: Path) -> None:
    """Rules that refuse and ask are passed on, anchored where they were; nothing else is."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text(
        json.dumps(
            {
                "permissions": {
                    "allow": ["Bash"],
                    "deny": ["Read(/a/**)", "Read(//etc/**)", "Read(./b)", "WebFetch", 7],
                    "ask": ["Edit(/c)"],
                },
                "disableAllHooks": True,
                "hooks": {"PreToolUse": []},
            }
        )
    )
    (tmp_path / ".claude/settings.local.json").write_text('{"permissions":{"deny":["Bash(rm *)"]}}')
    assert workspace_rules(tmp_path) == {
        "deny": [
            f"Read(/{tmp_path}/a/**)",
            "Read(//etc/**)",
            "Read(./b)",
            "WebFetch",
            "Bash(rm *)",
        ],
        "ask": [f"Edit(/{tmp_path}/c)"],
    }
    assert workspace_rules(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"permissions":[]}', '{"permissions":{"deny":"Bash"}}']
)
def test_settings_that_make_no_sense_give_no_rules(tmp_path: Path, text: str) -> None:
    """What the agent would ignore is ignored."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text(text)
    assert workspace_rules(tmp_path) == {}


@pytest.mark.timeout(20)
def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    """A workspace that holds a pipe where settings belong does not hang a run; a user's is told."""
    folder = tmp_path / ".claude"
    folder.mkdir()
    for name in ("settings.json", "settings.local.json"):
        os.mkfifo(folder / name)
    assert workspace_rules(tmp_path) == {}
    assert "not a plain file" in str(switched_off(folder / "settings.json"))
    assert "cannot be read" in str(switched_off(folder))
