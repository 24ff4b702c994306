"""How Cline CLI is started: what is added, what cannot be held, and what stops a run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.cline import launch as module
from broker.agents.cline.launch import ClineLaunch
from broker.errors import LaunchError

NODE = "/opt/node"
GO = ("-m", "x", "go")


class Place:
    """An adapter, and the folders of a run."""

    def __init__(self, root: Path) -> None:
        self.adapter = ClineLaunch()
        self.workspace, self.user, self.session = root / "ws", root / "user", root / "session"
        self.socket = root / "s"
        for folder in (self.workspace, self.user / ".cline/data/settings", self.session):
            folder.mkdir(parents=True)
        self.environ = {
            "PATH": os.defpath,
            "HOME": str(self.user),
            "CLINE_JS_RUNTIME_PATH": NODE,
        }

    def prepare(self, *arguments: str, **changed: str) -> Prepared:
        """Prepare a run with some variables changed."""
        environ = {**self.environ, **changed}
        command = ("cline", *arguments)
        self.adapter.check(command, environ)
        return self.adapter.prepare(
            Launch(command, environ, self.workspace, self.session, self.socket)
        )

    def refusal(self, *arguments: str, **changed: str) -> str:
        """Return why a run is not prepared."""
        with pytest.raises(LaunchError) as caught:
            self.prepare(*arguments, **changed)
        return str(caught.value)

    def settings(self, text: str) -> None:
        """Set the person's settings."""
        (self.user / ".cline/data/settings/global-settings.json").write_text(text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The folders of this test's own, and no terminal."""
    monkeypatch.setattr(os, "isatty", lambda _: False)
    return Place(tmp_path)


def test_it_is_found_by_its_name() -> None:
    """A command named cline, wherever it lies, is held as Cline CLI."""
    assert isinstance(adapter_for(["/opt/bin/cline", "hi"]), ClineLaunch)


def test_a_run_with_its_prompt_starts_closed(place: Place) -> None:
    """Every tool waits for the plugin, and what was typed stays."""
    prepared = place.prepare(*GO)
    cwd = os.path.realpath(place.workspace)
    assert prepared.command == ("cline", "-c", cwd, "--auto-approve", "false", *GO)
    assert prepared.environ["BROKER_CLINE_OPENS"] == "1"
    home = Path(prepared.environ["CLINE_DIR"])
    assert prepared.cwd == home
    assert home.is_relative_to(place.session)
    assert prepared.environ["CLINE_DATA_DIR"] == str(place.user / ".cline/data")
    assert prepared.environ["CLINE_JS_RUNTIME_PATH"] == NODE
    assert prepared.environ["CLINE_SESSION_BACKEND_MODE"] == "local"
    assert os.listdir(home / "hooks") == []
    (plugin,) = (home / "plugins").iterdir()
    assert sorted(os.listdir(plugin)) == ["ask.mjs", "broker-cline.js", "package.json"]
    assert json.loads((plugin / "package.json").read_text())["name"] == plugin.name


def test_on_a_terminal_the_net_hangs_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """There Cline would ask the person for a closed tool, although nobody judged the call."""
    monkeypatch.setattr(os, "isatty", lambda _: True)
    prepared = place.prepare(*GO)
    assert prepared.environ["BROKER_CLINE_OPENS"] == "1"
    assert os.listdir(Path(prepared.environ["CLINE_DIR"]) / "hooks") == ["PreToolUse"]


def test_typed_approval_of_everything_is_the_same(place: Place) -> None:
    """`--auto-approve true` says what holds by default, in both spellings."""
    for typed in (["--auto-approve", "true"], ["--auto-approve=true"]):
        where = Place(place.session / typed[0])
        prepared = where.prepare(*typed, "go")
        assert prepared.command[3:] == ("--auto-approve", "false", "go")


@pytest.mark.parametrize(
    "arguments",
    [(), ("-i", "go"), ("--tui", "go"), ("-y", "go"), ("--auto-approve", "false", "go")],
)
def test_where_a_person_may_be_asked_nothing_is_opened(
    place: Place, arguments: tuple[str, ...]
) -> None:
    """The net hangs there instead, and the person's choice is left alone."""
    prepared = place.prepare(*arguments)
    assert prepared.command[3:] == arguments
    assert prepared.environ["BROKER_CLINE_OPENS"] == "0"
    (net,) = (Path(prepared.environ["CLINE_DIR"]) / "hooks").iterdir()
    assert net.name == "PreToolUse"
    assert '"cancel":true' in net.read_text()
    assert str(place.socket) in net.read_text()


@pytest.mark.parametrize("verb", ["history", "h", "config", "auth", "mcp"])
def test_what_may_lead_into_a_talk_is_held_like_one(place: Place, verb: str) -> None:
    """A past talk is taken up again from its list, so the plugin and the net are there."""
    prepared = place.prepare(verb, "--json")
    assert prepared.command[3:] == (verb, "--json")
    home = Path(prepared.environ["CLINE_DIR"])
    assert len(os.listdir(home / "plugins")) == len(os.listdir(home / "hooks")) == 1
    assert prepared.environ["BROKER_CLINE_OPENS"] == "0"
    assert ClineLaunch().prompt(["cline", verb, "x"]) is None


def test_settings_that_ask_before_calls(place: Place) -> None:
    """What the person set is not undone by us."""
    place.settings('{"toolAutoApprove": false}')
    assert place.prepare("go").environ["BROKER_CLINE_OPENS"] == "0"


@pytest.mark.parametrize(
    "arguments",
    [
        *(("-c", "/x"), ("--cwd=/x",), ("--config", "/x"), ("--data-dir", "/x"), ("--zen", "go")),
        *(("--hooks-dir", "/x"), ("--worktree",), ("--acp",), ("--kanban",), ("-z", "go")),
        *(("hub", "start"), ("schedule",), ("connect",), ("plugin", "install", "x"), ("hook",)),
        *(("-zi",), ("-c/x",), ("-m", "x", "dashboard"), ("update",), ("--update",)),
    ],
)
def test_what_cannot_be_held_is_not_started(place: Place, arguments: tuple[str, ...]) -> None:
    """Options and commands that would lead a run away, in every spelling."""
    assert "`" in place.refusal(*arguments)
    assert not (place.session / "cline-home").exists()


def test_what_only_looks_is_left_as_it_is(place: Place) -> None:
    """No model is asked, so nothing is added, and nothing is missed afterwards."""
    for arguments in (("--help",), ("version",), ("auth", "-h"), ("-V",)):
        assert place.prepare(*arguments) == Prepared(("cline", *arguments))
    assert place.adapter.escaped() is None


def test_without_node_there_is_no_plugin(place: Place) -> None:
    """Then nothing is started."""
    assert "node" in place.refusal("go", CLINE_JS_RUNTIME_PATH="", PATH="/nowhere")
    assert "CLINE_SANDBOX" in place.refusal("go", CLINE_SANDBOX="1")
    place.settings("[")
    assert "global-settings" in place.refusal("go")


def test_a_workspace_that_brings_code(place: Place) -> None:
    """It is named, before anything is made; and so is the person's home."""
    (place.workspace / ".cline/plugins").mkdir(parents=True)
    (place.workspace / ".cline/plugins/x.js").touch()
    assert ".cline/plugins" in place.refusal("go")
    assert not (place.session / "cline-home").exists()
    assert "your home" in place.refusal("go", HOME=str(place.workspace))


def test_a_run_that_is_changed_has_slipped_away(place: Place) -> None:
    """A plugin, its folder, the net, or what the workspace brings later."""
    home = Path(place.prepare().environ["CLINE_DIR"])
    assert place.adapter.escaped() is None
    (plugin,) = (home / "plugins").iterdir()
    (home / "plugins/other.js").touch()
    assert "changed" in str(place.adapter.escaped())
    (home / "plugins/other.js").unlink()
    assert "changed" in str(place.adapter.escaped())  # nobody can set the times back
    assert plugin.is_dir()


@pytest.mark.parametrize("name", ["hooks/PreToolUse", "plugins/*/broker-cline.js"])
def test_a_file_of_ours_that_is_gone(place: Place, name: str) -> None:
    """The run ends, whichever it is."""
    home = Path(place.prepare().environ["CLINE_DIR"])
    (path,) = home.glob(name)
    path.unlink()
    assert "changed" in str(place.adapter.escaped())


def test_a_workspace_that_is_changed_later(place: Place) -> None:
    """A folder alone is nothing; the first file in it ends the run."""
    place.prepare("go")
    folder = place.workspace / ".clinerules/hooks"
    folder.mkdir(parents=True)
    assert place.adapter.escaped() is None
    (folder / "PreToolUse").touch()
    assert str(folder) in str(place.adapter.escaped())


def test_a_plugin_that_never_speaks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with its prompt waits for it so long and no longer; a person's own talk may wait."""
    monkeypatch.setattr(module, "SILENCE_S", 0.0)
    place.prepare("go")
    time.sleep(0.01)
    assert "did not load" in str(place.adapter.escaped())


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["cline", "fix it"], "fix it"),
        (["cline", "-i"], None),
        (["cline", "-P", "x", "--", "-n"], "-n"),
        (["cline", "history"], None),
        (["cline", "  "], None),
    ],
)
def test_the_typed_line(command: list[str], line: str | None) -> None:
    """The words that are neither options nor commands are what the person typed."""
    assert ClineLaunch().prompt(command) == line


def test_own_files_are_closed(place: Place) -> None:
    """Credentials and plugins are among them, by absolute names."""
    found = place.adapter.own(place.environ)
    assert str(place.user / ".cline/data") in found
    assert all(os.path.isabs(path) for path in found)
