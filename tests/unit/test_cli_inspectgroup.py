"""`broker inspect`: what a run is made of, before anything runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from broker.capabilities.bundle import real_capabilities
from broker.harness.composition import TRUSTED
from broker.harness.projecthooks import project_hooks
from broker.harness.trust import Trust
from broker.home import Home
from tests.console import Console, process


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Console:
    """The command, in this process."""
    return Console(capsys, monkeypatch)


def test_two_runs_in_two_folders_say_the_same_bytes(tmp_path: Path) -> None:
    """The report of two processes in two folders is equal, byte by byte, with content too."""
    said = set()
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        done = process(
            "inspect", "runtime", "--json", "--include-content", "--scope", "until=45m",
            cwd=tmp_path / seed, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.code == 0, done.err
        said.add(done.out)
    (text,) = said
    document = json.loads(text)
    assert sorted(document["capabilities"]) == [
        "browser",
        "clock",
        "credentials",
        "fs",
        "process",
        "terminal",
        "transcription",
    ]
    assert document["capabilities"]["credentials"] == "empty"
    assert all("schema" in tool for tool in document["tools"])


def test_nothing_of_the_workspace_is_executed(tmp_path: Path) -> None:
    """Code and hooks that lie in a workspace are listed, and leave no trace of having run."""
    sentinel = tmp_path / "sentinel"
    workspace = tmp_path / "ws"
    code = f"import pathlib; pathlib.Path({str(sentinel)!r}).touch()\n"
    command = {"type": "command", "command": f"touch {sentinel}"}
    hook = {"hooks": {"SessionStart": [{"hooks": [command]}]}}
    for name, text in {
        "sitecustomize.py": code,
        "conftest.py": code,
        "broker/__init__.py": code,
        ".broker/hooks/start.py": code,
        ".broker/plugin.py": code,
        ".claude/settings.json": json.dumps(hook),
    }.items():
        place = workspace / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    done = process("inspect", "runtime", "--json", "--workspace", str(workspace))
    assert done.code == 0, done.err
    assert not sentinel.exists()
    listed = {file["path"]: file["trusted"] for file in json.loads(done.out)["workspace"]}
    assert listed == {
        ".broker/hooks/start.py": False,
        ".broker/plugin.py": False,
        ".claude/settings.json": False,
    }


def test_nothing_is_written(broker: Console, broker_home: Path, tmp_path: Path) -> None:
    """No session is opened, no key made, no folder left behind."""
    before = sorted(broker_home.rglob("*"))
    assert broker("inspect", "runtime", "--workspace", str(tmp_path)).code == 0
    assert sorted(broker_home.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


def test_in_words(broker: Console, tmp_path: Path) -> None:
    """A person reads one line for each part."""
    said = broker("inspect", "runtime", "--workspace", str(tmp_path), "--scope", "calls=3")
    assert said.code == 0
    assert "calls: calls=3" in said.out
    assert "ask: read allow, write ask" in said.out
    assert "hooks        none" in said.out


@pytest.mark.parametrize(
    "words",
    [
        ("--mode", "wild"),
        ("--scope", "tolls=read"),
        ("--workspace", "/nowhere/at/all"),
        ("--wrong",),
    ],
)
def test_what_cannot_be_understood_is_told(broker: Console, words: tuple[str, ...]) -> None:
    """Bad input ends with 2 and one message, and nothing of a report."""
    said = broker("inspect", "runtime", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err
    assert "Traceback" not in said.err


def test_alone_it_shows_its_help(broker: Console) -> None:
    """`broker inspect` teaches."""
    assert "runtime" in broker("inspect").out + broker("inspect").err


def test_hooks_of_the_workspace_are_registered_only_when_trusted(tmp_path: Path) -> None:
    """They are listed either way, run by neither, and among the hooks only as a person trusts."""
    workspace, sentinel = tmp_path / "ws", tmp_path / "sentinel"
    (workspace / ".broker").mkdir(parents=True)
    (workspace / "check").write_text(f"#!/bin/sh\ntouch {sentinel}\n")
    (workspace / "check").chmod(0o755)
    hooks = '[[hook]]\nname = "mine"\ncommand = ["./check"]\n'
    (workspace / ".broker/hooks.toml").write_text(hooks)

    def told() -> dict[str, Any]:
        done = process("inspect", "runtime", "--json", "--workspace", str(workspace))
        assert done.code == 0, done.err
        document: dict[str, Any] = json.loads(done.out)
        return document

    document = told()
    assert document["hooks"] == []
    assert document["project_hooks"]["trusted"] is False
    assert sorted(document["project_hooks"]["executes"]) == [".broker/hooks.toml", "check"]
    assert [(f["path"], f["trusted"]) for f in document["workspace"]] == [
        (".broker/hooks.toml", False)
    ]

    world = real_capabilities()
    found = project_hooks(world.fs.below(str(workspace)), world.process)
    assert found is not None
    state = Home.find(os.environ).state
    state.mkdir(parents=True, mode=0o700)
    Trust(world.fs.below(str(state / TRUSTED))).accept(found.executables)
    document = told()
    assert [hook["name"] for hook in document["hooks"]] == ["mine"]
    assert document["project_hooks"]["trusted"] is True
    assert [f["trusted"] for f in document["workspace"]] == [True]

    (workspace / "check").write_text("#!/bin/sh\n")
    assert told()["hooks"] == []
    assert not sentinel.exists()
