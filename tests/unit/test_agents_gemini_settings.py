"""What settings and files of Gemini CLI would free it from the broker's hooks."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.gemini.settings import (
    brought_along,
    environment_files,
    home_of,
    kept_off,
    machine_settings,
    read_settings,
    trust_list,
    trusts,
    unwelcome_variable,
)
from broker.errors import LaunchError


def written(path: Path, text: str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_settings_may_have_comments(tmp_path: Path) -> None:
    """Comments are read over as Gemini CLI does, and what looks like one in a text stays."""
    text = '{// one\n"a": "http://x", /* two\n */ "b": "\\"/*", "c": "*/"}'
    assert read_settings(written(tmp_path / "s", text)) == {
        "a": "http://x",
        "b": '"/*',
        "c": "*/",
    }
    assert read_settings(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "{,}",
        '{"a": 1,}',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        '{"__proto__": {"hooks": {}}}',
        "[" * 100_000,
        "\ufeff{}",
    ],
)
def test_settings_that_may_read_otherwise_are_an_error(text: str, tmp_path: Path) -> None:
    """What two readers could take for two things is not guessed."""
    with pytest.raises(LaunchError):
        read_settings(written(tmp_path / "s", text))


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    """A folder or a pipe in the place of a file does not pass for no settings."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(LaunchError, match="not a settings file"):
            read_settings(path)


def test_a_comment_hides_nothing(tmp_path: Path) -> None:
    """A line that one reader ends and another does not is read as ended."""
    found = read_settings(written(tmp_path / "s", '{// x\r"hooksConfig": {}\n}'))
    assert brought_along(found) is not None


@pytest.mark.parametrize(
    "settings",
    [
        {"hooksConfig": {"enabled": False}},
        {"hooksConfig": {"enabled": None}},
        {"hooksConfig": None},
        {"hooks": None},
        {"hooks": []},
        {"hooks": {"BeforeTool": "x"}},
        {"hooks": {"AfterTool": {}}},
        {"tools": {"sandbox": True}},
        {"tools": {"sandbox": "docker"}},
        {"tools": []},
    ],
)
def test_settings_that_keep_hooks_from_running(settings: dict[str, object]) -> None:
    """Whatever would drop the broker's hook is named."""
    assert kept_off(settings) is not None


def test_settings_that_leave_hooks_alone() -> None:
    """A person's own hooks, and names that they switched off, stay as they are."""
    own = {"BeforeTool": [{"hooks": []}], "disabled": ["x"]}
    assert kept_off({"hooks": own, "hooksConfig": {"enabled": True, "disabled": ["x"]}}) is None
    assert kept_off({}) is None
    assert kept_off({"tools": {"sandbox": False, "exclude": []}}) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"hooks": {}},
        {"hooks": None},
        {"hooksConfig": {"notifications": False}},
        {"telemetry": {"outfile": "/x"}},
        {"tools": {"discoveryCommand": "x"}},
        {"tools": {"callCommand": "x"}},
        {"tools": {"sandbox": False}},
        {"tools": None},
        {"mcp": {"serverCommand": "x"}},
        {"mcp": []},
        {"mcpServers": {"files": {"command": "x"}}},
        {"mcpServers": []},
    ],
)
def test_a_workspace_may_not_bring_along_what_runs(settings: dict[str, object]) -> None:
    """Hooks, servers and commands of a workspace are named, on or off."""
    assert brought_along(settings) is not None


def test_a_workspace_may_bring_along_what_only_tells() -> None:
    """Other settings stay, and servers that the person asked for by name."""
    settings = {"ui": {"theme": "x"}, "tools": {"exclude": ["y"]}, "mcpServers": {"files": {}}}
    assert brought_along(settings, ["files", "more"]) is None
    assert "--allowed-mcp-server-names" in str(brought_along(settings, ["more"]))


@pytest.mark.parametrize("name", [".env", ".gemini/.env"])
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("BASH_ENV=x", "BASH_ENV"),
        ("GEMINI_API_KEY=x\n  export SHELLOPTS = noexec", "SHELLOPTS"),
        ("A: x", "A"),
        ("GEMINI_API_KEY=x\rLD_PRELOAD=y", "LD_PRELOAD"),
        ("\ufeffPATH=x", "PATH"),
        ("GEMINI_API_KEY=x\u2028NODE_OPTIONS=y", "NODE_OPTIONS"),
    ],
)
def test_a_variable_that_no_person_set_is_named(
    name: str, text: str, named: str, tmp_path: Path
) -> None:
    """A workspace's file, or one above it, may set credentials and no more."""
    work, home = tmp_path / "a/b", tmp_path / "home"
    for folder in (work, work.parent):
        path = written(folder / name, text)
        assert f"`{named}`" in str(unwelcome_variable(work, home))
        path.write_text("# a note: x\nGEMINI_API_KEY=a=b\n\nGOOGLE_CLOUD_PROJECT=x\n")
        assert unwelcome_variable(work, home) is None
        path.unlink()


def test_a_persons_own_file_may_set_anything(tmp_path: Path) -> None:
    """The home's file is the person's, and is what counts where there is no nearer one."""
    written(tmp_path / "home/.gemini/.env", "ANYTHING=x")
    work = tmp_path / "home/work"
    work.mkdir()
    assert unwelcome_variable(work, tmp_path / "home") is None
    assert unwelcome_variable(tmp_path, tmp_path / "home") is None
    written(work / ".env", "ANYTHING=x")
    assert unwelcome_variable(work, tmp_path / "home") is not None


def test_files_of_variables_are_looked_for_upwards(tmp_path: Path) -> None:
    """Nearer ones come first, and the home's last."""
    found = list(environment_files(tmp_path / "a", tmp_path / "home"))
    assert found[:2] == [tmp_path / "a/.gemini/.env", tmp_path / "a/.env"]
    assert found[-1] == tmp_path / "home/.env"
    assert tmp_path / ".env" in found


@pytest.mark.parametrize(
    ("listed", "trusted"),
    [
        ({}, False),
        ({"{}/a": "TRUST_FOLDER"}, True),
        ({"{}/a": "DO_NOT_TRUST"}, False),
        ({"{}": "TRUST_FOLDER"}, True),
        ({"{}": "TRUST_FOLDER", "{}/a": "DO_NOT_TRUST"}, False),
        ({"{}": "DO_NOT_TRUST", "{}/a": "TRUST_FOLDER"}, True),
        ({"{}/other": "TRUST_PARENT"}, True),
        ({"{}/other": "TRUST_FOLDER"}, False),
        ({"{}/a": "something"}, False),
        ({"{}/a": 1}, False),
    ],
)
def test_the_list_of_trusted_folders_is_read(
    listed: dict[str, object], trusted: bool, tmp_path: Path
) -> None:
    """The longest path that fits decides, and a folder that is not there is not trusted."""
    cwd = tmp_path / "a"
    cwd.mkdir()
    rules = {key.format(tmp_path): value for key, value in listed.items()}
    written(tmp_path / "home/.gemini/trustedFolders.json", json.dumps(rules))
    assert trusts(cwd, {"HOME": str(tmp_path / "home")}, []) is trusted


def test_trust_that_is_set_for_a_run(tmp_path: Path) -> None:
    """A variable wins over the list, and distrust over trust."""
    name = "GEMINI_CLI_TRUST_WORKSPACE"
    off = [{"security": {"folderTrust": {"enabled": False}}}]
    home = {"HOME": str(tmp_path)}
    assert trusts(tmp_path, {**home, name: "true"}, [])
    assert not trusts(tmp_path, {**home, name: "1"}, [])
    assert trusts(tmp_path, home, off)
    assert not trusts(tmp_path, {**home, name: "false"}, off)
    assert not trusts(tmp_path, {name: "true", "GEMINI_RESTRICTED_MODE": "true"}, off)
    written(tmp_path / ".gemini/trustedFolders.json", "{")
    with pytest.raises(LaunchError):
        trusts(tmp_path, home, [])


def test_where_files_lie() -> None:
    """Variables move them, and an empty one does not."""
    moved = {
        "GEMINI_CLI_HOME": "/h",
        "HOME": "/x",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/s/a.json",
        "GEMINI_CLI_TRUSTED_FOLDERS_PATH": "/t.json",
    }
    assert home_of(moved) == Path("/h")
    assert home_of({"GEMINI_CLI_HOME": "", "HOME": "/x"}) == Path("/x")
    assert machine_settings(moved) == (Path("/s/a.json"), Path("/s/system-defaults.json"))
    assert machine_settings({})[0].name == "settings.json"
    defaults = {"GEMINI_CLI_SYSTEM_DEFAULTS_PATH": "/d.json"}
    assert machine_settings(defaults)[1] == Path("/d.json")
    assert trust_list(moved) == Path("/t.json")
    assert trust_list({"HOME": "/x"}) == Path("/x/.gemini/trustedFolders.json")


_NAMES = st.sampled_from(["a", "//b", "/*c*/", 'd"', "e\\"])


@given(
    settings=st.dictionaries(
        _NAMES, st.booleans() | _NAMES | st.lists(_NAMES) | st.dictionaries(_NAMES, _NAMES)
    ),
    comment=st.sampled_from([" // x", "/* x\n */", ' // "', ' /* " */ // {']),
)
def test_comments_change_nothing(settings: dict[str, object], comment: str) -> None:
    """With a comment behind every line, settings say what they say without."""
    text = json.dumps(settings, indent=1)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "s", text.replace("\n", f"{comment}\n"))
        assert read_settings(path) == settings
