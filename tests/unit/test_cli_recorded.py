"""Which run is meant, and its calls as they can still be told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.capabilities.clock import FakeClock
from broker.capture.treestore import TreeEntry, TreeStore, git_program
from broker.cli.recorded import played, recorded
from broker.errors import Break, InputError
from broker.trace.about import About, StartedBy
from broker.trace.reader import RunReader
from broker.trace.writer import RunWriter
from tests.sessionkit import Bench, bench  # noqa: F401 - a fixture


def _session(bench: Bench, **more: object) -> str:  # noqa: F811
    session = bench.open(["tools=Read,Edit", "paths=src/**"], intent="tidy", **more)
    session.decide("Read", {"file_path": "src/a.py"}, call_id="r")
    session.decide("Edit", {"file_path": "docs/a.md"}, call_id="e")
    session.seal()
    return session.sid


def test_the_latest_session_is_meant(bench: Bench) -> None:  # noqa: F811
    """Without a name the calls of the latest session are read, without those that were refused."""
    sid = _session(bench)
    with recorded(None, bench.home) as found:
        assert (found.run.name, found.run.line) == (sid, "tidy")
        assert [(c.name, c.how) for c in found.calls] == [("Read", "receipt")]
    with recorded(sid[:6], bench.home, attempted=True) as found:
        assert [c.name for c in found.calls] == ["Read", "Edit"]


def test_a_workspace_that_is_gone_does_not_matter(bench: Bench) -> None:  # noqa: F811
    """The calls of a run are told after its workspace was removed."""
    sid = _session(bench)
    shutil.rmtree(bench.workspace)
    with recorded(sid, bench.home) as found:
        assert found.calls[0].call.paths[0].places == ("src/a.py/",)


def test_concealed_values_are_taken_where_they_are_held(bench: Bench) -> None:  # noqa: F811
    """What a receipt only commits to is read from beside it, and said to be unknown without it."""
    sid = _session(bench, conceal=["arguments"])
    with recorded(sid, bench.home) as found:
        assert found.calls[0].unknown == ""
    (bench.home.sessions / sid / "disclosures").unlink()
    with recorded(sid, bench.home) as found:
        assert found.calls[0].unknown


def test_a_receipt_that_was_changed_tells_nothing(bench: Bench) -> None:  # noqa: F811
    """Nothing is read from a receipt that does not verify."""
    sid = _session(bench)
    path = bench.home.sessions / sid / "receipt.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"Read"', b'"Grep"'))
    with pytest.raises(Break), recorded(sid, bench.home):
        pass


@pytest.mark.parametrize("name", ["./x", "x.jsonl", "run_0123456789ab"])
def test_what_is_not_there_is_no_run(name: str, bench: Bench) -> None:  # noqa: F811
    """A folder that is not there, a file and an unknown name are bad input."""
    with pytest.raises(InputError), recorded(name, bench.home):
        pass


def _recording(
    root: Path, workspace: Path, calls: list[tuple[str, str, object]], **about: Any
) -> RunReader:
    """Return a recording of calls: their ids, tools and arguments."""
    known = About(StartedBy("claude"), ["sh", "-c", "exit 0"], str(workspace), **about)
    run = RunWriter.create(root, known, clock=FakeClock(), randomness=os.urandom)
    run.event("run.start", "orca", attrs={"sid": about.get("sid", "")})
    store = TreeStore(run.folder / "fs", str(git_program()))
    files = [(b"src/a.py", "100644", b"a = 1\n"), (b"link", "120000", b"src")]
    entries = [TreeEntry(path, mode, store.blob(content)) for path, mode, content in files]
    run.event("fs.snapshot", "orca", attrs={"tree": store.tree(entries, 0, "turn 0")})
    store.close()
    for call_id, name, arguments in calls:
        attrs = {"name": name, "call": call_id, "conversation": "main"}
        run.event("tool.call", "model", attrs=attrs, payload=arguments)
    run.seal(0)
    return RunReader.open(run.folder)


def test_a_recording_gives_a_session_its_arguments(bench: Bench) -> None:  # noqa: F811
    """Decisions come from the receipt, arguments from the recording that is linked to it."""
    sid = _session(bench)
    told = [("r", "Read", {"file_path": "src/a.py"}), ("e", "Edit", {"file_path": "other"})]
    folder = bench.home.sessions / sid
    _recording(bench.home.runs, bench.workspace, told, session=folder, sid=sid)
    with recorded(sid, bench.home, attempted=True) as found:
        read, edit = found.calls
        assert (read.how, read.seen.arguments) == ("snapshot", {"file_path": "src/a.py"})
        assert (edit.how, edit.seen.arguments) == ("receipt", None)  # not what was decided


def test_a_recording_alone_is_a_run(bench: Bench, tmp_path: Path) -> None:  # noqa: F811
    """Without a session every call that a model asked for is one, over the files as they were."""
    gone = tmp_path / "gone"
    call = ("c", "Read", {"file_path": f"{gone}/link/a.py"})
    reader = _recording(bench.home.runs, gone, [call, ("d", "Read", "no object")])
    with recorded(reader.manifest.run_id, bench.home) as found:
        assert (found.run.agent, found.run.workspace) == ("claude", str(gone))
        first, second = found.calls
        assert first.call.paths[0].places == ("src/a.py/",)
        assert (first.how, second.how) == ("snapshot", "receipt")
    with recorded(str(reader.folder), bench.home) as found:
        assert len(found.calls) == 2


def test_only_ones_own_runs_are_played(bench: Bench, tmp_path: Path) -> None:  # noqa: F811
    """A recording from elsewhere does not choose what is started here."""
    foreign = _recording(tmp_path / "elsewhere", bench.workspace, [])
    with pytest.raises(InputError, match="no run of this installation"):
        played(str(foreign.folder), bench.home)
    own = _recording(bench.home.runs, bench.workspace, [])
    again = played(own.manifest.run_id, bench.home)
    assert (again.session, again.reader.manifest.run_id) == (None, own.manifest.run_id)
    assert again.restore is not None
    again.restore(tmp_path / "laid")
    assert (tmp_path / "laid/src/a.py").read_text(encoding="utf-8") == "a = 1\n"
