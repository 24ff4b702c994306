"""How Claude Code is started with the broker's hook."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.agents.adapter import Launch, Prepared
from broker.agents.claude import launch as module
from broker.agents.claude.launch import ClaudeLaunch, with_hooks, with_rules
from broker.agents.client import CLIENT_NAME, DEADLINE_MS
from broker.errors import LaunchError


@pytest.fixture
def adapter(tmp_path: Path) -> ClaudeLaunch:
    """An adapter on a machine without managed settings."""
    return ClaudeLaunch(managed=tmp_path / "managed")


def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home of its own."""
    return {"HOME": str(tmp_path), "PATH": os.defpath}


def prepare(adapter: ClaudeLaunch, tmp_path: Path, *arguments: str) -> Prepared:
    """Prepare ``claude`` with these arguments."""
    folder = tmp_path / "session"
    folder.mkdir(exist_ok=True)
    (tmp_path / "ws").mkdir(exist_ok=True)
    command = ("claude", *arguments)
    adapter.check(command, environ(tmp_path))
    launch = Launch(command, environ(tmp_path), tmp_path / "ws", folder, tmp_path / "s")
    return adapter.prepare(launch)


def settings(prepared: Prepared) -> dict[str, Any]:
    """Return the settings that the command names."""
    at = prepared.command.index("--settings")
    found: dict[str, Any] = json.loads(Path(prepared.command[at + 1]).read_text())
    return found


def test_the_hook_stands_before_every_call(adapter: ClaudeLaunch, tmp_path: Path) -> None:
    """The hook matches every tool, blocks when it fails, and answers before it times out."""
    found = settings(prepare(adapter, tmp_path, "-p", "hello"))
    assert set(found) == {"hooks"}
    for event in ("PreToolUse", "PreSkillShellCommand"):
        (entry,) = found["hooks"][event]
        assert entry["matcher"] == "*"
        (hook,) = entry["hooks"]
        assert hook["type"] == "command"
        assert hook["onFailure"] == "block"
        assert hook["command"].endswith("exit 2; }")
        assert hook["timeout"] * 1_000 > DEADLINE_MS


def test_the_command_keeps_what_was_typed(adapter: ClaudeLaunch, tmp_path: Path) -> None:
    """What is added stands in front, and the last of it takes one value, so a prompt is safe."""
    prepared = prepare(adapter, tmp_path, "fix it", "--model", "x", "--", "--settings")
    command = prepared.command
    assert command[0] == "claude"
    assert command[-5:] == ("fix it", "--model", "x", "--", "--settings")
    assert command[-7:-5] == ("--setting-sources", "user")
    assert command[1] == "--settings"
    assert command[3:5] == ("--add-dir", str(tmp_path / "ws"))
    assert prepared.environ == {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}


def test_its_files_are_the_users_alone(adapter: ClaudeLaunch, tmp_path: Path) -> None:
    """Settings and client in the session's folder are closed to others."""
    prepare(adapter, tmp_path)
    for name in (module.SETTINGS_NAME, CLIENT_NAME):
        assert (tmp_path / "session" / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spelling", ["one", "two", "file"])
def test_typed_settings_are_merged(adapter: ClaudeLaunch, tmp_path: Path, spelling: str) -> None:
    """The person's own ``--settings`` stay, their hooks behind ours."""
    theirs = {"model": "x", "hooks": {"PreToolUse": [{"hooks": [1]}], "Stop": [2]}}
    text = json.dumps(theirs)
    if spelling == "file":
        (tmp_path / "mine.json").write_text(text)
        text = str(tmp_path / "mine.json")
    arguments = ["--settings", text] if spelling != "one" else [f"--settings={text}"]
    prepared = prepare(adapter, tmp_path, *arguments, "hello")
    assert sum(a.startswith("--settings") for a in prepared.command) == 1
    assert prepared.command[-1] == "hello"
    found = settings(prepared)
    assert found["model"] == "x"
    assert found["hooks"]["Stop"] == [2]
    assert found["hooks"]["PreToolUse"][1] == {"hooks": [1]}
    assert found["hooks"]["PreToolUse"][0]["matcher"] == "*"


def test_a_workspaces_refusals_are_kept(adapter: ClaudeLaunch, tmp_path: Path) -> None:
    """Leaving the workspace's settings out does not loosen a run."""
    (tmp_path / "ws/.claude").mkdir(parents=True)
    text = '{"permissions":{"deny":["Read(./x)"],"allow":["Bash"]}}'
    (tmp_path / "ws/.claude/settings.json").write_text(text)
    typed = '{"permissions":{"deny":["WebFetch"],"allow":["Read"]}}'
    found = settings(prepare(adapter, tmp_path, "--settings", typed))
    assert found["permissions"] == {"deny": ["WebFetch", "Read(./x)"], "allow": ["Read"]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bare"],
        ["-p", "x", "--safe-mode"],
        ["--bg", "x"],
        ["--background"],
        ["--cloud=x"],
        ["--tmux"],
        ["agents"],
        ["attach", "1"],
        ["--setting-sources", "user,project"],
        ["--setting-sources=local"],
        ["--setting-sources"],
        ["--settings", '{"disableAllHooks":true}'],
        ["--settings", '{"env":{"CLAUDE_CODE_SIMPLE":"1"}}'],
        ["--settings", "/no/such/file"],
        ["--settings", "[]"],
        ["--settings", "{"],
        ["--settings", "{}", "--settings={}"],
    ],
)
def test_what_cannot_be_held_is_not_started(
    adapter: ClaudeLaunch, tmp_path: Path, arguments: Sequence[str]
) -> None:
    """An invocation without hooks, or that leaves this process, is refused with a reason."""
    with pytest.raises(LaunchError):
        adapter.check(["claude", *arguments], environ(tmp_path))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-p", "x"],
        ["--setting-sources", ""],
        ["--setting-sources", "user"],
        ["--", "--bare"],
        ["--settings", "{}"],
        ["--version"],
        ["-p", "agents"],
    ],
)
def test_what_can_be_held_is_started(
    adapter: ClaudeLaunch, tmp_path: Path, arguments: Sequence[str]
) -> None:
    """Ordinary invocations pass, and typed sources stay as they were."""
    command = prepare(adapter, tmp_path, *arguments).command
    assert command.count("--setting-sources") == 1


def test_settings_and_variables_that_switch_hooks_off(
    adapter: ClaudeLaunch, tmp_path: Path
) -> None:
    """The user's, an administrator's or the environment's switch is a reason not to start."""
    with pytest.raises(LaunchError, match="CLAUDE_CODE_SIMPLE"):
        adapter.check(["claude"], {**environ(tmp_path), "CLAUDE_CODE_SIMPLE": "1"})
    (tmp_path / "managed").mkdir()
    (tmp_path / "managed/managed-settings.json").write_text('{"allowManagedHooksOnly":true}')
    with pytest.raises(LaunchError, match="allowManagedHooksOnly"):
        adapter.check(["claude"], environ(tmp_path))
    (tmp_path / "managed/managed-settings.json").unlink()
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"disableAllHooks":true}')
    with pytest.raises(LaunchError, match="disableAllHooks"):
        adapter.check(["claude"], environ(tmp_path))


def test_a_run_that_switches_hooks_off_has_escaped(adapter: ClaudeLaunch, tmp_path: Path) -> None:
    """A switch that appears in the user's settings is seen at once; other changes are none."""
    prepare(adapter, tmp_path)
    assert adapter.escaped() is None
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{"model":"x"}')
    assert adapter.escaped() is None
    (tmp_path / ".claude/settings.json").write_text('{"disableAllHooks":true}')
    assert "disableAllHooks" in str(adapter.escaped())


def test_a_headless_run_without_hooks_has_escaped(
    adapter: ClaudeLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that nobody watches and whose hooks never start is not left alone."""
    for arguments, silent in (
        (["-p", "x"], True),
        (["--print"], True),
        ([], False),
        (["-p", "--input-format", "stream-json"], False),
        (["-p", "--version"], False),
    ):
        fresh = ClaudeLaunch(managed=tmp_path / "managed")
        for name in (module.SETTINGS_NAME, CLIENT_NAME):
            (tmp_path / "session" / name).unlink(missing_ok=True)
        prepare(fresh, tmp_path, *arguments)
        later = time.monotonic() + module.SILENCE_S + 1
        with monkeypatch.context() as patched:
            patched.setattr(module.time, "monotonic", lambda at=later: at)
            assert (fresh.escaped() is not None) == silent
            fresh.hooks()["claude-code"].started.set()  # type: ignore[attr-defined]  # its own hook
            assert fresh.escaped() is None


def test_the_users_settings_are_closed_to_tools(adapter: ClaudeLaunch, tmp_path: Path) -> None:
    """No tool may touch the file that could switch the hook off, by any name it has."""
    (tmp_path / "real").mkdir()
    (tmp_path / ".claude").symlink_to(tmp_path / "real")
    names = adapter.own(environ(tmp_path))
    assert names == (
        str(tmp_path / ".claude/settings.json"),
        os.path.realpath(tmp_path / "real/settings.json"),
    )


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["-p", "fix it"], "fix it"),
        (["--model", "x", "--print", "fix it"], "fix it"),
        (["-p", "--model", "x", "fix it"], None),
        (["-p", " "], None),
        (["-p"], None),
        (["fix it"], None),
        (["--", "-p", "fix it"], None),
    ],
)
def test_the_typed_prompt_is_found(arguments: Sequence[str], prompt: str | None) -> None:
    """The text behind ``-p`` is the typed line, and nothing is guessed."""
    assert ClaudeLaunch().prompt(["claude", *arguments]) == prompt


def test_settings_of_a_wrong_shape_are_an_error() -> None:
    """What cannot be added to is not replaced."""
    for typed in ({"hooks": []}, {"hooks": {"PreToolUse": {}}}):
        with pytest.raises(LaunchError):
            with_hooks(typed, "x", "y")
    for typed in ({"permissions": []}, {"permissions": {"deny": "x"}}):
        with pytest.raises(LaunchError):
            with_rules(typed, {"deny": ["y"]})


@pytest.mark.parametrize("name", [CLIENT_NAME, module.SETTINGS_NAME])
def test_a_run_that_changes_its_hook_has_escaped(
    adapter: ClaudeLaunch, tmp_path: Path, name: str
) -> None:
    """A shell that overwrites the hook's client or settings is seen, dated back or not."""
    prepare(adapter, tmp_path)
    file = tmp_path / "session" / name
    content, before = file.read_bytes(), file.stat()
    assert adapter.escaped() is None
    file.write_bytes(content[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "was changed" in str(adapter.escaped())
    file.unlink()
    assert "was changed" in str(adapter.escaped())
