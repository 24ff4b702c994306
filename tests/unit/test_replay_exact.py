"""A recorded run is played again: same agent, no model, no network, no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.capture.treestore import git_program
from broker.errors import InputError
from broker.loopback.server import LoopbackModel
from broker.replay.exact import NO_KEY, _command, _environ, _is_past
from broker.replay.isolation import Isolation
from broker.replay.outcome import ReplayOutcome
from broker.trace.reader import RunReader
from broker.trace.runs import every
from tests.replaykit import SCRIPT, Recorder


@pytest.fixture
def recorder(tmp_path: Path, broker_home: Path) -> Recorder:
    """A workspace, and a small agent that reads two files and touches them."""
    return Recorder(tmp_path, broker_home)


def _outcome(rungs: dict[int, int], left: int = 0, recorded: int = 3) -> ReplayOutcome:
    here = Isolation("namespace")
    return ReplayOutcome("run_0", here, 0, 0, recorded, rungs, (None,) * left, (), "")  # type: ignore[arg-type]  # only counted


def test_a_run_is_played_again_from_its_recording(recorder: Recorder) -> None:
    """The model is gone, every request is on rung 1, and the workspace stays as it was."""
    if git_program() is not None:  # which lays the workspace out again
        recorder.write(a="one\n")
    said = recorder.record()
    assert said.code == 0, said.err
    touched = {each.name: each.read_bytes() for each in recorder.workspace.iterdir()}
    assert list(touched) != []
    again = recorder.broker("replay", "--strict", "--json")
    found = again.json()
    assert isinstance(found, dict)
    assert (again.code, found["exact"], found["reused"]) == (0, True, 3), again.err
    assert found["rungs"] == {"1": 3, "2": 0, "3": 0}
    assert "all is read" in again.err  # what the agent says stands beside the one document
    assert {e.name: e.read_bytes() for e in recorder.workspace.iterdir()} == touched
    child, parent = every(recorder.home.runs)
    assert child.manifest is not None
    assert parent.manifest is not None
    assert child.manifest.parent_run == parent.manifest.run_id == found["parent"]
    assert child.manifest.run_id == found["run"]


def test_a_divergence_stops_the_agent_and_is_told(recorder: Recorder) -> None:
    """Another agent than then is stopped at its first unmatched request, and the trace says why."""
    recorder.record()
    text = recorder.program.read_text(encoding="utf-8")
    recorder.program.write_text(
        text.replace("[script main] go", "something else"), encoding="utf-8"
    )
    again = recorder.broker("replay")
    assert again.code == 1
    assert "broker: divergence at `POST /v1/messages`: nearest to event" in again.err
    assert "unmatched=1" in again.err
    child = RunReader.open(every(recorder.home.runs)[0].folder)
    told = [event for event in child.stream() if event.type == "divergence"]
    assert [event.attrs["severity"] for event in told] == ["none"]
    assert "3 recorded requests were not asked for" in again.err


def test_an_exact_replay_is_all_on_rung_1_and_whole() -> None:
    """With --strict only rung 1 will do; without, every request must be met and none be missing."""
    assert _outcome({1: 3}).exact
    assert _outcome({1: 3}).holds(strict=True)
    minor = _outcome({1: 2, 2: 1})
    assert (minor.holds(), minor.holds(strict=True), minor.reused) == (True, False, 3)
    assert not _outcome({1: 2}, left=1).holds()
    assert not _outcome({1: 2, 4: 1}).holds()
    assert str(minor) == "reused=3/3 (rung 1: 2, rung 2: 1) unmatched=0"


def test_what_cannot_be_started_again_is_said() -> None:
    """A command that was not recorded, or held a secret, is bad input."""
    with pytest.raises(InputError):
        _command([])
    with pytest.raises(InputError, match="secret"):
        _command(["x", "--key=[hidden option 12]"])
    assert _command(["x", "y"]) == ["x", "y"]


def test_no_key_is_needed() -> None:
    """What stands for a key is given in any case: offline a real one is only there to be read."""
    found = _environ({"ANTHROPIC_API_KEY": "k", "PWD": "/x"}, "/here")
    assert (found["ANTHROPIC_API_KEY"], found["OPENAI_API_KEY"], found["PWD"]) == (
        NO_KEY,
        NO_KEY,
        "/here",
    )
    assert _environ({"ANTHROPIC_API_KEY": "k"}, "/here", offline=False)["ANTHROPIC_API_KEY"] == "k"


def test_a_deadline_that_is_over_is_left_out() -> None:
    """An instant that was typed then cannot be typed now; a duration can."""
    assert _is_past("until=2026-11-30T08:00:00Z")
    assert not _is_past("until=45m")
    assert not _is_past("tools=T")


def test_nothing_to_play_is_said(recorder: Recorder) -> None:
    """A recording without a model's request is bad input, and nothing is started."""
    recorder.program.write_text("print('started')", encoding="utf-8")
    recorder.record()
    again = recorder.broker("replay")
    assert again.code == 2
    assert "there is nothing to play" in again.err
    assert "started" not in again.out


def test_a_fork_is_recorded_below_and_live_above(recorder: Recorder, tmp_path: Path) -> None:
    """Up to its point the recording answers, then the model does, under the name that was given."""
    recorder.record()
    answers = RunReader.open(every(recorder.home.runs)[0].folder).stream()
    first = next(event.seq for event in answers if event.type == "model.response")
    words = ("--from", str(first), "--model", "other", "--into", str(tmp_path / "kept"), "--json")
    with LoopbackModel(SCRIPT) as model:
        said = recorder.broker("replay", *words, url=model.url)
        asked = [json.loads(text) for text in model.asked]
    found = said.json()
    assert isinstance(found, dict)
    assert (said.code, found["reused"], found["live"], found["unmatched"]) == (0, 1, 2, 0), said.err
    assert [body["model"] for body in asked] == ["other", "other"]
    assert found["isolation"]["level"] == "open"
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == ["a.txt", "b.txt"]
    child = every(recorder.home.runs)[0].manifest
    assert child is not None
    assert (child.fork_point, child.fork_model) == (first, "other")
    again = recorder.broker("replay", found["run"], "--strict", "--json").json()
    assert isinstance(again, dict)
    assert (again["exact"], again["recorded"]) == (True, 3)  # a fork is a run, played again


@pytest.mark.deep
def test_a_fork_goes_on_with_another_providers_model(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Translated both ways, told in the manifest and the trace, and forked again (row 68)."""
    recorder.record()
    events = list(RunReader.open(every(recorder.home.runs)[0].folder).stream())
    first = next(event.seq for event in events if event.type == "model.response")
    text = recorder.program.read_text(encoding="utf-8")
    recorder.program.write_text(
        text.replace('print(answer["content"][0]["text"])', 'print(os.environ["OPENAI_API_KEY"])'),
        encoding="utf-8",
    )
    with LoopbackModel(SCRIPT) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "a-real-key")
        words = ("--from", str(first), "--model", "openai/gpt-x", "--json")
        said = recorder.broker("replay", *words)
        asked = [json.loads(body) for body in model.asked]
    found = said.json()
    assert isinstance(found, dict)
    assert (said.code, found["reused"], found["live"], found["unmatched"]) == (0, 1, 2, 0), said.err
    assert [body["model"] for body in asked] == ["gpt-x", "gpt-x"]
    assert NO_KEY in said.err  # what the agent prints: it has no use for the other's key
    assert "a-real-key" not in said.err
    fork = every(recorder.home.runs)[0]
    assert fork.manifest is not None
    assert (fork.manifest.fork_point, fork.manifest.fork_model) == (first, "openai/gpt-x")
    told = [e for e in RunReader.open(fork.folder).stream() if e.text("kind") == "translated"]
    assert [(e.text("from"), e.text("to"), e.text("model")) for e in told] == [
        ("anthropic.messages", "openai.responses", "gpt-x")
    ] * 2
    again = recorder.broker("replay", found["run"], "--strict", "--json").json()
    assert isinstance(again, dict)
    assert (again["exact"], again["recorded"]) == (True, 3)
    with LoopbackModel(SCRIPT) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
        words = ("replay", found["run"], "--from", str(told[0].seq), "--model", "other", "--json")
        second = recorder.broker(*words, url=model.url).json()
    assert isinstance(second, dict)
    assert (second["parent"], second["unmatched"], second["model"]) == (found["run"], 0, "other")
