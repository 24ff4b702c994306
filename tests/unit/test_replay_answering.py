"""What tools came to is given again from the record: no shell and no server is started for it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from broker.capture.shellreplay import parts_of
from broker.capture.treestore import git_program
from broker.errors import LaunchError
from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from broker.replay.answering import RecordedTrees, ResultsServer
from broker.replay.normal import Normal
from broker.trace.reader import RunReader
from broker.trace.runs import every
from tests.mcpkit import SERVER, call
from tests.replaykit import HANDS, Recorder
from tests.worldkit import recorded


class World:
    """An agent with a shell and a server, a folder outside of its workspace, and what it does."""

    def __init__(self, root: Path, home: Path) -> None:
        self.recorder = Recorder(root, home)
        self.recorder.program.write_text(HANDS, encoding="utf-8")
        self.server = root / "server.py"
        self.server.write_text(SERVER, encoding="utf-8")
        self.outside = root / "outside"
        self.recorder.command = [sys.executable, str(self.recorder.program), str(self.server)]
        self.env = {"OUTSIDE": str(self.outside)}

    def script(self) -> dict[str, list[Use | Say]]:
        """What the model asks for."""
        writes = f"echo more >> {self.outside}; echo 'it''s made' > made.txt; rm -f gone.txt"
        return {
            "main": [
                Use([("Bash", {"command": f"{writes}; echo out; echo err >&2; exit 3"})]),
                Use([("Read", {"file_path": "made.txt"}), ("Read", {"file_path": "gone.txt"})]),
                Use([("look", {"at": "x"}), ("look", {"at": "y"})]),
                Use([("Bash", {"command": "kill -9 $$"})]),
                Say("done"),
            ]
        }

    def record(self) -> RunReader:
        """Record it against a model that is gone afterwards, and return the recording."""
        with LoopbackModel(self.script()) as model:
            words = ("record", "--", *self.recorder.command)
            said = self.recorder.broker(*words, url=model.url)
        assert said.code == 0, said.err
        return RunReader.open(every(self.recorder.home.runs)[0].folder)


@pytest.fixture
def world(tmp_path: Path, broker_home: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that was not recorded yet."""
    made = World(tmp_path, broker_home)
    monkeypatch.setenv("OUTSIDE", str(made.outside))
    made.recorder.write(gone="here still\n")
    return made


@pytest.mark.alone  # on a busy machine a shell may be seen before the call that it is of
@pytest.mark.skipif(git_program() is None, reason="the workspace is kept by git")
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_results_come_from_the_record(world: World, times: int) -> None:
    """Shells are not run and the server is gone, and every request is the same (rows 58, 79)."""
    world.record()
    world.server.unlink()
    for name in ("made.txt", "gone.txt"):
        (world.recorder.workspace / name).unlink(missing_ok=True)
    world.recorder.write(gone="of the person, and later\n")
    world.outside.write_text("", encoding="utf-8")
    for parent in range(1, times + 1):  # the second time the replay itself is played
        said = world.recorder.broker("replay", "--strict", "--json")
        found = said.json()
        assert isinstance(found, dict)
        assert (said.code, found["exact"], found["recorded"]) == (0, True, 5), said.err
        assert found["results"] == {
            "from": "record",
            "shell": {"recorded": 2, "served": 2, "refused": 0, "ran": 1},
            "mcp": {"recorded": 2, "served": 2, "refused": 0},
            "refused": [],
            "not_asked": [],
            "workspace_lost": None,
        }
        # What is the agent's own business runs, and nothing that a model asked for.
        assert world.outside.read_text(encoding="utf-8") == "its own business\n" * parent
    assert (world.recorder.workspace / "gone.txt").exists()


@pytest.mark.deep
def test_tools_can_run_again(world: World) -> None:
    """With --live-tools shells and servers are started, as the report says."""
    world.record()
    before = world.outside.read_text(encoding="utf-8")
    said = world.recorder.broker("replay", "--live-tools")
    assert said.code == 0, said.err
    assert "tools ran again" in said.err
    after = world.outside.read_text(encoding="utf-8")
    assert after.removeprefix(before) == "its own business\nmore\n"


@pytest.mark.deep
def test_what_is_not_on_record_is_refused_and_named(world: World) -> None:
    """A command that is asked for twice was recorded once: it does not run, and counts."""
    world.record()
    text = world.recorder.program.read_text(encoding="utf-8")
    again = 'shell(given["command"])\n        return shell(given["command"])'
    changed = text.replace('return shell(given["command"])', again)
    changed = changed.replace('"arguments": given', '"arguments": {**given, "more": 1}')
    world.recorder.program.write_text(changed, encoding="utf-8")
    world.outside.write_text("", encoding="utf-8")
    said = world.recorder.broker("replay")
    assert said.code == 1
    assert "broker: refused: shell: `echo more >>" in said.err
    assert world.outside.read_text(encoding="utf-8") == "its own business\n"
    child = RunReader.open(every(world.recorder.home.runs)[0].folder)
    told = [e.attrs for e in child.stream() if e.type == "divergence" and e.text("kind")]
    assert told[0]["kind"] == "shell"
    assert told[0]["severity"] == "none"


@pytest.mark.deep
def test_a_fork_runs_nothing_below_its_point(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded is given, and what the live model asks for runs, in the same folder."""
    reader = world.record()
    asked = [e.seq for e in reader.stream() if e.type == "model.response"]
    world.outside.write_text("", encoding="utf-8")
    script = world.script()
    live = f"cat made.txt >> {world.outside}"
    script["main"][2] = Use([("Bash", {"command": live})])
    with LoopbackModel(script) as model:
        words = ("replay", "--from", str(asked[1]), "--json")
        said = world.recorder.broker(*words, url=model.url)
    found = said.json()
    assert isinstance(found, dict)
    assert (said.code, found["reused"], found["unmatched"]) == (0, 2, 0), said.err
    assert found["results"]["shell"] == {"recorded": 1, "served": 1, "refused": 0, "ran": 3}
    assert world.outside.read_text(encoding="utf-8") == "its own business\nits made\n"


def _server(root: Path, reader: RunReader) -> tuple[ResultsServer, list[tuple[object, ...]]]:
    told: list[tuple[object, ...]] = []
    forms = Normal({}), Normal({})
    trees = RecordedTrees(reader, None)
    made = ResultsServer(
        reader, root / "ask", forms, trees=trees, diverged=lambda *more: told.append(more)
    )
    return made, told


def _asked(path: Path, kind: str, *parts: bytes) -> bytes:
    sizes = ",".join(str(len(part)) for part in parts)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(20)
        link.connect(os.fspath(path))
        link.sendall(f'{{"kind":"{kind}","sizes":[{sizes}]}}\n'.encode() + b"".join(parts))
        found = b""
        while data := link.recv(65_536):
            found += data
    return found


def test_strangers_questions_end_without_an_answer(tmp_path: Path) -> None:
    """What is no question is not answered, which whoever asked takes for a refusal."""
    made, told = _server(tmp_path, recorded(tmp_path).sealed())
    made.bind()
    made.start()
    try:
        assert _asked(made.path, "else", b"x", b"y") == b""
        assert _asked(made.path, "mcp", b"notes", b"no message") == b""
        assert parts_of(_asked(made.path, "shell", b"sh\0-c\0true", b"/")) == [b"own", b"", b""]
        (line,) = parts_of(_asked(made.path, "mcp", b"notes", call(1, "look")))
        assert b"not in the recording: `tools/call look` of `notes`" in line
    finally:
        made.close()
    assert [each[:2] for each in told] == [("mcp", 4)]
    assert made.tally.refused == 1
    with pytest.raises(LaunchError):
        _server(tmp_path / ("x" * 120), recorded(tmp_path / "b").sealed())[0].bind()
