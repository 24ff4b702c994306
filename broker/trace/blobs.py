"""
Payloads in files that are named by the digest of their content.

Decided here: how a blob is written once and read back checked. Not decided here: what is in one;
secrets were taken out before.

Rules a maintainer keeps: a blob appears under its name whole or not at all, so one that is there
need not be written again; a name is 64 hex digits, so none leads out of the folder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from broker.errors import TraceError
from broker.limits import MAX_BLOB_BYTES
from broker.trace.format import BLOBS, BlobRef
from broker.trace.safefiles import read_inside

_CREATE: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class BlobStore:
    """The blobs of one run, as its writer sees them. Not safe among threads by itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / BLOBS
        self._known: set[str] = set()

    @property
    def count(self) -> int:
        """How many different blobs were written."""
        return len(self._known)

    def put(self, content: bytes, media_type: str) -> BlobRef:
        """
        Keep a content, and return the reference to it.

        Raises:
            OSError: it cannot be written; nothing is left of it.
        """
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._known:
            self._write(digest, content)
            self._known.add(digest)
        return BlobRef(digest, len(content), media_type)

    def _write(self, digest: str, content: bytes) -> None:
        shard = self._folder / digest[:2]
        shard.mkdir(mode=0o700, exist_ok=True)
        fresh = shard / f".{digest}.new"
        fresh.unlink(missing_ok=True)  # of whoever was killed while writing it
        try:
            fd = os.open(fresh, _CREATE, 0o600)
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(fd, view) :]
            finally:
                os.close(fd)
            os.rename(fresh, shard / digest)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise


def read_blob(folder: Path, ref: BlobRef, *, verify: bool = True) -> bytes:
    """
    Return the content of a blob of the run in ``folder``.

    Raises:
        TraceError: it is not there (``trace.blob.missing``), does not hash to its name
            (``trace.blob.corrupt``), is too large, or is no regular file.
    """
    try:
        content = read_inside(folder, BLOBS, ref.digest[:2], ref.digest, limit=MAX_BLOB_BYTES)
    except TraceError as error:
        if error.code != "trace.missing":
            raise
        raise TraceError(
            f"the blob `{ref.digest[:16]}…` is not there", code="trace.blob.missing"
        ) from None
    if verify and hashlib.sha256(content).hexdigest() != ref.digest:
        raise TraceError(
            f"the blob `{ref.digest[:16]}…` does not hash to its name", code="trace.blob.corrupt"
        )
    return content
