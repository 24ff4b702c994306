"""The runs of an installation, and which one a person means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.errors import InputError, TraceError
from broker.trace.runs import began_ns, every, find, names
from tests.unit.tracekit import SH, begun


def made(runs: Path, *ids: str) -> None:
    """Make runs of these names, one after another."""
    for each in ids:
        begun(runs, replace(SH, run_id=each)).seal(0)


def test_the_beginning_of_a_name_is_enough(tmp_path: Path) -> None:
    """With or without `run_`; where two begin so, both are named and none is taken."""
    made(tmp_path, "run_abc111", "run_abc222", "run_def333", "run_abc1112")
    assert find(tmp_path, "def").name == "run_def333"
    assert find(tmp_path, "run_def").name == "run_def333"
    assert find(tmp_path, "abc2") == tmp_path / "run_abc222"
    assert find(tmp_path, "abc111").name == "run_abc111"  # whole, though another begins so
    with pytest.raises(InputError, match=r"run_abc111.*run_abc1112"):
        find(tmp_path, "abc1")
    for wrong in ("x", "", "run_", "ABC"):
        with pytest.raises(InputError):
            find(tmp_path, wrong)


def test_a_path_means_its_folder(tmp_path: Path) -> None:
    """What has a slash in it is a place, wherever it lies."""
    made(tmp_path / "elsewhere", "run_abc111")
    place = tmp_path / "elsewhere" / "run_abc111"
    assert find(tmp_path / "runs", str(place)) == place
    with pytest.raises(InputError, match="no folder"):
        find(tmp_path / "runs", f"{place}/none")


def test_the_latest_is_the_one_that_began_last(tmp_path: Path) -> None:
    """Not the one that was changed last; where there is none, that is said."""
    with pytest.raises(InputError, match="no recorded run"):
        find(tmp_path)
    made(tmp_path, "run_aaaaaa", "run_bbbbbb")
    path = tmp_path / "run_aaaaaa" / "manifest.json"
    path.write_text(path.read_text().replace("2027-01-15T08", "2027-01-15T09"))
    assert find(tmp_path).name == "run_aaaaaa"
    assert [each.run_id for each in every(tmp_path)] == ["run_aaaaaa", "run_bbbbbb"]


def test_what_is_no_run_is_not_listed(tmp_path: Path) -> None:
    """Links, files and other folders are passed over; a broken run is listed with its reason."""
    made(tmp_path, "run_abc111")
    (tmp_path / "run_abc222").symlink_to("run_abc111")
    (tmp_path / "run_abc333").write_text("")
    (tmp_path / "notes").mkdir()
    (tmp_path / "run_abc444").mkdir()
    assert sorted(names(tmp_path)) == ["run_abc111", "run_abc444"]
    broken = {each.run_id: each.problem for each in every(tmp_path)}
    assert "manifest.json" in broken["run_abc444"]
    assert broken["run_abc111"] == ""
    assert all(began_ns(each) > 0 for each in every(tmp_path))
    with pytest.raises(TraceError):
        names(tmp_path / "run_abc333")
