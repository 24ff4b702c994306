"""`broker runs export`, `scrub` and `gc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console import Console
from tests.unit.tracekit import begun, independent, whole, written


@pytest.fixture
def runs(broker_home: Path) -> Path:
    """The folder of runs of this test's home."""
    return broker_home / "state" / "runs"


def test_export(broker: Console, runs: Path, tmp_path: Path) -> None:
    """The page goes to stdout or into a file for the owner alone; a link there is replaced."""
    run = whole(runs)
    said = broker("runs", "export", run.run_id)
    assert said.code == 0
    assert said.out.startswith("<!doctype html>")
    target, mine = tmp_path / "run.html", tmp_path / "mine"
    mine.write_text("mine")
    target.symlink_to(mine)
    told = broker("runs", "export", "-o", str(target), "--json").json()
    assert isinstance(told, dict)
    assert told["size_bytes"] == target.stat().st_size == len(said.out.encode())
    assert target.stat().st_mode & 0o777 == 0o600
    assert mine.read_text() == "mine"
    assert broker("runs", "export", "-o", str(target)).out.startswith(str(target))
    assert broker("runs", "export", "-o", str(tmp_path / "no" / "x")).code == 2
    assert broker("runs", "export", "--json").code == 2


def test_scrub(broker: Console, runs: Path, tmp_path: Path) -> None:
    """A text from stdin or a file goes, and what was done is told."""
    run = whole(runs)
    said = broker("runs", "scrub", run.run_id, "--text-file", "-", stdin=b"src/app.py\n")
    assert said.code == 0
    assert "hidden scrub 1; 1 events changed" in said.out
    assert not any(b"src/app.py" in content for content in written(run.folder))
    independent(run.folder)
    (tmp_path / "text").write_bytes(b"print(1)")
    found = broker("runs", "scrub", run.run_id, "--text-file", str(tmp_path / "text"), "--json")
    told = found.json()
    assert isinstance(told, dict)
    assert (told["hidden"], told["left"]) == ({"scrub": 1_000}, [])
    assert broker("runs", "scrub", run.run_id).out.startswith(f"{run.run_id}: hidden nothing")


def test_scrub_tells_what_is_left(broker: Console, runs: Path) -> None:
    """Where the text still stands, the exit code says so."""
    run = begun(runs)
    run.event("note", "orca", payload={"number": 123_456_789})
    run.seal(0)
    (run.folder / "fs").mkdir()
    said = broker("runs", "scrub", run.run_id, "--text-file", "-", stdin=b"123456789")
    assert said.code == 1
    assert "still there  events.jsonl" in said.out
    assert "--drop-snapshots" in said.out
    assert "snapshots" not in broker("runs", "scrub", run.run_id, "--drop-snapshots").out


def test_scrub_needs_a_name_and_a_run_at_rest(broker: Console, runs: Path) -> None:
    """The latest run is never changed unsaid, and none while it is recorded."""
    assert broker("runs", "scrub").code == 2
    run = begun(runs)
    assert "being recorded" in broker("runs", "scrub", run.run_id).err
    run.close()
    for content in (b"short", b"\xff" * 9):
        said = broker("runs", "scrub", run.run_id, "--text-file", "-", stdin=content)
        assert said.code == 2
    assert broker("runs", "scrub", run.run_id, "--text-file", "/none").code == 2


def test_gc(broker: Console, runs: Path) -> None:
    """What goes is what was asked for, and is told before and after."""
    old, new = whole(runs), whole(runs)
    path = old.folder / "manifest.json"
    path.write_text(path.read_text().replace("2027-01-15", "2020-01-15"))
    assert broker("runs", "gc").code == 2
    assert broker("runs", "gc", "--older", "soon").code == 2
    said = broker("runs", "gc", "--older", "365d", "--keep", "1", "--dry-run")
    assert (said.code, said.out) == (0, f"{old.run_id}  would go\n")
    assert old.folder.is_dir()
    told = broker("runs", "gc", "--older", "365d", "--keep", "1", "--json").json()
    assert told == {"dry_run": False, "removed": [old.run_id], "kept": [], "failed": []}
    assert [p.name for p in runs.iterdir()] == [new.run_id]
    assert broker("runs", "gc", "--keep", "1").out == "no run is that old\n"


def test_gc_leaves_a_run_that_is_recorded(broker: Console, runs: Path) -> None:
    """It is told, the others go, and the exit code says that not all went."""
    done, busy = whole(runs), begun(runs)
    said = broker("runs", "gc", "--keep", "0")
    assert said.code == 1
    assert f"{done.run_id}  removed" in said.out
    assert "being recorded" in said.err
    assert busy.folder.is_dir()
