"""The scope that a project file gives to a run, and how a person is asked."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from broker import launch
from broker.home import Home
from broker.project import accept, accepted, load_project
from tests.console import COMMAND, Console

TEXT = '[scope]\ndefault = ["calls=3"]\nclaude = ["@house"]\n'


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a project file that nobody accepted, where the test stands."""
    folder = tmp_path / "ws"
    (folder / ".broker/policies").mkdir(parents=True)
    (folder / ".broker/broker.toml").write_text(TEXT)
    (folder / ".broker/policies/house.scope").write_text("# House rules.\npaths = src/**\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The scopes that agents would be started with."""
    found: list[list[str]] = []

    def stand_in(command: list[str], *, texts: list[str], **_: object) -> int:
        found.append(list(texts))
        return 0

    monkeypatch.setattr(launch, "run", stand_in)
    return found


def home() -> Home:
    """Return the home of this test."""
    return Home.find(os.environ)


def accept_it(workspace: Path) -> None:
    """Accept the project as it is."""
    project = load_project(workspace)
    assert project is not None
    accept(project, home())


def test_a_file_that_nobody_accepted_gives_no_authority(
    broker: Console, workspace: Path, launched: list[list[str]]
) -> None:
    """Nothing is started, and the command that accepts is named."""
    said = broker("run", "--", "claude")
    assert said.code == 2
    assert "broker init --accept" in said.err
    assert launched == []


def test_an_accepted_file_gives_the_scope(
    broker: Console, workspace: Path, launched: list[list[str]]
) -> None:
    """By the agent's program, with its policies spelled out; and it is said, unless quietly."""
    accept_it(workspace)
    said = broker("run", "--", "claude")
    assert (said.code, launched) == (0, [["paths=src/**"]])
    assert "broker.toml`: paths=src/**" in said.err
    assert broker("run", "--quiet", "--", "pi").err == ""
    assert launched[1] == ["calls=3"]


def test_a_file_that_changed_is_refused_again(
    broker: Console, workspace: Path, launched: list[list[str]]
) -> None:
    """What a policy says belongs to it."""
    accept_it(workspace)
    (workspace / ".broker/policies/house.scope").write_text("# House rules.\npaths = **\n")
    assert broker("run", "--", "claude").code == 2
    assert launched == []


def test_a_typed_scope_stands_alone(
    broker: Console, workspace: Path, launched: list[list[str]]
) -> None:
    """The file is not even read then."""
    (workspace / ".broker/broker.toml").write_text("nonsense")
    assert broker("run", "--scope", "calls=1", "--", "claude").code == 0
    assert launched == [["calls=1"]]
    assert broker("run", "--", "claude").code == 2


def test_an_agent_without_a_line_is_not_started(
    broker: Console, workspace: Path, launched: list[list[str]]
) -> None:
    """No scope at all would permit everything."""
    (workspace / ".broker/broker.toml").write_text('[scope]\nclaude = ["calls=1"]\n')
    accept_it(workspace)
    said = broker("run", "--", "pi")
    assert said.code == 2
    assert "broker init --agent pi" in said.err
    assert launched == []


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("n", 2), ("", 2), ("yy", 2)])
def test_a_person_is_asked_on_a_terminal(workspace: Path, answer: str, code: int) -> None:
    """All of it is shown, anything but a plain yes is a no, and a yes holds until it changes."""
    told, ended = at_terminal("run", "--", "true", answers=[answer])
    assert "House rules." in told
    assert "default = " in told
    assert ended == code, told
    project = load_project(workspace)
    assert project is not None
    assert (accepted(project, home()) is not None) == (code == 0)
    if code == 0:
        told, ended = at_terminal("run", "--", "true", answers=[])
        assert "House rules." not in told
        assert ended == 0


def test_nobody_is_asked_inside_a_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent can make itself a terminal, and answer."""
    monkeypatch.setenv("BROKER_SESSION", "x")
    told, ended = at_terminal("run", "--", "true", answers=["y"])
    assert "inside a run" in told
    assert ended == 2
    project = load_project(workspace)
    assert project is not None
    assert accepted(project, home()) is None


def at_terminal(
    *words: str, answers: list[str], env: dict[str, str] | None = None
) -> tuple[str, int]:
    """Run `broker` on a terminal of its own, type the answers, and return all that was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    told = b""
    end_s = time.monotonic() + 60
    try:
        while time.monotonic() < end_s and (part := os.read(ours, 65536)):
            told += part
    except OSError:
        pass  # the other end is gone
    os.close(ours)
    return told.decode(errors="replace"), process.wait(10)
