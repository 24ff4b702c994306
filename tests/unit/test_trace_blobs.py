"""Payloads in files that are named by the digest of their content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from broker.errors import TraceError
from broker.trace import blobs as room
from broker.trace.blobs import BlobStore, read_blob
from broker.trace.format import BlobRef


def store(folder: Path) -> BlobStore:
    """Return the store of a run that has its folder of blobs."""
    (folder / "blobs").mkdir()
    return BlobStore(folder)


def test_the_same_content_is_kept_once(tmp_path: Path) -> None:
    """A blob is named by its content, whatever kind it is said to be of."""
    blobs = store(tmp_path)
    first = blobs.put(b"x" * 100_000, "text/plain")
    again = blobs.put(b"x" * 100_000, "application/json")
    assert first.digest == again.digest == hashlib.sha256(b"x" * 100_000).hexdigest()
    assert blobs.count == 1
    assert read_blob(tmp_path, first) == b"x" * 100_000
    assert [p.name for p in (tmp_path / "blobs").rglob("*") if p.is_file()] == [first.digest]


def test_a_blob_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle of one leaves nothing of it, and it can be tried again."""
    blobs = store(tmp_path)

    def full(fd: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(room.os, "write", full)
        with pytest.raises(OSError, match="No space"):
            blobs.put(b"content", "text/plain")
    assert [p for p in (tmp_path / "blobs").rglob("*") if p.is_file()] == []
    assert read_blob(tmp_path, blobs.put(b"content", "text/plain")) == b"content"


def test_small_writes_make_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that takes a little at a time gets all of it."""
    write = os.write
    monkeypatch.setattr(room.os, "write", lambda fd, content: write(fd, bytes(content[:7])))
    blobs = store(tmp_path)
    assert read_blob(tmp_path, blobs.put(b"0123456789" * 5, "")) == b"0123456789" * 5


def test_what_is_read_is_what_was_named(tmp_path: Path) -> None:
    """A blob that is gone, changed or too large is told as that; unchecked it is taken as it is."""
    blobs = store(tmp_path)
    ref = blobs.put(b"content", "text/plain")
    path = tmp_path / "blobs" / ref.digest[:2] / ref.digest
    path.write_bytes(b"Content")
    with pytest.raises(TraceError) as caught:
        read_blob(tmp_path, ref)
    assert caught.value.code == "trace.blob.corrupt"
    assert read_blob(tmp_path, ref, verify=False) == b"Content"
    path.unlink()
    with pytest.raises(TraceError) as caught:
        read_blob(tmp_path, ref)
    assert caught.value.code == "trace.blob.missing"
    with pytest.raises(TraceError):
        read_blob(tmp_path, BlobRef("0" * 64, 1))


def test_a_large_blob_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob beyond the limit is refused before it fills the memory."""
    monkeypatch.setattr(room, "MAX_BLOB_BYTES", 100)
    blobs = store(tmp_path)
    with pytest.raises(TraceError) as caught:
        read_blob(tmp_path, blobs.put(b"x" * 101, ""))
    assert caught.value.code == "trace.limit"
