"""How Copilot CLI is started: what is added, and what cannot be held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.client import CLIENT_NAME
from broker.agents.copilot import launch as module
from broker.agents.copilot.launch import PLUGIN_NAME, CopilotLaunch
from broker.errors import LaunchError
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def adapter() -> CopilotLaunch:
    """An adapter of this test's own."""
    return CopilotLaunch()


def prepare(adapter: CopilotLaunch, root: Path, *arguments: str) -> Prepared:
    """Prepare a run below a folder."""
    for name in ("session", "ws", "home"):
        (root / name).mkdir(exist_ok=True)
    environ = {"HOME": str(root / "home")}
    command = ("copilot", *arguments)
    adapter.check(command, environ)
    return adapter.prepare(Launch(command, environ, root / "ws", root / "session", root / "s"))


def test_it_is_found_by_its_name() -> None:
    """A command named copilot, wherever it lies, is held as Copilot CLI."""
    assert isinstance(adapter_for(["/opt/bin/copilot", "-p", "hi"]), CopilotLaunch)


@pytest.mark.parametrize("behind", [(), ("--", "x")])
def test_our_plugin_comes_behind_every_other(
    adapter: CopilotLaunch, tmp_path: Path, behind: tuple[str, ...]
) -> None:
    """What was typed stays, and the hook is shown what the hooks before it made of the call."""
    typed = ("--plugin-dir", "/mine", "-p", "fix it", "--allow-tool", "write")
    prepared = prepare(adapter, tmp_path, *typed, *behind)
    plugin = tmp_path / "session" / PLUGIN_NAME
    assert prepared.command == ("copilot", *typed, "--plugin-dir", str(plugin), *behind)
    assert prepared.environ == {}
    assert json.loads((plugin / "plugin.json").read_text())["hooks"] == "hooks.json"
    hooks = json.loads((plugin / "hooks.json").read_text())["hooks"]
    asks = {"PreToolUse", "SessionStart"}
    tells = {"SubagentStart", "SubagentStop", "PostToolUse", "PostToolUseFailure"}
    assert set(hooks) == asks | tells
    assert {event for event in hooks if hooks[event][0]["bash"].endswith("&")} == {
        "PostToolUse",
        "PostToolUseFailure",
    }
    (hook,) = hooks["PreToolUse"]
    assert hook["timeoutSec"] == 30
    assert CLIENT_NAME in hook["bash"]
    assert "exit 2" in hook["bash"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--acp"],
        ["--connect=x"],
        ["--environment-host", "x"],
        ["--extension-sdk-path", "x"],
        ["-C", "/elsewhere", "-p", "go"],
        ["-C/elsewhere"],
        ["init"],
        ["--model", "x", "workflow"],
        ["mcp", "add"],
    ],
)
def test_what_cannot_be_held_is_not_started(
    adapter: CopilotLaunch, arguments: Sequence[str]
) -> None:
    """An option or a command that would free the agent is refused, in any spelling."""
    with pytest.raises(LaunchError):
        adapter.check(["copilot", *arguments], {})


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-p", "init"],
        ["--allow-all", "--trust-folder", "-p", "go"],
        ["--allow-tool", "init", "-p", "go"],
        ["--resume", "workflow"],
        ["--", "init"],
        ["login"],
    ],
)
def test_what_can_be_held_is_started(adapter: CopilotLaunch, arguments: Sequence[str]) -> None:
    """Everything else is left to the person."""
    adapter.check(["copilot", *arguments], {})


@pytest.mark.parametrize("arguments", [["--version"], ["login"], ["help", "config"]])
def test_what_asks_no_model_is_started_as_it_is(
    adapter: CopilotLaunch, tmp_path: Path, arguments: Sequence[str]
) -> None:
    """Looking needs no hook, and is not waited for."""
    assert list(prepare(adapter, tmp_path, *arguments).command[1:]) == list(arguments)
    assert adapter.escaped() is None


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["-p", "fix it"], "fix it"),
        (["--model", "-p", "--prompt=fix it"], "fix it"),
        (["-i", "fix it"], "fix it"),
        (["-p"], None),
        (["-p", " "], None),
        (["--", "-p", "fix it"], None),
        ([], None),
    ],
)
def test_the_typed_prompt_is_found(arguments: Sequence[str], prompt: str | None) -> None:
    """It stands behind its option, headless or not."""
    assert CopilotLaunch().prompt(["copilot", *arguments]) == prompt


def test_its_configuration_is_closed_to_tools(adapter: CopilotLaunch, tmp_path: Path) -> None:
    """Where hooks, extensions and credentials stand is closed, by every name it has."""
    home = tmp_path / "copilot"
    home.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)
    own = adapter.own({"COPILOT_HOME": str(link)})
    for folder in (home, link):
        for name in ("settings.json", "config.json", "hooks", "extensions", "installed-plugins"):
            assert str(folder / name) in own


def test_what_would_undo_the_hook_keeps_it_from_starting(
    adapter: CopilotLaunch, tmp_path: Path
) -> None:
    """It is named with its file, and so is what comes during the run."""
    place = tmp_path / "ws/.claude/settings.json"
    place.parent.mkdir(parents=True)
    place.write_text('{"disableAllHooks": true}')
    with pytest.raises(LaunchError, match=r"settings\.json"):
        prepare(adapter, tmp_path, "-p", "go")
    place.unlink()
    prepare(adapter, tmp_path, "-p", "go")
    assert adapter.escaped() is None
    place.write_text('{"disableAllHooks": true}')
    assert str(place) in str(adapter.escaped())


def test_a_run_without_its_hook_has_escaped(
    adapter: CopilotLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were changed, and a headless run whose hooks never start, are seen."""
    prepare(adapter, tmp_path, "-p", "go")
    assert adapter.escaped() is None
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    assert "did not start" in str(adapter.escaped())
    (tmp_path / "session" / PLUGIN_NAME / "hooks.json").write_text("{}")
    assert "was changed" in str(adapter.escaped())


def test_the_servers_that_were_typed_are_known_to_the_hook(
    adapter: CopilotLaunch, tmp_path: Path, bench: Bench
) -> None:
    """The hook that the session answers is the same before and after the run was prepared."""
    (hook,) = adapter.hooks().values()
    prepare(adapter, tmp_path, "--additional-mcp-config", '{"mcpServers": {"notes": {}}}')
    session = bench.open(["tools=mcp__notes__look"])
    call = {"hook_event_name": "PreToolUse", "tool_name": "notes-look", "tool_input": {}}
    payload = json.dumps({**call, "cwd": str(bench.workspace)}).encode()
    assert hook.answer(payload, session) is None


def test_no_key_of_a_server_stands_on_the_command_line(
    adapter: CopilotLaunch, tmp_path: Path
) -> None:
    """Every user of the machine could read it there; the file is for this user only."""
    servers = {"notes": {"command": "server", "env": {"KEY": "secret"}}}
    place = tmp_path / "home/.copilot/mcp-config.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"mcpServers": servers}))
    command = prepare(adapter, tmp_path, "-p", "go").command
    file = tmp_path / "session" / module.SERVERS_NAME
    assert command[command.index("--additional-mcp-config") + 1] == f"@{file}"
    assert not [word for word in command if "secret" in word]
    assert json.loads(file.read_text())["mcpServers"]["notes"]["env"]["KEY"] == "secret"
    assert file.stat().st_mode & 0o777 == 0o600


def test_it_says_what_it_does_not_see(adapter: CopilotLaunch) -> None:
    """A person who launches it is told what no hook of Copilot CLI shows."""
    assert any("`@`" in text for text in adapter.unseen())
