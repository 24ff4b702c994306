"""How Qwen Code is started: what is added, and what cannot be held."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.client import CLIENT_NAME
from broker.agents.qwen import launch as module
from broker.agents.qwen.launch import SETTINGS_NAME, QwenLaunch, config_folder, with_hooks
from broker.errors import InputError, LaunchError
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def adapter(tmp_path: Path) -> QwenLaunch:
    """An adapter of this test's own, on a machine without system settings."""
    return QwenLaunch(tmp_path / "etc/settings.json")


def prepare(adapter: QwenLaunch, root: Path, *arguments: str, **environ: str) -> Prepared:
    """Prepare a run below a folder."""
    for name in ("session", "ws", "home"):
        (root / name).mkdir(exist_ok=True)
    given = {"HOME": str(root / "home"), **environ}
    command = ("qwen", *arguments)
    adapter.check(command, given)
    return adapter.prepare(Launch(command, given, root / "ws", root / "session", root / "s"))


def put(path: Path, content: object) -> Path:
    """Write a file, an object as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def settings(root: Path) -> dict[str, Any]:
    """Return the system settings of the run."""
    found: dict[str, Any] = json.loads((root / "session" / SETTINGS_NAME).read_text())
    return found


def test_it_is_found_by_its_name() -> None:
    """A command named qwen, wherever it lies, is held as Qwen Code."""
    assert isinstance(adapter_for(["/opt/bin/qwen", "hi"]), QwenLaunch)


def test_the_hook_stands_before_every_call(adapter: QwenLaunch, tmp_path: Path) -> None:
    """The command stays as typed; the environment names settings that pin our hook."""
    prepared = prepare(adapter, tmp_path, "-y", "fix it")
    assert prepared.command == ("qwen", "-y", "fix it")
    assert prepared.environ == {
        "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(tmp_path / "session" / SETTINGS_NAME),
        "QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(tmp_path / "etc/system-defaults.json"),
        "QWEN_CODE_SIMPLE": "0",
        "QWEN_CODE_SAFE_MODE": "0",
        "QWEN_SANDBOX": "0",
    }
    found = settings(tmp_path)
    assert found["disableAllHooks"] is False
    (entry,) = found["hooks"]["PreToolUse"]
    (hook,) = entry["hooks"]
    assert entry["matcher"] == "*"
    assert hook["timeout"] == 30
    assert CLIENT_NAME in hook["command"]


def test_the_machines_settings_stay_and_ours_come_first(
    adapter: QwenLaunch, tmp_path: Path
) -> None:
    """What an administrator set applies in the run too, from where the environment says."""
    theirs = {"hooks": {"PreToolUse": [{"hooks": []}], "Stop": []}, "tools": {"core": ["x"]}}
    system = put(tmp_path / "other/settings.json", "// ours\n" + json.dumps(theirs))
    prepared = prepare(adapter, tmp_path, "go", QWEN_CODE_SYSTEM_SETTINGS_PATH=str(system))
    found = settings(tmp_path)
    assert found["tools"] == {"core": ["x"]}
    assert found["hooks"]["PreToolUse"][1] == {"hooks": []}
    assert found["hooks"]["Stop"] == []
    defaults = prepared.environ["QWEN_CODE_SYSTEM_DEFAULTS_PATH"]
    assert defaults == str(tmp_path / "other/system-defaults.json")


@pytest.mark.parametrize("hooks", [[], "x", {"PreToolUse": {}}])
def test_system_hooks_of_another_shape_are_refused(hooks: object) -> None:
    """They could not be kept beside ours."""
    with pytest.raises(LaunchError):
        with_hooks({"hooks": hooks}, "true", "true")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bare"],
        ["--safe-mode"],
        ["--safeMode"],
        ["--safe-mode=true"],
        ["-s", "go"],
        ["-ys", "go"],
        ["--sandbox", "go"],
        ["--acp"],
        ["--worktree", "x"],
        ["serve"],
        ["-y", "serve"],
        ["mcp", "add"],
        ["channel", "start"],
    ],
)
def test_what_cannot_be_held_is_not_started(adapter: QwenLaunch, arguments: Sequence[str]) -> None:
    """An option or a command that would free the agent is refused, in any spelling."""
    with pytest.raises(LaunchError):
        adapter.check(["qwen", *arguments], {})


@pytest.mark.parametrize(
    "environ",
    [
        {"QWEN_CODE_SIMPLE": "1"},
        {"QWEN_CODE_SAFE_MODE": "yes"},
        {"QWEN_SANDBOX": "docker"},
        {"QWEN_AGENT_EXECUTION_BACKEND": "docker"},
        {"QWEN_CODE_RELAUNCH_ARGS": '["--bare"]'},
    ],
)
def test_a_variable_that_frees_the_agent_is_named(
    adapter: QwenLaunch, environ: Mapping[str, str]
) -> None:
    """The person set it, so the person is asked to unset it."""
    with pytest.raises(LaunchError, match=next(iter(environ))):
        adapter.check(["qwen", "go"], environ)


@pytest.mark.parametrize(
    "content",
    [
        {"disableAllHooks": True},
        {"tools": {"sandbox": True}},
        {"hooks": {"PreToolUse": [{"sequential": True}]}},
        "{",
    ],
)
@pytest.mark.parametrize("name", ["settings.json", "system-defaults.json"])
def test_a_machine_that_switches_hooks_off_is_respected(
    adapter: QwenLaunch, tmp_path: Path, name: str, content: object
) -> None:
    """What an administrator set is not overruled in silence: the run does not start."""
    put(tmp_path / "etc" / name, content)
    with pytest.raises(LaunchError, match=name):
        adapter.check(["qwen", "go"], {})


def test_a_home_that_moves_itself_is_refused(adapter: QwenLaunch, tmp_path: Path) -> None:
    """A variable in a file would move the settings to where the broker does not look."""
    put(tmp_path / ".env", "export QWEN_HOME=/elsewhere\n")
    with pytest.raises(LaunchError, match="export it"):
        adapter.check(["qwen", "go"], {"HOME": str(tmp_path)})
    adapter.check(["qwen", "go"], {"HOME": str(tmp_path), "QWEN_HOME": str(tmp_path / "q")})


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["go"],
        ["-y", "-m", "x", "go"],
        ["--no-sandbox", "go"],
        ["--", "--bare"],
        ["-p", "say serve"],
        ["-p", "serve"],
        ["auth"],
    ],
)
def test_what_can_be_held_is_started(adapter: QwenLaunch, arguments: Sequence[str]) -> None:
    """Everything else is left to the person."""
    adapter.check(["qwen", *arguments], {})


def test_a_rival_keeps_it_from_starting(adapter: QwenLaunch, tmp_path: Path) -> None:
    """What could outvote the hook is named with its file."""
    put(tmp_path / "ws/.qwen/settings.json", {"hooks": {"PreToolUse": [{}]}})
    with pytest.raises(LaunchError, match=r"settings\.json"):
        prepare(adapter, tmp_path, "go")


def test_a_workspace_on_another_machine_is_refused(adapter: QwenLaunch, tmp_path: Path) -> None:
    """There Qwen Code runs no hook at all."""
    folder = tmp_path / ".qwen/ssh-workspaces/x/workspace"
    launch = Launch(("qwen",), {"HOME": str(tmp_path)}, folder, tmp_path, tmp_path / "s")
    with pytest.raises(LaunchError, match="another machine"):
        adapter.prepare(launch)


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["fix it"], "fix it"),
        (["-y", "--auth-type", "openai", "-o", "json", "fix it"], "fix it"),
        (["-p", "fix it"], "fix it"),
        (["--prompt=fix it"], "fix it"),
        (["-i", "fix it"], "fix it"),
        (["fix it", "-e", "none"], "fix it"),
        (["--", "serve"], "serve"),
        (["-p"], None),
        (["two", "words"], None),
        (["auth"], None),
        (["-c"], None),
        ([], None),
    ],
)
def test_the_typed_prompt_is_found(arguments: Sequence[str], prompt: str | None) -> None:
    """The one text that is neither an option nor its value is what the person asked."""
    assert QwenLaunch().prompt(["qwen", *arguments]) == prompt


def test_its_configuration_is_closed_to_tools(adapter: QwenLaunch, tmp_path: Path) -> None:
    """Where hooks, extensions and credentials stand is closed, by every name it has."""
    home = tmp_path / "qwen"
    home.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)
    own = adapter.own({"QWEN_HOME": str(link), "HOME": str(tmp_path)})
    for folder in (home, link):
        for name in ("settings.json", ".env", "oauth_creds.json", "extensions", "agents"):
            assert str(folder / name) in own


def test_its_folder_is_where_it_looks_for_it(tmp_path: Path) -> None:
    """A home of one's own may be spelled with a tilde."""
    home = {"HOME": str(tmp_path)}
    assert config_folder(home) == tmp_path / ".qwen"
    assert config_folder({**home, "QWEN_HOME": "~/q"}) == tmp_path / "q"
    assert config_folder({**home, "QWEN_HOME": "/q"}) == Path("/q")


def test_a_run_without_its_hook_has_escaped(
    adapter: QwenLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were changed, a rival that came, and hooks that never start, are seen."""
    prepare(adapter, tmp_path, "go")
    assert adapter.escaped() is None
    written = tmp_path / "session" / SETTINGS_NAME
    found = settings(tmp_path)
    put(written, {**found, "$version": 5})
    assert adapter.escaped() is None, "a layout that was brought up to date frees nobody"
    put(written, {**found, "disableAllHooks": True})
    assert "was changed" in str(adapter.escaped())
    put(written, found)
    rival = put(tmp_path / "ws/.qwen/settings.json", {"hooks": {"PreToolUse": [{}]}})
    assert str(rival) in str(adapter.escaped())
    rival.unlink()
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    assert "did not start" in str(adapter.escaped())
    (tmp_path / "session" / CLIENT_NAME).write_bytes(b"")
    assert "was changed" in str(adapter.escaped())


@pytest.mark.parametrize("arguments", [["--version"], ["-i", "go"], []])
def test_nobody_waits_for_hooks_that_need_not_start(
    adapter: QwenLaunch, tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who looks, or who sits before a prompt, may take their time."""
    prepare(adapter, tmp_path, *arguments)
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    assert adapter.escaped() is None


def test_a_call_is_refused_once_the_hook_could_be_outvoted(
    adapter: QwenLaunch, tmp_path: Path, bench: Bench
) -> None:
    """The look is taken before each call, so that what one call wrote does not serve the next."""
    prepare(adapter, tmp_path, "go")
    (hook,) = adapter.hooks().values()
    call = {
        "hook_event_name": "PreToolUse",
        "tool_name": "read_file",
        "tool_input": {"file_path": "src/a.py"},
        "tool_call_id": "c1",
        "cwd": str(bench.workspace),
    }
    session = bench.open()
    assert hook.answer(json.dumps(call).encode(), session) is None
    put(tmp_path / "ws/.qwen/agents/a.md", "---\nname: a\nexecutor: {kind: acp}\n---\n")
    with pytest.raises(InputError, match="executor"):
        hook.answer(json.dumps(call).encode(), session)


def test_it_says_what_it_does_not_see(adapter: QwenLaunch) -> None:
    """A person who launches it is told what no hook of Qwen Code shows."""
    assert any("`@`" in text for text in adapter.unseen())
