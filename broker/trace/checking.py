"""
Whether a run is whole in itself: its seal, its lines, its blobs, its requests.

Decided here: which faults are breaks, and which only say that the run cannot be judged. Not decided
here: whether what it tells is true: for that it is held against a receipt (``broker.trace.join``).

Rule a maintainer keeps: whoever can write a run can seal it anew, so a run that is whole is not
thereby believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.errors import TraceError
from broker.trace.bodies import all_rebuilt
from broker.trace.format import BlobRef, Event
from broker.trace.reader import Integrity, RunReader

_PASSED_OVER = "unknown event type"  # what a newer version writes is no fault of a run


@dataclass(frozen=True, slots=True)
class Checked:
    """
    What was found in one run.

    Attributes:
        integrity: whether the events hash to what the manifest says.
        events: how many there are.
        blobs: how many references to blobs were followed.
        ended: the recorder saw the end of the run.
        faults: what is broken, each with its place.
        notes: what was passed over.
    """

    integrity: Integrity
    events: int
    blobs: int
    ended: bool
    faults: tuple[str, ...]
    notes: tuple[str, ...]


def check(reader: RunReader) -> tuple[Checked, list[Event]]:
    """
    Return what is found in a run, and its events.

    Raises:
        TraceError: it cannot be read, or has more events than are held in memory.
    """
    events = reader.events()
    problems = reader.problems()
    integrity = reader.integrity()
    faults: list[str] = []
    if integrity == "mismatch":
        faults.append("the events are not those that the run was sealed with")
    faults += [each for each in problems if _PASSED_OVER not in each]
    blobs = [each for each in events if isinstance(each.payload, BlobRef)]
    faults += _blobs(reader, blobs)
    faults += (
        f"event {seq}: {body.message}"
        for seq, body in all_rebuilt(reader)
        if isinstance(body, TraceError) and not body.code.startswith("trace.blob")
    )
    notes = [each for each in problems if _PASSED_OVER in each]
    if reader.manifest.newer:
        notes.append(f"written in the newer format {reader.manifest.schema_version}")
    ended = any(each.type == "run.end" for each in events)
    return Checked(integrity, len(events), len(blobs), ended, tuple(faults), tuple(notes)), events


def _blobs(reader: RunReader, events: list[Event]) -> Iterator[str]:
    for each in events:
        ref = each.payload
        assert isinstance(ref, BlobRef)  # noqa: S101  chosen so
        try:
            size = len(reader.blob(ref))
        except TraceError as error:
            yield f"event {each.seq}: {error.message}"
            continue
        if size != ref.size_bytes:
            yield f"event {each.seq}: its blob has {size} bytes and not {ref.size_bytes}"
