"""`broker runs events`, `checkpoints` and `graph`."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.runevents import event_line
from broker.trace.requests import Requests
from tests.console import Console
from tests.unit.tracekit import begun, event, whole


@pytest.fixture
def runs(broker_home: Path) -> Path:
    """The folder of runs of this test's home."""
    return broker_home / "state" / "runs"


def test_events_by_type_and_turn(broker: Console, runs: Path) -> None:
    """Every event is one line; types and a turn choose among them."""
    whole(runs)
    assert len(broker("runs", "events").out.splitlines()) == 9
    said = broker("runs", "events", "--type", "model.request", "--type", "tool.call")
    assert [line.split()[0] for line in said.out.splitlines()] == ["2", "4", "6"]
    rows = broker("runs", "events", "--turn", "1", "--json").rows()
    assert [row["seq"] for row in rows] == [2, 3, 4]
    assert rows[1]["causes"] == [2]
    said = broker("runs", "events", "--type", "tool.cal")
    assert said.code == 2
    assert "`tool.cal` is no type" in said.err


def test_payloads_are_told_whole(broker: Console, runs: Path) -> None:
    """With --payload a blob is read, and a request that was kept as a change is made whole."""
    run = begun(runs)
    requests = Requests(run)
    for size in (1, 2):
        requests.write("main", {"messages": ["x" * 5_000] * size})
    run.event("note", "orca", payload=b"\xff" * 5_000, media_type="image/png")
    run.event("note", "orca", payload="one\n\x1b[2Jtwo", media_type="text/plain")
    run.seal(0)
    rows = broker("runs", "events", "--payload", "--json").rows()
    assert rows[1]["payload"] == {"messages": ["x" * 5_000] * 2}
    assert rows[2]["payload"].startswith("\ufffd")
    assert "$blob" in broker("runs", "events", "--json").rows()[0]["payload"]
    said = broker("runs", "events", "--payload")
    assert "\n        one\n        \\x1b[2Jtwo\n" in said.out
    assert "more characters: see --json" in said.out
    for blob in (run.folder / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    rows = broker("runs", "events", "--payload", "--json").rows()
    assert "is not there" in rows[0]["payload"]["unreadable"]


def test_problems_are_warned_of(broker: Console, runs: Path) -> None:
    """A line that cannot be read is told on stderr, and the rest is shown."""
    run = whole(runs)
    with (run.folder / "events.jsonl").open("a") as file:
        file.write('{"half')
    said = broker("runs", "events", "--json")
    assert (said.code, len(said.rows())) == (0, 9)
    assert said.err == "warning: line 10: truncated final line\n"


def test_checkpoints(broker: Console, runs: Path) -> None:
    """The places at which a run can be taken up again; none without a snapshot."""
    whole(runs)
    assert broker("runs", "checkpoints", "--json").json() == [
        {"seq": 1, "turn": 0, "tree": "a" * 40}
    ]
    assert broker("runs", "checkpoints").out == "     1  turn 0     aaaaaaaaaaaa\n"
    run = begun(runs)
    run.seal(0)
    assert "no checkpoint" in broker("runs", "checkpoints", run.run_id).out


def test_graph(broker: Console, runs: Path) -> None:
    """What led to an event, with recorded edges apart from guesses."""
    run = begun(runs)
    asked = run.event("model.request", "agent")
    run.event("note", "orca")
    said = run.event("model.response", "model", causes=[asked])
    run.event("tool.call", "model", attrs={"name": "ls"})
    run.seal(0)
    found = broker("runs", "graph", "--to", str(said), "--json").json()
    assert isinstance(found, dict)
    assert [e["seq"] for e in found["events"]] == [0, 2]
    assert found["edges"] == [{"cause": 0, "effect": 2, "kind": "recorded"}]
    found = broker("runs", "graph", "--inferred", "--to", "3", "--json").json()
    assert isinstance(found, dict)
    assert found["edges"][-1] == {"cause": 2, "effect": 3, "kind": "inferred"}
    assert "<- 2?" in broker("runs", "graph", "--inferred").out
    assert broker("runs", "graph", "--to", "9").code == 2


def test_a_line_of_an_event_is_one_line() -> None:
    """Whatever its attributes hold, it is short, and shows what cannot be seen."""
    line = event_line(event(1, attrs={"a": "x\n\u202e" * 500, "b": {"c": ["\x1b"] * 99}}))
    assert len(line) < 400
    assert line.isprintable()
