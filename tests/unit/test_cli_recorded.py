"""Which run is meant, and its calls as they can still be told."""

from __future__ import annotations

import shutil

import pytest

from broker.cli.recorded import recorded
from broker.errors import Break, InputError
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


def test_a_file_is_no_run(bench: Bench) -> None:  # noqa: F811
    """A path is not taken for a name."""
    with pytest.raises(InputError), recorded("./x", bench.home):
        pass
