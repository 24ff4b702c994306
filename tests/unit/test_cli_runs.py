"""`broker runs list` and `show`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.trace.about import Parent
from tests.console import Console
from tests.unit.tracekit import SH, begun, whole


@pytest.fixture
def runs(broker_home: Path) -> Path:
    """The folder of runs of this test's home."""
    return broker_home / "state" / "runs"


def test_none(broker: Console, broker_home: Path) -> None:
    """Before the first run there is none, which is no error, and nothing is made."""
    assert broker("runs").out == "no recorded run yet\n"
    assert broker("runs", "--json").json() == []
    assert list(broker_home.iterdir()) == []
    said = broker("runs", "show")
    assert (said.code, said.err) == (2, "broker: there is no recorded run yet\n")


def test_list(broker: Console, runs: Path) -> None:
    """Each run has its state; a fork names its parent, and a broken one its reason."""
    first = whole(runs)
    fork = begun(runs, replace(SH, parent=Parent(first.run_id, 4, "other")))
    (runs / "run_abcdef").mkdir()
    said = broker("runs")
    assert said.code == 0
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert "9       0     SEALED" in rows[first.run_id]
    assert f"UNSEALED    {first.run_id} at 4 on other" in rows[fork.run_id]
    assert "UNREADABLE" in rows["run_abcdef"]
    found = {each["run"]: each for each in broker("runs", "--json").json()}  # type: ignore[attr-defined]  # a list
    assert found[first.run_id]["events"] == 9
    assert found[fork.run_id]["parent"] == first.run_id
    assert "manifest.json" in found["run_abcdef"]["problem"]


def test_show(broker: Console, runs: Path) -> None:
    """A run is told on a page: who, what, how it ended, and whether it is as sealed."""
    run = whole(runs)
    said = broker("runs", "show")
    assert said.code == 0
    for told in (
        run.run_id, "command   sh -c true", "exit code 0", "2 requests in 2 turns", "read_file",
        "1 snapshot,", "9 events", "as sealed",
    ):  # fmt: skip
        assert told in said.out
    found = broker("runs", "show", "--json").json()
    assert isinstance(found, dict)
    assert found["integrity"] == "ok"
    assert found["problems"] == []
    assert found["summary"]["tools"] == {"read_file": 1}
    assert found["size_bytes"] > 9_000


def test_what_is_wrong_is_shown(broker: Console, runs: Path) -> None:
    """A changed run says that it is not what was sealed, with its problems, and no escape."""
    run = whole(runs)
    with (run.folder / "events.jsonl").open("a") as file:
        file.write('{"seq":9,"type":"\\u001b[2J"}\n' * 30)
    said = broker("runs", "show")
    assert "NOT what was sealed" in said.out
    assert "and 39 more problems" in said.out
    assert "\x1b" not in said.out


def test_a_run_that_cannot_be_read(broker: Console, runs: Path) -> None:
    """Another version, a link and a pipe are one line and exit 2."""
    run = whole(runs)
    path = run.folder / "manifest.json"
    path.write_text(path.read_text().replace('"0.2.0"', '"1.0.0"'))
    said = broker("runs", "show")
    assert said.code == 2
    assert "of format 1.0.0" in said.err
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert broker("runs", "show", run.run_id).code == 2
    assert "\n" not in broker("runs", "show", run.run_id).err.rstrip("\n")
