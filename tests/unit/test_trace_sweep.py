"""Which runs may go, and taking them away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError, TraceError
from broker.trace import sweep
from broker.trace.about import Parent
from broker.trace.manifest import Manifest
from broker.trace.runs import ListedRun, every
from tests.unit.tracekit import SH, begun, whole


def listed(name: str, day: int, parent: str = "") -> ListedRun:
    """Return a run that began on a day of January 2027."""
    at = f"2027-01-{day:02}T00:00:00Z"
    manifest = Manifest(
        "0.2.0", f"run_{name}", at, "x", {"id": "sh"}, (), "/", {}, parent_run=parent
    )
    return ListedRun(Path(f"/runs/run_{name}"), 0, manifest)


def names(runs: list[ListedRun]) -> list[str]:
    """Return the names of runs without what they all begin with."""
    return [each.run_id.removeprefix("run_") for each in runs]


RUNS = [listed("aaaaaa", 1), listed("bbbbbb", 2), listed("cccccc", 3), listed("dddddd", 4)]


def test_age_and_number_both_keep() -> None:
    """A run goes only if it is old and none of the latest."""
    assert names(sweep.choose(RUNS, before_ns=None, keep=0)[0]) == [
        "aaaaaa", "bbbbbb", "cccccc", "dddddd",
    ]  # fmt: skip
    assert names(sweep.choose(RUNS, before_ns=None, keep=3)[0]) == ["aaaaaa"]
    by_age = names(sweep.choose(RUNS, before_ns=_ns("2027-01-03T12:00:00Z"), keep=0)[0])
    assert by_age == ["aaaaaa", "bbbbbb", "cccccc"]
    both = names(sweep.choose(RUNS, before_ns=_ns("2027-01-03T12:00:00Z"), keep=3)[0])
    assert both == ["aaaaaa"]


def _ns(text: str) -> int:
    from broker.instants import parse_instant

    return parse_instant(text)


def test_what_a_fork_needs_stays() -> None:
    """The parents of a run that stays stay, all the way up; those of one that goes do not."""
    runs = [
        listed("aaaaaa", 1),
        listed("bbbbbb", 2, "run_aaaaaa"),
        listed("cccccc", 3, "run_bbbbbb"),
        listed("dddddd", 1),
        listed("eeeeee", 2, "run_dddddd"),
    ]
    going, kept = sweep.choose(runs, before_ns=None, keep=1)
    assert names(going) == ["dddddd", "eeeeee"]
    assert [each.run_id for each in kept] == ["run_aaaaaa", "run_bbbbbb"]
    assert "run_cccccc" in kept[1].why


@given(
    st.lists(st.tuples(st.integers(1, 28), st.integers(0, 7)), max_size=8),
    st.integers(0, 9),
    st.integers(1, 28),
)
def test_no_run_that_stays_misses_its_parent(
    days: list[tuple[int, int]], keep: int, before: int
) -> None:
    """Whatever was forked from what, in circles too: the latest stay, and so do their parents."""
    ids = [f"{n:06x}" for n in range(len(days))]
    runs = [
        listed(ids[n], day, f"run_{ids[parent]}" if parent < len(ids) else "")
        for n, (day, parent) in enumerate(days)
    ]
    going, _ = sweep.choose(runs, before_ns=_ns(f"2027-01-{before:02}T00:00:00Z"), keep=keep)
    gone = {each.run_id for each in going}
    assert len(runs) - len(gone) >= min(keep, len(runs))
    for each in runs:
        assert each.manifest is not None
        if each.run_id not in gone:
            assert each.manifest.parent_run not in gone
    assert all(e.manifest is not None and int(e.manifest.created_at[8:10]) < before for e in going)


def test_a_run_goes_whole(tmp_path: Path) -> None:
    """The run is gone, its session's receipt and the others are not."""
    session = tmp_path / "sessions" / "k3v"
    session.mkdir(parents=True)
    (session / "receipt.jsonl").write_text("x")
    run = begun(tmp_path / "runs", replace(SH, session=session, parent=Parent("run_abcdef")))
    run.seal(0)
    other = whole(tmp_path / "runs")
    sweep.remove(run.folder)
    assert [each.run_id for each in every(tmp_path / "runs")] == [other.run_id]
    assert (session / "receipt.jsonl").read_text() == "x"
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [other.run_id]


def test_a_run_that_is_written_stays(tmp_path: Path) -> None:
    """A run whose recorder lives is not removed."""
    run = begun(tmp_path)
    with pytest.raises(InputError):
        sweep.remove(run.folder)
    assert run.folder.is_dir()


def test_odd_runs_go_too(tmp_path: Path) -> None:
    """A run without events is removed; a file where a run should be is an error, not a crash."""
    run = whole(tmp_path)
    (run.folder / "events.jsonl").unlink()
    sweep.remove(run.folder)
    assert not run.folder.exists()
    with pytest.raises(TraceError):
        sweep.remove(tmp_path / "run_ffffff")


def test_what_a_killed_sweep_left_is_cleared(tmp_path: Path) -> None:
    """Only what a sweep had taken out of the list is removed; a link of that name is not."""
    left = tmp_path / ".run_abcdef.gone"
    left.mkdir()
    (left / "events.jsonl").write_text("x")
    (tmp_path / ".run_abcdef.other").mkdir()
    (tmp_path / ".run_ffffff.gone").symlink_to(tmp_path)
    assert sweep.clear(tmp_path) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".run_abcdef.other", ".run_ffffff.gone"]
    assert sweep.clear(tmp_path / "none") == 0
