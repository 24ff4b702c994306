"""`broker init`: what it writes, what it accepts, and where it refuses to."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from broker.home import Home
from broker.project import accepted, load_project
from tests.console import Console
from tests.unit.test_cli_project import at_terminal


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where the test stands."""
    folder = tmp_path / "ws"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    return folder


def scopes(workspace: Path) -> dict[str, list[str]]:
    """Return what the file says."""
    found: dict[str, list[str]] = tomllib.loads((workspace / ".broker/broker.toml").read_text())[
        "scope"
    ]
    return found


def is_accepted(workspace: Path) -> bool:
    """Whether the file counts."""
    project = load_project(workspace)
    assert project is not None
    return accepted(project, Home.find(os.environ)) is not None


def test_flags_write_it_and_accept_it(broker: Console, workspace: Path) -> None:
    """Without a question, where there is nothing yet."""
    said = broker("init", "--agent", "claude", "--agent", "pi", "--scope", "@review")
    assert said.code == 0, said.err
    assert scopes(workspace) == {"claude": ["@review"], "pi": ["@review"]}
    assert is_accepted(workspace)
    assert broker("init", "--scope", "calls=3", "--yes").code == 0
    assert scopes(workspace)["default"] == ["calls=3"]
    assert scopes(workspace)["claude"] == ["@review"]
    assert is_accepted(workspace)


def test_print_writes_nothing(broker: Console, workspace: Path) -> None:
    """What it prints is the file."""
    said = broker("init", "--scope", "calls=3", "--print")
    assert said.code == 0
    assert tomllib.loads(said.out) == {"scope": {"default": ["calls=3"]}}
    assert list(workspace.iterdir()) == []


def test_nothing_is_overwritten_without_a_yes(broker: Console, workspace: Path) -> None:
    """What is there stays to the byte; the same again needs no question."""
    broker("init", "--scope", "calls=3")
    file = workspace / ".broker/broker.toml"
    before = file.read_bytes()
    assert broker("init", "--scope", "calls=4").code == 2
    assert file.read_bytes() == before
    assert broker("init", "--scope", "calls=3").code == 0


def test_a_file_of_somebody_elses_is_not_taken_along(broker: Console, workspace: Path) -> None:
    """A line is not added to a file that nobody accepted, which would accept its other lines."""
    (workspace / ".broker").mkdir()
    file = workspace / ".broker/broker.toml"
    file.write_text('[scope]\nclaude = ["calls=1000"]\n')
    said = broker("init", "--agent", "pi", "--scope", "calls=1", "--yes")
    assert said.code == 2
    assert "was not accepted" in said.err
    assert not is_accepted(workspace)
    assert broker("init", "--accept").code == 2
    assert not is_accepted(workspace)
    said = broker("init", "--accept", "--yes")
    assert said.code == 0
    assert "calls=1000" in said.err
    assert is_accepted(workspace)
    assert "already" in broker("init", "--accept").out


@pytest.mark.parametrize(
    "words",
    [
        ("--scope", "nonsense"),
        ("--scope", "path=src"),
        ("--scope", "@nowhere"),
        ("--scope", "@./x"),
        ("--agent", "a/b", "--scope", "calls=1"),
        ("--agent", "claude"),
        ("--accept",),
        ("--accept", "--scope", "calls=1"),
        ("--workspace", "nowhere", "--scope", "calls=1"),
    ],
)
def test_what_could_not_be_used_is_not_written(
    broker: Console, workspace: Path, words: tuple[str, ...]
) -> None:
    """Bad input ends with 2, a line, and nothing on the disk."""
    said = broker("init", *words, "--yes")
    assert said.code == 2
    assert said.err.startswith("broker: ")
    assert not (workspace / ".broker/broker.toml").exists()


def test_a_file_that_could_not_be_used_is_not_accepted(broker: Console, workspace: Path) -> None:
    """A policy that is missing is found before, not at the next run."""
    (workspace / ".broker").mkdir()
    (workspace / ".broker/broker.toml").write_text('[scope]\nclaude = ["@nowhere"]\n')
    assert broker("init", "--accept", "--yes").code == 2
    assert not is_accepted(workspace)


@pytest.mark.parametrize("variable", ["BROKER_SOCKET", "BROKER_SESSION"])
def test_nothing_is_accepted_inside_a_run(
    broker: Console, workspace: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """An agent is no person, whatever it types."""
    (workspace / ".broker").mkdir()
    (workspace / ".broker/broker.toml").write_text('[scope]\nclaude = ["calls=1"]\n')
    monkeypatch.setenv(variable, "x")
    for words in (("--accept",), ("--scope", "calls=1"), ("--scope", "calls=1", "--print")):
        assert broker("init", *words, "--yes").code == 2
    assert not is_accepted(workspace)


def test_a_person_is_asked_for_what_was_not_typed(workspace: Path) -> None:
    """The agent, and its scope line by line; an empty line ends it."""
    told, code = at_terminal("init", answers=["claude", "paths=src/**", "calls=60", ""])
    assert code == 0, told
    assert "gemini" in told
    assert scopes(workspace) == {"claude": ["paths=src/**", "calls=60"]}
    assert is_accepted(workspace)


def test_a_person_who_types_nothing_gets_nothing(workspace: Path) -> None:
    """No scope would permit everything."""
    told, code = at_terminal("init", answers=["", ""])
    assert code == 2, told
    assert not (workspace / ".broker").exists()
