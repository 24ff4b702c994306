"""What a workspace brings that opencode would run in its own process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.agents.adapter import Launch
from broker.agents.opencode.launch import OpencodeLaunch
from broker.agents.opencode.workspace import Workspace
from broker.errors import LaunchError

NAMED = [
    {"plugin": ["x"]},
    {"plugins": ["./x.js"]},
    {"plugins": [{"package": "x"}]},
    {"plugin": "x"},
    {"plugin": {"x": True}},
]


def put(path: Path, text: str = "") -> Path:
    """Write a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def brought(root: Path) -> str | None:
    """Return what a workspace two folders below brings."""
    place = root / "home/ws"
    place.mkdir(parents=True, exist_ok=True)
    return Workspace([place], root / "home").brings()


@pytest.mark.parametrize("folder", ["home/ws", "home", "."])
@pytest.mark.parametrize("kind", ["plugin", "plugins"])
@pytest.mark.parametrize("name", ["x.js", "x.ts", ".x.js", "x.d.ts"])
def test_plugins_in_a_folder(tmp_path: Path, folder: str, kind: str, name: str) -> None:
    """Each in the workspace and above is told by its name; those of the person's own are let be."""
    file = put(tmp_path / folder / ".opencode" / kind / name)
    told = brought(tmp_path)
    if folder == "home":
        assert told is None
    else:
        assert told is not None
        assert str(file) in told


@pytest.mark.parametrize("settings", NAMED, ids=json.dumps)
@pytest.mark.parametrize("place", ["opencode.json", ".opencode/opencode.jsonc", "../opencode.json"])
def test_plugins_that_settings_name(
    tmp_path: Path, settings: dict[str, object], place: str
) -> None:
    """Under either key, in whatever shape, in each place that is looked at."""
    put(tmp_path / "home/ws" / place, json.dumps(settings))
    assert "names plugins" in str(brought(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"a": /* never closed',
        '{"model": "x" // \r, "plugins": ["x"]\n}',
        '{"model": "x" // \u2028, "plugins": ["x"]\n}',
        '{"a": "//", "plug\\u0069n": ["x"]}',
        '{"plugin": [], "plugin": ["x"]}',
        '{"a": "/*", "plugin": ["x"], "b": "*/"}',
    ],
)
def test_what_could_be_read_in_two_ways(tmp_path: Path, text: str) -> None:
    """What is no settings file, or hides a plugin from a careless reader, is not let be."""
    put(tmp_path / "home/ws/opencode.json", text)
    assert brought(tmp_path) is not None


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"plugin": []}',
        '{"plugin": null}',
        '{"model": "a/b", // "plugin": ["x"]\n}',
        '{"mcp": {"plugin": {"command": ["x",],},},}',
        '\ufeff{"model": "plugin, ]"}',
    ],
)
def test_settings_that_bring_nothing(tmp_path: Path, text: str) -> None:
    """Comments, commas at the end and other keys are no reason."""
    put(tmp_path / "home/ws/opencode.jsonc", text)
    assert brought(tmp_path) is None


def test_other_files_bring_nothing(tmp_path: Path) -> None:
    """Neither a text in a folder of plugins nor agents, commands and skills."""
    for name in ("plugin/README.md", "agent/x.md", "command/x.md", "tool/x.js", "skill/x/SKILL.md"):
        put(tmp_path / "home/ws/.opencode" / name, "x")
    assert brought(tmp_path) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A file that could not be read at once is a reason."""
    put(tmp_path / "home/ws/x")
    os.mkfifo(tmp_path / "home/ws/opencode.json")
    assert "cannot be read" in str(brought(tmp_path))


def test_a_folder_behind_a_link(tmp_path: Path) -> None:
    """Where the folder is a link, what it leads to counts."""
    put(tmp_path / "elsewhere/plugin/x.js")
    (tmp_path / "home/ws").mkdir(parents=True)
    (tmp_path / "home/ws/.opencode").symlink_to(tmp_path / "elsewhere")
    assert brought(tmp_path) is not None


def test_what_comes_later_is_seen(tmp_path: Path) -> None:
    """A plugin that is written during the run is told, and so is one that is gone again."""
    put(tmp_path / "ws/src/a.py")
    workspace = Workspace([tmp_path / "ws"], tmp_path / "home")
    assert workspace.brings() is None
    file = put(tmp_path / "ws/.opencode/plugin/x.js")
    assert str(file) in str(workspace.brings())
    file.unlink()
    assert workspace.brings() is None


@pytest.mark.parametrize(
    "arguments", [["run", "hi"], [], ["run", "--dir", "../other", "hi"], ["../other"]]
)
def test_such_a_run_does_not_start(tmp_path: Path, arguments: list[str]) -> None:
    """Nor in another folder that the command line names; one that only looks is let be."""
    for name in ("ws", "session", "other"):
        (tmp_path / name).mkdir()
    put(tmp_path / ("other" if "../other" in arguments else "ws") / ".opencode/plugin/x.js")

    def prepared(*words: str) -> None:
        environ = {"HOME": str(tmp_path / "home")}
        session = tmp_path / "session"
        launch = Launch(("opencode", *words), environ, tmp_path / "ws", session, tmp_path / "s")
        OpencodeLaunch().prepare(launch)

    with pytest.raises(LaunchError, match=r"plugin/x\.js"):
        prepared(*arguments)
    prepared("--version")


def test_a_run_is_stopped_when_they_come(tmp_path: Path) -> None:
    """The adapter says so when it is asked."""
    for name in ("ws", "session"):
        (tmp_path / name).mkdir()
    adapter = OpencodeLaunch()
    launch = Launch(("opencode", "run", "hi"), {}, tmp_path / "ws", tmp_path / "session", tmp_path)
    adapter.prepare(launch)
    assert adapter.escaped() is None
    put(tmp_path / "ws/opencode.json", '{"plugin": ["x"]}')
    assert "changed during the run" in str(adapter.escaped())
