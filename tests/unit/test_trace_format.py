"""What an event and a blob reference are."""

from __future__ import annotations

import json
from typing import Any

import orca_trace
import pytest
from hypothesis import given
from hypothesis import strategies as st
from orca_trace import models

from broker.errors import TraceError
from broker.trace import format as room
from broker.trace.format import BlobRef, blob_ref, digest_of, event

GOOD: dict[str, Any] = {
    "seq": 0,
    "ts": "2027-01-15T08:00:00Z",
    "mono_us": 0,
    "turn": 0,
    "type": "note",
    "actor": "orca",
}
DIGEST = "sha256:" + "a" * 64


def test_the_closed_sets_are_the_format_s() -> None:
    """Types, actors and limits are those of the independent reader."""
    assert room.EVENT_TYPES == models.EVENT_TYPES
    assert room.ACTORS == models.ACTORS
    assert room.SCHEMA_VERSION == models.SCHEMA_VERSION
    assert room.INLINE_BYTES == models.INLINE_PAYLOAD_LIMIT


def both(raw: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether we take a value for an event, and whether the independent reader does."""
    try:
        ours = event(raw)
    except TraceError:
        ours = None
    try:
        theirs = orca_trace.TraceEvent.from_json(raw)
    except orca_trace.TraceFormatError:
        theirs = None
    if ours is not None and theirs is not None:
        assert (ours.seq, ours.turn, ours.causes, ours.redacted) == (
            theirs.seq,
            theirs.turn,
            theirs.causes,
            theirs.redacted,
        )
        assert dict(ours.attrs) == theirs.attrs
        if isinstance(ours.payload, BlobRef):
            assert "sha256:" + ours.payload.digest == theirs.payload.digest
        else:
            assert ours.payload == theirs.payload
    return ours is not None, theirs is not None


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.just(1.0),
    st.sampled_from(["", "note", "orca", "2027-01-15T08:00:00Z", DIGEST, "robot"]),
    st.lists(st.integers(-1, 3) | st.just("a"), max_size=2),
    st.dictionaries(
        st.sampled_from(["$blob", "bytes", "media_type", "a"]),
        st.sampled_from([DIGEST, "x", 0, -1, True, None]),
        max_size=3,
    ),
)
KEYS = st.sampled_from([*GOOD, "causes", "attrs", "payload", "redacted", "extra"])


@given(st.dictionaries(KEYS, VALUES, max_size=3), st.sets(st.sampled_from([*GOOD]), max_size=1))
def test_we_take_what_the_independent_reader_takes(changes: dict[str, Any], gone: set[str]) -> None:
    """Whatever is changed, added or left out, both readers agree whether it is an event."""
    raw = {k: v for k, v in {**GOOD, **changes}.items() if k not in gone}
    if raw.get("payload", 0) is not None and isinstance(raw.get("payload"), dict):
        media = raw["payload"].get("media_type", "")
        if media is None:
            return  # the one difference: a kind that is null is none there, and a fault here
    ours, theirs = both(raw)
    assert ours == theirs, json.dumps(raw)


def test_a_newer_event_may_have_more_keys() -> None:
    """Only where the run is of a newer version."""
    raw = {**GOOD, "mood": "good"}
    assert event(raw, newer=True).seq == 0
    with pytest.raises(TraceError, match="`mood`"):
        event(raw)


@pytest.mark.parametrize(
    "raw",
    ["a" * 64, "sha256:" + "A" * 64, "sha256:" + "a" * 63, DIGEST + "\n", "sha256:../x", 1, None],
)
def test_nothing_but_a_digest_is_a_digest(raw: object) -> None:
    """What becomes the name of a file is 64 hex digits and nothing else."""
    with pytest.raises(TraceError):
        digest_of(raw)
    with pytest.raises(TraceError):
        blob_ref({"$blob": raw, "bytes": 0})


def test_a_reference_is_written_as_it_is_read() -> None:
    """A reference comes back from what it is written as."""
    for ref in (BlobRef("a" * 64, 3, "text/plain"), BlobRef("b" * 64, 0)):
        assert blob_ref(json.loads(json.dumps(ref.document()))) == ref
