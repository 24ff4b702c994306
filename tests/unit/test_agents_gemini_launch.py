"""How Gemini CLI is started: what is added, what cannot be held, and what stops a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.client import CLIENT_NAME
from broker.agents.gemini import launch as module
from broker.agents.gemini.launch import PROGRAMS_NAME, GeminiLaunch
from broker.errors import LaunchError

TRUST = "GEMINI_CLI_TRUST_WORKSPACE"


class Place:
    """An adapter, and the folders of a run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.adapter = GeminiLaunch()
        self.workspace, self.user, self.session = root / "ws", root / "user", root / "session"
        for folder in (self.workspace / ".gemini", self.user / ".gemini", self.session):
            folder.mkdir(parents=True)
        self.project = self.workspace / ".gemini/settings.json"
        self.environ = {
            "PATH": os.defpath,
            "HOME": str(self.user),
            TRUST: "true",
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(root / "machine.json"),
        }

    def prepare(self, *arguments: str, **changed: str) -> Prepared:
        """Prepare a run with some variables changed."""
        environ = {**self.environ, **changed}
        launch = Launch(
            ("gemini", *arguments), environ, self.workspace, self.session, self.root / "s"
        )
        return self.adapter.prepare(launch)

    def refusal(self, *arguments: str, **changed: str) -> str:
        """Return why a run is not prepared."""
        with pytest.raises(LaunchError) as caught:
            self.prepare(*arguments, **changed)
        assert not (self.session / "gemini-home").exists()
        return str(caught.value)

    def settings(self, prepared: Prepared) -> tuple[Path, Mapping[str, object]]:
        """Return the settings that a prepared run gets, and where they lie."""
        path = Path(prepared.environ["GEMINI_CLI_HOME"]) / ".gemini/settings.json"
        return path, json.loads(path.read_text())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The folders of this test's own."""
    return Place(tmp_path)


def test_it_is_found_by_its_name() -> None:
    """A command named gemini, wherever it lies, is held as Gemini CLI."""
    assert isinstance(adapter_for(["/opt/bin/gemini", "-p", "hi"]), GeminiLaunch)


def test_the_hooks_are_in_the_settings_of_the_run(place: Place) -> None:
    """They lie in the session's folder beside the person's own, and what was typed stays."""
    own = place.user / ".gemini/settings.json"
    own.write_text('{"ui": {"theme": "x"}, // mine\n "hooks": {"BeforeTool": [{"hooks": []}]}}')
    before = own.read_bytes()
    prepared = place.prepare("--yolo", "-p", "fix it")
    assert prepared.command == ("gemini", "--yolo", "-p", "fix it")
    path, settings = place.settings(prepared)
    assert path.is_relative_to(place.session)
    assert settings["ui"] == {"theme": "x"}
    hooks = settings["hooks"]
    assert isinstance(hooks, dict)
    ours, theirs = hooks["BeforeTool"]
    assert CLIENT_NAME in ours["hooks"][0]["command"]
    assert "exit 2" in ours["hooks"][0]["command"]
    assert theirs == {"hooks": []}
    assert own.read_bytes() == before


def test_a_run_is_fixed_in_what_hooks_need(place: Place) -> None:
    """Trust, the sandbox and the shell of the hooks cannot change during it."""
    environ = place.prepare("-p", "x").environ
    assert environ[TRUST] == "true"
    assert environ["GEMINI_SANDBOX"] == "false"
    first, _, rest = environ["PATH"].partition(os.pathsep)
    assert first == str(place.session / PROGRAMS_NAME)
    assert rest == os.defpath
    assert os.access(place.session / PROGRAMS_NAME / "bash", os.X_OK)


def test_hooks_have_a_name_that_nobody_knows(place: Place, tmp_path: Path) -> None:
    """Two runs have two names, so that none can be switched off beforehand."""
    names = set()
    for root in (tmp_path / "one", tmp_path / "two"):
        _, settings = (other := Place(root)).settings(other.prepare("-p", "x"))
        names.add(json.dumps(settings).partition('"name": "')[2].partition('"')[0])
    assert len(names) == 2
    assert all(len(name) > 30 for name in names)


@pytest.mark.parametrize(
    "argument",
    [
        *("-s", "--sandbox", "--sandbox=true", "--sandbox.x=1", "-w", "--worktree=a", "--acp"),
        *("--experimental-acp", "--experimentalAcp", "-ys", "-yp"),
    ],
)
def test_an_option_that_cannot_be_held_is_refused(place: Place, argument: str) -> None:
    """What runs elsewhere or without hooks is refused by name, in every spelling."""
    with pytest.raises(LaunchError, match=f"`{argument}`"):
        place.adapter.check(["gemini", argument, "-p", "x"], place.environ)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "gemini-2.5-pro", "--yolo", "-p", "x"),
        ("--no-sandbox", "-p", "x"),
        ("--sandbox=false",),
        ("-o=json", "--approval-mode=default", "-p", "--", "-s"),
    ],
)
def test_other_options_stay(place: Place, arguments: tuple[str, ...]) -> None:
    """What does no harm is left to the person."""
    place.adapter.check(["gemini", *arguments], place.environ)


@pytest.mark.parametrize("value", ["true", "docker", "1"])
def test_a_sandbox_of_its_own_is_refused(place: Place, value: str) -> None:
    """No hook runs in it; nothing stands in the way where it is off."""
    with pytest.raises(LaunchError, match="GEMINI_SANDBOX"):
        place.adapter.check(["gemini"], {**place.environ, "GEMINI_SANDBOX": value})
    place.adapter.check(["gemini"], {**place.environ, "GEMINI_SANDBOX": "False "})


@pytest.mark.parametrize("where", ["machine.json", "system-defaults.json", "user"])
def test_settings_without_hooks_are_refused(place: Place, where: str) -> None:
    """Hooks that a person or a machine switched off would not run; the file is named."""
    path = place.user / ".gemini/settings.json" if where == "user" else place.root / where
    path.write_text('{"hooksConfig": {"enabled": false}}')
    with pytest.raises(LaunchError, match=path.name):
        place.adapter.check(["gemini", "-p", "x"], place.environ)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        (".gemini/settings.json", '{"hooksConfig": {"enabled": false}}', "hooksConfig"),
        (".gemini/settings.json", '{"hooks": {}}', "hooks"),
        (".gemini/settings.json", "{", "cannot be read"),
        (".gemini/settings.json", '{"mcpServers": {"x": {}}}', "--allowed-mcp-server-names"),
        (".env", "SHELLOPTS=noexec", "SHELLOPTS"),
        (".gemini/.env", "LD_PRELOAD=x", "LD_PRELOAD"),
    ],
)
def test_a_workspace_that_frees_the_agent_is_refused(
    place: Place, name: str, text: str, word: str
) -> None:
    """Before the run nothing starts, and during it the run is stopped."""
    (place.workspace / name).write_text(text)
    assert word in place.refusal("-p", "x")
    (place.workspace / name).unlink()
    place.prepare("-p", "x")
    assert place.adapter.escaped() is None
    (place.workspace / name).write_text(text)
    assert word in str(place.adapter.escaped())


def test_a_file_that_comes_and_frees_nothing_is_no_reason(place: Place) -> None:
    """A run goes on when a workspace gets settings that only tell."""
    place.prepare("-p", "x")
    place.project.write_text('{"ui": {}}')
    assert place.adapter.escaped() is None


def test_servers_of_a_workspace_are_asked_for_by_name(place: Place) -> None:
    """Those that the person typed are started, and no other."""
    place.project.write_text('{"mcpServers": {"a": {}, "b": {}}}')
    option = "--allowed-mcp-server-names"
    assert "`b`" in place.refusal(option, "a", "-p", "x")
    place.prepare(option, "a", f"{option}=c,b", "-p", "x")


def test_a_folder_without_trust_is_refused(place: Place) -> None:
    """No hook would run there; a person may trust it in the list or for this run."""
    assert "--skip-trust" in place.refusal("-p", "x", **{TRUST: ""})
    assert place.prepare("--skip-trust", "-p", "x", **{TRUST: ""}).environ[TRUST] == "true"


def test_the_home_folder_is_refused(place: Place) -> None:
    """Its settings are the person's and the workspace's at once."""
    assert "your home" in place.refusal("-p", "x", HOME=str(place.workspace))


def test_a_machine_without_a_shell_for_hooks_is_refused(place: Place) -> None:
    """Gemini CLI runs the call when its hook's shell is not there."""
    assert "`bash`" in place.refusal("-p", "x", PATH=str(place.root))


def test_a_folder_whose_name_would_be_filled_in_is_refused(place: Place) -> None:
    """A `$` in the hook's command is taken for a variable."""
    place.session = place.root / "a$HOME"
    place.session.mkdir()
    assert "`$`" in place.refusal("-p", "x")


@pytest.mark.parametrize("arguments", [("--version",), ("mcp", "list"), ("--list-sessions",)])
def test_what_only_looks_is_started_as_it_is(place: Place, arguments: tuple[str, ...]) -> None:
    """No model is asked there, and no hook is waited for."""
    assert place.prepare(*arguments) == Prepared(("gemini", *arguments))
    assert place.adapter.escaped() is None


def test_an_options_value_is_no_option(place: Place) -> None:
    """A prompt that looks like an option, or like a command, starts a run with hooks."""
    for arguments in (("-p", "--version"), ("-m", "mcp", "-p", "x"), ("--", "--version")):
        other = Place(place.root / arguments[-1] / arguments[0])
        assert "GEMINI_CLI_HOME" in other.prepare(*arguments).environ


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (("-p", "fix it"), "fix it"),
        (("--yolo", "--prompt=fix it"), "fix it"),
        (("-i", "fix it"), "fix it"),
        (("-m", "x", "fix", "it"), "fix it"),
        (("-p", " "), None),
        ((), None),
        (("-m", "x"), None),
        (("mcp", "list"), None),
        (("--", "fix", "it"), "fix it"),
    ],
)
def test_the_prompt_is_found(arguments: tuple[str, ...], prompt: str | None) -> None:
    """The line that the person typed is the intent; nothing else is taken for it."""
    assert GeminiLaunch().prompt(["gemini", *arguments]) == prompt


def test_the_persons_settings_are_closed_to_tools(place: Place) -> None:
    """They are named by every name they have."""
    (place.root / "link").symlink_to(place.user)
    own = GeminiLaunch().own({"HOME": str(place.root / "link")})
    assert str(place.root / "link/.gemini/settings.json") in own
    assert str(place.user / ".gemini/settings.json") in own
    assert str(place.user / ".gemini/trustedFolders.json") in own


@pytest.mark.parametrize("name", [CLIENT_NAME, f"{PROGRAMS_NAME}/bash"])
def test_a_hook_that_changes_stops_the_run(place: Place, name: str) -> None:
    """What the hook is started with may not be touched."""
    place.prepare("-p", "x")
    assert place.adapter.escaped() is None
    (place.session / name).unlink()
    assert "was changed" in str(place.adapter.escaped())


def test_settings_that_lose_the_hooks_stop_the_run(place: Place) -> None:
    """Gemini CLI writes there when a person switches a hook off; other changes are its own."""
    path, settings = place.settings(place.prepare("-p", "x"))
    path.write_text(json.dumps({**settings, "model": {"name": "x"}}))
    assert place.adapter.escaped() is None
    path.write_text(json.dumps({**settings, "hooksConfig": {"disabled": ["x"]}}))
    assert "was changed" in str(place.adapter.escaped())


def test_a_silent_run_is_stopped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A headless run whose hooks never start is seen; one that a person types into may wait."""
    place.prepare("-p", "x")
    assert place.adapter.escaped() is None
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    assert "did not start" in str(place.adapter.escaped())
    other = Place(place.root / "other")
    other.prepare("-i", "x")
    assert other.adapter.escaped() is None


def test_a_call_that_no_ticket_allows_stops_the_run(place: Place) -> None:
    """What the hook found to have run is the reason that is told."""
    place.prepare("-p", "x")
    (hook,) = place.adapter.hooks().values()
    hook.lost = "it ran"  # type: ignore[attr-defined]  # the hook of this agent has it
    assert place.adapter.escaped() == "it ran"


def test_it_says_what_it_does_not_see(place: Place) -> None:
    """A person who launches it is told what no hook of Gemini CLI shows."""
    assert any("`@`" in text for text in place.adapter.unseen())
