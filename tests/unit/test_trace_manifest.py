"""What the manifest of a run is."""

from __future__ import annotations

from typing import Any

import orca_trace
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import TraceError
from broker.trace.manifest import manifest, newer_minor

GOOD: dict[str, Any] = {
    "schema_version": "0.2.0",
    "run_id": "run_abcdef",
    "created_at": "2027-01-15T08:00:00Z",
    "orca_version": "x",
    "adapter": {"id": "sh"},
    "argv": [],
    "cwd": "/",
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.sampled_from(["", "run_abcdef", "2027-01-15T08:00:00Z", "a" * 64]),
    st.lists(st.sampled_from(["a", 1]), max_size=2),
    st.dictionaries(
        st.sampled_from(
            ["events_sha256", "blob_count", "events", "policy_version", "head", "dirty"]
        ),
        st.sampled_from(["a" * 64, "x", 0, -1, True, None]),
        max_size=3,
    ),
)
MORE = ["ended_at", "git", "counts", "redaction", "parent_run", "fork_point", "fork_model"]
KEYS = st.sampled_from(
    [*list(GOOD)[1:], *MORE, "exit_code", "integrity", "env_allowlisted", "extra"]
)


@given(st.dictionaries(KEYS, VALUES, max_size=2), st.sets(st.sampled_from([*GOOD]), max_size=1))
def test_what_we_take_the_independent_reader_takes(changes: dict[str, Any], gone: set[str]) -> None:
    """We are never laxer than the format's own reader, and agree on what a manifest says."""
    raw = {k: v for k, v in {**GOOD, **changes}.items() if k not in gone}
    try:
        ours = manifest(raw)
    except TraceError:
        return
    theirs = orca_trace.Manifest.from_json(raw)
    assert (ours.run_id, ours.argv, ours.exit_code, ours.fork_point) == (
        theirs.run_id,
        theirs.argv,
        theirs.exit_code,
        theirs.fork_point,
    )
    assert ours.events_sha256 == (theirs.events_sha256 or "")


def test_a_whole_manifest() -> None:
    """All that a manifest may say is read."""
    raw = {
        **GOOD,
        "ended_at": "2027-01-15T08:00:01Z",
        "env_allowlisted": {"TERM": "x"},
        "git": {"head": "a", "branch": "b", "dirty": True},
        "platform": {"os": "linux", "arch": "x", "node": ""},
        "counts": {"events": 1, "blobs": 0},
        "redaction": {"policy_version": 1, "rules_fired": {"name": 2}},
        "parent_run": "run_123456",
        "fork_point": 3,
        "fork_model": "m",
        "exit_code": -9,
        "integrity": {"events_sha256": "a" * 64, "blob_count": 0},
    }
    found = manifest(raw)
    assert orca_trace.Manifest.from_json(raw).exit_code == found.exit_code == -9
    assert (found.parent_run, found.fork_point, found.fork_model) == ("run_123456", 3, "m")
    assert found.document == raw


@pytest.mark.parametrize(
    ("version", "newer"),
    [("0.0.1", False), ("0.1.0", False), ("0.2.0", False), ("0.2.99", False), ("0.10.0", True)],
)
def test_versions_that_are_read(version: str, newer: bool) -> None:
    """Older minors are read, newer ones too with what is new left out."""
    assert newer_minor(version) is newer


@pytest.mark.parametrize("version", ["1.0.0", "2.2.0", "0.2", "0.2.0-rc1", "v0.2.0", "", "0.02.0"])
def test_versions_that_are_not(version: str) -> None:
    """Another major version is refused by name, and what is no version as that."""
    with pytest.raises(TraceError, match=r"format|three numbers"):
        newer_minor(version)
