"""Whether a run is whole in itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.trace.checking import check
from broker.trace.reader import RunReader
from tests.unit.tracekit import begun, whole


def test_a_whole_run(tmp_path: Path) -> None:
    """What we write has no fault."""
    found, events = check(RunReader.open(whole(tmp_path).folder))
    assert (found.integrity, found.faults, found.notes, found.ended) == ("ok", (), (), True)
    assert (found.events, found.blobs) == (len(events), 1) == (9, 1)


BREAKS = [
    ("01-tampered-unsealed", "not those"),
    ("05-malformed-middle-line", "line 6"),
    ("07-seq-gap", "line 9"),
    ("08-malformed-blob-ref", "line 6"),
    ("09-forward-cause", "line 4"),
    ("10-extra-property", "line 7"),
    ("13-blob-missing", "event 5"),
    ("14-blob-corrupt", "event 5"),
]


@pytest.mark.parametrize(("name", "word"), BREAKS)
def test_a_damaged_run(name: str, word: str, shared: Path) -> None:
    """Each kind of damage is a fault that names its place."""
    found, _ = check(RunReader.open(shared / "traces/orca-mutations" / name))
    assert any(word in fault for fault in found.faults)


def test_what_a_newer_version_writes_is_no_fault(shared: Path) -> None:
    """An unknown type is noted and is no break."""
    found, _ = check(RunReader.open(shared / "traces/orca-mutations/06-unknown-type"))
    assert (found.faults, len(found.notes)) == ((), 1)


def test_a_reference_that_lies_about_its_size(tmp_path: Path) -> None:
    """A blob has as many bytes as its reference says."""
    folder = whole(tmp_path).folder
    path = folder / "events.jsonl"
    path.write_text(path.read_text().replace('"bytes":9000', '"bytes":9001'))
    found, _ = check(RunReader.open(folder))
    assert "event 5: its blob has 9000 bytes and not 9001" in found.faults


def test_a_request_that_cannot_be_rebuilt(tmp_path: Path) -> None:
    """A change that leads nowhere is a fault of its event."""
    run = begun(tmp_path)
    run.event("model.request", "agent", attrs={"delta": True}, payload={"base": 5, "change": {}})
    run.seal(0)
    found, _ = check(RunReader.open(run.folder))
    assert len(found.faults) == 1
    assert found.faults[0].startswith("event 0: ")
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["counts"]["events"] == 1
