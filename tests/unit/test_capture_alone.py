"""A command is recorded without a ticket, and nothing of it stays but the run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from broker.home import Home
from broker.loopback.server import LoopbackModel
from broker.service.client import SOCKET_VARIABLE
from tests.console import process
from tests.unit.test_capture_recording import AGENT, KEY, SCRIPT


def recorded(root: Path, *words: str, **environ: str):
    """Run `broker record` in a process of its own."""
    (root / "ws").mkdir(exist_ok=True)
    given = {k: v for k, v in os.environ.items() if not k.startswith("BROKER_")}
    home = {"BROKER_HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
    (root / "tmp").mkdir(exist_ok=True)
    return process("record", *words, cwd=root / "ws", env={**given, **home, **environ})


def test_a_command_is_recorded(tmp_path: Path) -> None:
    """It runs as it would, with its exit code, and what it said to its model is kept."""
    with LoopbackModel(SCRIPT) as model:
        said = recorded(
            tmp_path, "--", sys.executable, "-c", AGENT + "\nsys.exit(5)",
            OPENAI_BASE_URL=f"{model.url}/v1", OPENAI_API_KEY=KEY,
        )  # fmt: skip
    assert said.code == 5, said.err
    lines = said.err.splitlines()
    assert lines[0] == f"broker: no ticket: nothing is refused while `{sys.executable}` runs"
    assert "2 requests, 1 call" in lines[-1]
    home = Home.find({"BROKER_HOME": str(tmp_path / "home")})
    (folder,) = home.runs.glob("run_*")
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [e["type"] for e in events].count("model.response") == 2
    assert events[-1]["attrs"] == {"exit_code": 5}
    assert not (folder / "receipt").exists()
    assert not home.sessions.exists()
    assert os.listdir(tmp_path / "tmp") == []


def test_quiet(tmp_path: Path) -> None:
    """What went well is not said."""
    assert recorded(tmp_path, "--quiet", "--", "true").err == ""


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        ((), {}, "name the command behind `--`"),
        (("--", "no-such-program"), {}, "cannot be started"),
        (("--", "true"), {SOCKET_VARIABLE: "/x"}, "inside a run already"),
    ],
)
def test_what_is_not_started(
    tmp_path: Path, words: tuple[str, ...], environ: dict[str, str], said: str
) -> None:
    """What cannot be recorded is not started, and the reason is one line."""
    found = recorded(tmp_path, *words, **environ)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_without_a_place_to_record_nothing_is_started(tmp_path: Path) -> None:
    """A recording is all that is wanted, so without one nothing runs."""
    home = Home.find({"BROKER_HOME": str(tmp_path / "home")})
    home.state.mkdir(parents=True)
    home.runs.write_text("in the way")
    found = recorded(tmp_path, "--", "touch", "made")
    assert found.code == 2
    assert not (tmp_path / "ws/made").exists()
