"""
The one who reads a run, and says what is wrong with it.

Decided here: what of a damaged or hostile run is read, and how its faults are named. Not decided
here: what is well-formed (``broker.trace.format``).

Two faults are no reason to give a run up: a last line that was cut off when the recorder died, and
a type that a newer version writes. Every other bad line is left out too, and all of them are told:
a reader that leaves things out silently makes holes that nobody sees.

Rules a maintainer keeps: a file of any size is read in constant memory, line by line; nothing that
stands in it makes this fail in another way than ``TraceError``; only regular files are opened.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from broker.errors import TraceError
from broker.limits import (
    MAX_MANIFEST_BYTES,
    MAX_SAFE_INT,
    MAX_TRACE_EVENTS,
    MAX_TRACE_LINE_BYTES,
    MAX_TRACE_PROBLEMS,
)
from broker.trace.blobs import read_blob
from broker.trace.format import EVENT_TYPES, EVENTS, MANIFEST, BlobRef, Event, event
from broker.trace.manifest import Manifest
from broker.trace.manifest import manifest as read_manifest
from broker.trace.safefiles import NOT_THERE, open_inside, read_inside

Integrity = Literal["ok", "mismatch", "unsealed"]
# Other writers may put more into a line than ours does.
_LINE_BYTES: Final = 16 * MAX_TRACE_LINE_BYTES
_CHUNK: Final = 2**20


class RunReader:
    """
    Reads one run. Every pass reads the file anew, so that a run can be read while it is written.

    Attributes:
        folder: the run's folder.
        manifest: what the run was; checked when it was opened.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Read a run of which the manifest was read; ``open`` is the door."""
        self.folder = folder
        self.manifest = manifest
        self._pass: _Pass | None = None
        self._requests: dict[int, Event] | None = None

    @classmethod
    def open(cls, folder: Path) -> RunReader:
        """
        Open the run in a folder.

        Raises:
            TraceError: there is no run, its manifest is malformed, or it is of another major
                version of the format (``trace.version``).
        """
        content = read_inside(folder, MANIFEST, limit=MAX_MANIFEST_BYTES)
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            raise TraceError(
                f"`{MANIFEST}` in `{folder}` is not JSON", code="trace.format"
            ) from None
        try:
            return cls(folder, read_manifest(document))
        except TraceError as error:
            raise TraceError(
                f"{MANIFEST} in `{folder}`: {error.message}", code=error.code
            ) from None

    def events(self) -> list[Event]:
        """
        Return all events in their order. For a large run, see ``stream``.

        Raises:
            TraceError: it has more than ``MAX_TRACE_EVENTS`` of them.
        """
        found: list[Event] = []
        for each in self.stream():
            if len(found) == MAX_TRACE_EVENTS:
                raise TraceError(
                    f"`{self.manifest.run_id}` has more than {MAX_TRACE_EVENTS} events",
                    code="trace.limit",
                )
            found.append(each)
        return found

    def stream(self) -> Iterator[Event]:
        """
        Yield all events in their order, one at a time.

        A pass begins the list of problems anew; ``problems`` tells those of the latest.

        Raises:
            TraceError: the file of events is a link or no regular file, or cannot be read.
        """
        self._pass = _Pass(newer=self.manifest.newer)
        return self._pass.over(self.folder)

    def problems(self) -> list[str]:
        """Return what the last pass could not use or could not vouch for, line by line."""
        if self._pass is None:
            for _ in self.stream():
                pass
        assert self._pass is not None  # noqa: S101  one has been made
        return self._pass.told()

    def integrity(self) -> Integrity:
        """
        Say whether the events are what the manifest was sealed with.

        Whoever can write the run can seal it anew: this finds accidents. The receipt finds more.

        Raises:
            TraceError: the file of events cannot be read.
        """
        expected = self.manifest.events_sha256
        if not expected:
            return "unsealed"
        digest = hashlib.sha256()
        try:
            with os.fdopen(open_inside(self.folder, EVENTS), "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except TraceError as error:
            if error.code != NOT_THERE:
                raise
            return "mismatch"
        except OSError as error:
            raise TraceError(f"`{EVENTS}` cannot be read: {error.strerror}") from None
        return "ok" if digest.hexdigest() == expected else "mismatch"

    def blob(self, ref: BlobRef, *, verify: bool = True) -> bytes:
        """
        Return a blob's content.

        Raises:
            TraceError: it is not there, does not hash to its name, or is no regular file.
        """
        return read_blob(self.folder, ref, verify=verify)

    def payload(self, found: Event) -> object:
        """
        Return an event's payload: its value, read back from a blob if it lies in one.

        A blob that is not JSON, by its media type or by its content, comes as bytes. A request
        that only says what is new in it comes as it stands: see ``broker.trace.bodies.rebuilt``.

        Raises:
            TraceError: its blob cannot be read.
        """
        ref = found.payload
        if not isinstance(ref, BlobRef):
            return ref
        content = self.blob(ref)
        if ref.media_type and "json" not in ref.media_type.lower():
            return content
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content

    def requests(self) -> dict[int, Event]:
        """Return the requests to models by their numbers; read once and kept."""
        if self._requests is None:
            events = _Pass(newer=self.manifest.newer).over(self.folder)
            self._requests = {e.seq: e for e in events if e.type == "model.request"}
        return self._requests


class _Pass:
    """One pass over the events of a run, and what was wrong with them."""

    def __init__(self, *, newer: bool) -> None:
        self._newer = newer
        self._problems: list[str] = []
        self._more = 0
        self._expected: int | None = 0  # the next line's number; None where nobody can know it

    def told(self) -> list[str]:
        """Return the problems, and how many more there are."""
        more = [f"and {self._more} more problems"] if self._more else []
        return [*self._problems, *more]

    def over(self, folder: Path) -> Iterator[Event]:
        """Yield the events of the run in ``folder``."""
        try:
            fd = open_inside(folder, EVENTS)
        except TraceError as error:
            if error.code != NOT_THERE:
                raise
            self._tell(f"{EVENTS}: there is none")
            return
        # One line is held back: only the last may have been cut off.
        held: tuple[int, bytes | None] | None = None
        for number, line in enumerate(lines_of(fd), 1):
            if line is not None and not line.strip():
                continue
            if held is not None and (found := self._read(*held, last=False)) is not None:
                yield found
            held = (number, line)
        if held is not None and (found := self._read(*held, last=True)) is not None:
            yield found

    def _tell(self, problem: str) -> None:
        if len(self._problems) < MAX_TRACE_PROBLEMS:
            self._problems.append(problem)
        else:
            self._more += 1

    def _read(self, number: int, line: bytes | None, *, last: bool) -> Event | None:
        """Return the event of a line, or tell what is wrong with it."""
        if line is None:
            self._lose(number, f"longer than {_LINE_BYTES} bytes")
            return None
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except RecursionError:
            self._lose(number, "nested too deeply")
            return None
        except ValueError:
            self._lose(number, "truncated final line" if last else "malformed JSON")
            return None
        if not isinstance(value, dict):
            self._lose(number, "not a JSON object")
            return None
        self._check_order(number, value.get("seq"))
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in EVENT_TYPES:
            said = repr(kind)[:80]
            self._tell(f"line {number}: unknown event type {said}: passed over")
            return None
        try:
            found = event(value, newer=self._newer)
        except TraceError as error:
            self._tell(f"line {number}: {error.message}")
            return None
        later = [cause for cause in found.causes if cause >= found.seq]
        if later:
            self._tell(f"line {number}: causes {later[:8]} do not come before seq {found.seq}")
        return found

    def _lose(self, number: int, why: str) -> None:
        """Tell of a line whose number in the run nobody can know."""
        self._tell(f"line {number}: {why}")
        self._expected = None

    def _check_order(self, number: int, seq: object) -> None:
        """Numbers are dense from 0 (§2.1): a hole is an event that was lost."""
        if isinstance(seq, bool) or not isinstance(seq, int) or abs(seq) > MAX_SAFE_INT:
            return  # told as what it is
        if self._expected is not None and seq != self._expected:
            self._tell(f"line {number}: seq {seq} stands where {self._expected} was expected")
        self._expected = seq + 1


def lines_of(fd: int) -> Iterator[bytes | None]:
    """
    Yield the lines of an open file, and None in the place of each that is too long; close it.

    Raises:
        TraceError: it cannot be read.
    """
    try:
        with os.fdopen(fd, "rb") as file:
            while line := file.readline(_LINE_BYTES + 1):
                if len(line) <= _LINE_BYTES:
                    yield line
                    continue
                while line and not line.endswith(b"\n"):
                    line = file.readline(_LINE_BYTES)
                yield None
    except OSError as error:
        raise TraceError(f"`{EVENTS}` cannot be read: {error.strerror}") from None
