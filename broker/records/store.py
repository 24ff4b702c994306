"""
The folder of one session's records.

``records.jsonl`` has one line for each record and for each piece of a body that it brought along.
``blobs/<2 hex>/<sha256>`` are texts that are too large for a line. Folders are 0700 and files
0600 from the first byte.

Decided here: what is written before what, and what a reader makes of it. Not decided here: what is
recorded, and whether it was cleared of secrets before (``broker.records.recorder``).

Rules a maintainer keeps: a record and its new pieces are one write, and they are on the disk when
``add`` returns; a blob is written before the line that names it; no part of a path comes from
outside; after a failed write nothing is believed to be there that is not.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.capabilities.fs import Folder
from broker.errors import InputError, StoreError, UnverifiableError
from broker.limits import MAX_BLOB_BYTES, MAX_RECORDS_BYTES
from broker.records.model import Body, ProviderRequest, Record, ToolAudit, line, record_of
from broker.records.pieces import BodyPiece, original

LINES: Final = "records.jsonl"
PIECE: Final = "body.piece.v1"
_SPILLED_BYTES: Final = 4_096  # bytes of a text that becomes a file, in a body that spills
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def checked_id(text: str) -> str:
    """
    Return the id of a request, if it is one.

    Raises:
        InputError: it is empty, too long, or has more than letters, digits, `_` and `-`.

    >>> checked_id("../x")
    Traceback (most recent call last):
    broker.errors.InputError: `../x` is no id of a request: letters, digits, `_` and `-`, at most 64
    """
    if not _SAFE_ID.fullmatch(text):
        raise InputError(
            f"`{text[:80]}` is no id of a request: letters, digits, `_` and `-`, at most 64"
        )
    return text


def blob_place(sha256: str) -> str:
    """
    Return where the text with a digest lies, below the folder of the records.

    >>> blob_place("ab" * 32)[:12]
    'blobs/ab/aba'
    """
    if not _SHA256.fullmatch(sha256):
        raise ValueError("not a digest")
    return f"blobs/{sha256[:2]}/{sha256}"


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """The records of a session as they were read, and the pieces of their bodies."""

    folder: Folder
    records: tuple[Record, ...]
    pieces: Mapping[str, Mapping[str, object]]
    size_bytes: int

    def body(self, body: Body) -> bytes:
        """
        Return the bytes that were kept of a body.

        Raises:
            UnverifiableError: they are not the ones that were kept, or cannot be read.
        """
        try:
            return original(body, self._text_of)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnverifiableError(
                f"a body cannot be read: {error}", code="unverifiable.body"
            ) from error

    def _text_of(self, name: str) -> tuple[str, str]:
        data = self.pieces[name]
        before = str(data["before"])
        if "text" in data:
            return str(data["text"]), before
        blob = data["blob"]
        if not isinstance(blob, dict):
            raise TypeError("a piece has neither text nor file")
        content = self.folder.read(blob_place(str(blob["sha256"])), limit_bytes=MAX_BLOB_BYTES)
        return content.decode("utf-8", "surrogatepass"), before


def read_records(folder: Folder) -> KeptRecords:
    """
    Read the records of a session.

    What follows the last whole line was cut off by a crash, and never counted.

    Raises:
        UnverifiableError: they cannot be read, or a line is none of theirs.
    """
    try:
        there = folder.status(LINES) is not None
        content = folder.read(LINES, limit_bytes=MAX_RECORDS_BYTES) if there else b""
    except OSError as error:
        raise UnverifiableError(
            f"the records cannot be read: {_why(error)}", code="unverifiable.unreadable"
        ) from error
    records: list[Record] = []
    pieces: dict[str, Mapping[str, object]] = {}
    whole = content[: content.rfind(b"\n") + 1]
    for number, text in enumerate(whole.split(b"\n")[:-1]):
        try:
            data = json.loads(text)
            if data["type"] == PIECE:
                pieces[data["id"]] = data
            else:
                records.append(record_of(data))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UnverifiableError(
                f"line {number} of `{LINES}` is no record", code="unverifiable.record"
            ) from error
    return KeptRecords(folder, tuple(records), pieces, len(whole))


class RecordStore:
    """
    The records of one session, while they are written by one process. Safe among threads.

    >>> from broker.capabilities.memory import MemoryFiles
    >>> store = RecordStore(MemoryFiles().below("/records"))
    >>> store.read().records
    ()
    """

    def __init__(self, folder: Folder) -> None:
        """
        Open the records of a session, making the folder where there is none.

        Raises:
            StoreError: the folder cannot be made, or its records cannot be read.
        """
        self._folder = folder
        self._lock = threading.Lock()
        try:
            folder.make()
            found = read_records(folder)
            status = folder.status(LINES)
            if status is not None and status.size_bytes != found.size_bytes:
                kept = folder.read(LINES, limit_bytes=MAX_RECORDS_BYTES)[: found.size_bytes]
                folder.replace(LINES, kept)
        except OSError as error:
            raise StoreError(f"the records cannot be opened: {_why(error)}") from error
        except UnverifiableError as error:
            raise StoreError(f"the records cannot be opened: {error.message}") from error
        self._known = set(found.pieces)
        self._ids = {r.id for r in found.records if isinstance(r, ProviderRequest)}

    def read(self) -> KeptRecords:
        """Return what is there now."""
        with self._lock:
            return read_records(self._folder)

    def add(self, record: Record, pieces: tuple[BodyPiece, ...] = ()) -> None:
        """
        Write a record and those of its pieces that are new.

        Raises:
            InputError: it is a request whose id is none, or was used before.
            StoreError: it cannot be written, and is not.
        """
        with self._lock:
            if isinstance(record, ProviderRequest) and checked_id(record.id) in self._ids:
                raise InputError(f"the id `{record.id}` was used before: give each its own")
            fresh = {piece.id: piece for piece in pieces if piece.id not in self._known}
            body = None if isinstance(record, ToolAudit) else record.body
            spilled = body is not None and body.spilled
            try:
                lines = [line(self._data(piece, spilled=spilled)) for piece in fresh.values()]
                self._folder.append(LINES, b"".join([*lines, line(record.data())]))
            except OSError as error:
                raise StoreError(f"a record cannot be written: {_why(error)}") from error
            self._known |= fresh.keys()
            if isinstance(record, ProviderRequest):
                self._ids.add(record.id)

    def _data(self, piece: BodyPiece, *, spilled: bool) -> dict[str, object]:
        """Return the line of a piece; its text goes to a file where the body spills."""
        data: dict[str, object] = {"type": PIECE, "id": piece.id, "before": piece.before}
        content = piece.text.encode("utf-8", "surrogatepass")
        if not spilled or len(content) < _SPILLED_BYTES:
            return {**data, "text": piece.text}
        sha256 = hashlib.sha256(content).hexdigest()
        place = blob_place(sha256)
        if self._folder.status(place) is None:
            self._folder.make(place.rpartition("/")[0])
            self._folder.create(place, content)
        return {**data, "blob": {"path": place, "sha256": sha256, "size_bytes": len(content)}}


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
