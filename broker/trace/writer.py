"""
The one who writes a run: its folder, one line for each event, and the seal at its end.

Decided here: the order of writing, and what happens when it fails. Not decided here: which events
there are (who captures knows), what is hidden (``broker.trace.hiding``).

A trace is no proof and releases nothing, so it is not synced line by line: what was written
survives the death of the process, and only the seal waits for the disk. When a write fails, what
was begun is cut off again, recording stops and says why, and the run goes on; the receipt is what
must not fail.

Rules a maintainer keeps: a line is one call of the system, and what it refers to was written
before it; numbers are given and lines are written under one lock; secrets are hidden before that.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.capabilities.clock import Clock
from broker.errors import InputError, TraceError
from broker.limits import MAX_TRACE_LINE_BYTES
from broker.receipt.disk import CREATE, DISK, Disk, make_private_folder
from broker.receipt.disk import lock as disk_lock
from broker.redaction.hiding import Hider
from broker.trace.about import About, manifest_document
from broker.trace.blobs import BlobStore
from broker.trace.format import (
    ACTORS,
    BLOBS,
    EVENT_TYPES,
    EVENTS,
    MANIFEST,
    RECEIPT,
    REDACTIONS,
    RUN_ID,
)
from broker.trace.hiding import ABSENT, JSON, Hidden, Hiding, spelled
from broker.trace.stamps import Stamps

POLICY_VERSION: Final = 1  # of what is hidden, and how; a manifest names it
_SALT_BYTES: Final = 16
_NAME_BYTES: Final = 6
_TRIES: Final = 8
_MAX_NAMED: Final = 10_000  # events whose hidden places `redactions.json` names
_NOTHING: Final[Mapping[str, object]] = {}


class RunWriter:
    """
    Writes one run. Safe among threads.

    Attributes:
        run_id: the run's name, and its folder's.
        folder: the run's folder.
        hiding: what hides its secrets.
        broken: why nothing more is written, or the empty text.

    >>> import tempfile
    >>> from broker.capabilities.clock import FakeClock
    >>> from broker.trace.about import StartedBy
    >>> with tempfile.TemporaryDirectory() as place:
    ...     about = About(StartedBy("sh"), ["sh"], "/w")
    ...     run = RunWriter.create(Path(place), about, clock=FakeClock(), randomness=bytes)
    ...     first = run.event("run.start", "orca", attrs={"adapter": "sh"})
    ...     last = run.event("run.end", "orca", attrs={"exit_code": 0}, causes=[first])
    ...     run.seal(0)
    ...     sorted(each.name for each in run.folder.iterdir()), (run.run_id, first, last)
    (['blobs', 'events.jsonl', 'manifest.json', 'redactions.json'], ('run_000000000000', 0, 1))
    """

    def __init__(
        self, folder: Path, document: dict[str, object], salt: bytes, clock: Clock, disk: Disk
    ) -> None:
        """Begin to write in a folder that is there; ``create`` is the door."""
        self.folder = folder
        self.run_id = folder.name
        self.broken = ""
        self._document = document
        self.hiding = Hiding(salt)
        self._stamps = Stamps(clock)
        self._disk = disk
        self._lock = threading.RLock()
        self._blobs = BlobStore(folder)
        self._turn = 0
        self._seq = 0
        self._size = 0
        self._sealed = False
        self._digest = hashlib.sha256()
        self._counts: Counter[str] = Counter()
        self._hidden_at: list[tuple[int, tuple[str, ...]]] = []
        self._fd = os.open(folder / EVENTS, os.O_WRONLY | os.O_APPEND | CREATE, 0o600)
        disk_lock(self._fd)  # whoever would change the run sees that it is being written

    @classmethod
    def create(
        cls,
        runs: Path,
        about: About,
        *,
        clock: Clock,
        randomness: Callable[[int], bytes],
        disk: Disk = DISK,
    ) -> RunWriter:
        """
        Make the folder of a run, and begin to write it.

        Args:
            runs: the folder of all runs; it is made if it is not there.
            about: what is known of the run.
            clock: what tells the time.
            randomness: so many random bytes; for the run's name and for the salt of what is hidden.
            disk: the calls that may fail.

        Raises:
            InputError: the name that was asked for is no run's name.
            TraceError: there is a run of that name, or the folder cannot be made.
        """
        from importlib.metadata import version  # noqa: PLC0415  slow to load

        salt = randomness(_SALT_BYTES)
        try:
            make_private_folder(runs)
            folder = _fresh_folder(runs, about.run_id, randomness)
            (folder / BLOBS).mkdir(mode=0o700)
            if about.session is not None:
                (folder / RECEIPT).symlink_to(about.session)
            hider = Hider(salt)
            document = manifest_document(
                about, folder.name, Stamps(clock).wall(), version("capability-broker"), hider
            )
            run = cls(folder, document, salt, clock, disk)
            run._counts.update(hider.counts)
            run._put_manifest()
        except OSError as error:
            raise TraceError(f"no run can be recorded in `{runs}`: {error.strerror}") from None
        return run

    @property
    def turn(self) -> int:
        """The current turn; 0 before the first request to a model."""
        return self._turn

    def new_turn(self) -> int:
        """Begin the next turn, and return its number."""
        with self._lock:
            self._turn += 1
            return self._turn

    def event(
        self,
        type: str,
        actor: str,
        *,
        turn: int | None = None,
        causes: Sequence[int] = (),
        attrs: Mapping[str, object] = _NOTHING,
        payload: object = ABSENT,
        media_type: str = JSON,
    ) -> int:
        """
        Write an event, and return its number; -1 once recording has stopped.

        Args:
            type: one of the format's types.
            actor: one of its actors.
            turn: the turn; None for the current one.
            causes: the numbers of what led to it. Those that are no earlier event are left out.
            attrs: what it is, in short: JSON values.
            payload: its content: a JSON value, or a text or bytes of another media type. Above
                4,096 bytes it becomes a blob.
            media_type: of the payload.

        Raises:
            InputError: a type or an actor that the format does not have, or a value that JSON does
                not have.
            TraceError: it cannot be written. Raised once; then ``broken`` says why.
        """
        if type not in EVENT_TYPES or actor not in ACTORS:
            raise InputError(f"`{type}` by `{actor}` is no event of the format")
        hidden, counts = self.hiding.event(attrs, payload, media_type)
        return self.write(type, actor, hidden, counts, turn=turn, causes=causes)

    def write(
        self,
        type: str,
        actor: str,
        hidden: Hidden,
        counts: Counter[str],
        *,
        turn: int | None = None,
        causes: Sequence[int] = (),
    ) -> int:
        """
        Write an event of which the secrets are hidden already; see ``event``.

        Raises:
            TraceError: it cannot be written. Raised once; then ``broken`` says why.
        """
        with self._lock:
            if self.broken or self._sealed:
                return -1
            try:
                payload = hidden.inline
                if hidden.blob is not None:
                    payload = self._blobs.put(hidden.blob, hidden.media_type).document()
                event = self._envelope(type, actor, self._turn if turn is None else turn)
                self._append(_line(event, hidden, payload, causes))
            except OSError as error:
                self.broken = error.strerror or str(error)
                raise TraceError(f"recording stops: {self.broken}", code="trace.full") from None
            seq = self._seq
            self._seq += 1
            if hidden.paths:
                self._counts.update(counts)
                if len(self._hidden_at) < _MAX_NAMED:
                    self._hidden_at.append((seq, hidden.paths))
            return seq

    def blob(self, content: bytes, media_type: str) -> dict[str, object]:
        """
        Keep a content that holds no secret any more, and return the reference to it.

        Raises:
            TraceError: it cannot be written, or recording has stopped.
        """
        with self._lock:
            if self.broken or self._sealed:
                raise TraceError(f"recording has stopped: {self.broken or 'the run is sealed'}")
            try:
                return self._blobs.put(content, media_type).document()
            except OSError as error:
                self.broken = error.strerror or str(error)
                raise TraceError(f"recording stops: {self.broken}", code="trace.full") from None

    def seal(self, exit_code: int | None) -> None:
        """
        End the run: write what its events hash to, and wait until all of it is on the disk.

        Events that come later are left out. Sealing twice does nothing.

        Args:
            exit_code: how the recorded command ended; None if nobody knows.

        Raises:
            TraceError: the seal cannot be written; the run can be read all the same.
        """
        with self._lock:
            if self._sealed:
                return
            self._sealed = True
            document = self._document
            document["ended_at"] = self._stamps.wall()
            document["counts"] = {"events": self._seq, "blobs": self._blobs.count}
            document["redaction"] = {
                "policy_version": POLICY_VERSION,
                "rules_fired": dict(sorted(self._counts.items())),
            }
            if exit_code is not None:
                document["exit_code"] = exit_code
            document["integrity"] = {
                "events_sha256": self._digest.hexdigest(),
                "blob_count": self._blobs.count,
            }
            try:
                self._disk.sync(self._fd)
                self._put(REDACTIONS, self._redactions())
                self._put_manifest()
            except OSError as error:
                why = error.strerror or str(error)
                self.broken = self.broken or why
                raise TraceError(f"`{self.run_id}` cannot be sealed: {why}") from None
            finally:
                os.close(self._fd)

    def close(self) -> None:
        """Stop without a seal, as a recorder that dies does; nothing more is written."""
        with self._lock:
            if not self._sealed:
                self._sealed = True
                os.close(self._fd)

    def _envelope(self, type: str, actor: str, turn: int) -> dict[str, object]:
        ts, mono_us = self._stamps.both()
        return {
            "seq": self._seq,
            "ts": ts,
            "mono_us": mono_us,
            "turn": turn,
            "type": type,
            "actor": actor,
        }

    def _append(self, line: bytes) -> None:
        """Write a line whole, or leave nothing of it."""
        try:
            done = self._disk.write(self._fd, line)
        except OSError:
            self._disk.truncate(self._fd, self._size)
            raise
        if done != len(line):
            self._disk.truncate(self._fd, self._size)
            raise OSError(0, "the disk took only a part of a line")
        self._size += len(line)
        self._digest.update(line)

    def _redactions(self) -> dict[str, object]:
        return {
            "policy_version": POLICY_VERSION,
            "records": [
                {"rule": rule, "count": count} for rule, count in sorted(self._counts.items())
            ],
            "events": [{"seq": seq, "paths": list(paths)} for seq, paths in self._hidden_at],
        }

    def _put_manifest(self) -> None:
        self._put(MANIFEST, self._document)

    def _put(self, name: str, document: dict[str, object]) -> None:
        self._disk.replace(self.folder / name, spelled(document).encode() + b"\n")


def _line(
    event: dict[str, object], hidden: Hidden, payload: object, causes: Sequence[int]
) -> bytes:
    """Return the line of an event; where its attributes are too long for one, they are cut."""
    seq = event["seq"]
    assert isinstance(seq, int)  # noqa: S101  given just now
    known = sorted({cause for cause in causes if 0 <= cause < seq})
    if known:
        event["causes"] = known
    if hidden.attrs:
        event["attrs"] = hidden.attrs
    if payload is not ABSENT:
        event["payload"] = payload
    if hidden.paths:
        event["redacted"] = list(hidden.paths)
    line = spelled(event).encode() + b"\n"
    if len(line) > MAX_TRACE_LINE_BYTES:
        event["attrs"] = {key: _cut(value) for key, value in hidden.attrs.items()}
        event.pop("redacted", None)
        line = spelled(event).encode() + b"\n"
    return line


def _cut(value: object) -> object:
    text = spelled(value)
    return value if len(text) <= 1_024 else f"[left out: {len(text)} characters]"


def _fresh_folder(runs: Path, name: str | None, randomness: Callable[[int], bytes]) -> Path:
    if name is not None and not RUN_ID.match(name):
        raise InputError(f"`{name}` names no run: `run_` and 6 to 32 hex digits do")
    for _ in range(_TRIES):
        folder = runs / (name or f"run_{randomness(_NAME_BYTES).hex()}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if name is not None:
                break
        else:
            return folder
    raise TraceError(f"there is a run `{folder.name}` already", code="trace.exists")
