"""`broker inspect`: what a run is made of, before anything runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

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
