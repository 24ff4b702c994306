"""
A body while it passes: its digest, how long it is, and its bytes for the record.

Decided here: where the bytes wait until they are read: in memory, above a size in a file of the
run's folder that has no name, so that it is gone with the process however that ends. Not decided
here: what is written of them (``scribe`` clears them of secrets first).

Rules a maintainer keeps: the digest is that of every byte that passed, kept or not; a disk that
is full, or a body longer than the record takes, costs the copy and never the passing.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import IO

from broker.limits import MAX_CAPTURED_BYTES, MAX_TAPE_MEMORY_BYTES


class Tape:
    """
    One body.

    Args:
        folder: where it waits once it is long.
        memory_bytes: up to how many bytes it waits in memory.
        kept_bytes: how many bytes of it are kept at all.

    >>> tape = Tape(Path("/nowhere"))
    >>> tape.take(memoryview(b"abc")); tape.size_bytes, tape.content()
    (3, b'abc')
    """

    def __init__(
        self,
        folder: Path,
        memory_bytes: int = MAX_TAPE_MEMORY_BYTES,
        kept_bytes: int = MAX_CAPTURED_BYTES,
    ) -> None:
        self.size_bytes = 0
        self.lost = ""  # why there is no copy
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._kept_bytes = kept_bytes
        self._digest = hashlib.sha256()
        self._parts: list[bytes] = []
        self._file: IO[bytes] | None = None

    def take(self, part: memoryview) -> None:
        """Take in what has just passed."""
        self._digest.update(part)
        self.size_bytes += len(part)
        if self.lost:
            return
        if self.size_bytes > self._kept_bytes:
            self._lose(f"it is longer than {self._kept_bytes} bytes")
            return
        try:
            self._keep(part)
        except OSError as error:
            self._lose(f"it cannot be kept: {(error.strerror or 'unknown error').lower()}")

    def sha256(self) -> str:
        """Return the digest of what has passed, in hexadecimal."""
        return self._digest.hexdigest()

    def content(self) -> bytes | None:
        """Return what has passed, or None where there is no copy; see ``lost``."""
        if self.lost:
            return None
        if self._file is None:
            return b"".join(self._parts)
        try:
            self._file.seek(0)
            return self._file.read()
        except OSError as error:
            self._lose(f"it cannot be read again: {(error.strerror or 'unknown error').lower()}")
            return None

    def close(self) -> None:
        """Forget the copy."""
        self._parts = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep(self, part: memoryview) -> None:
        if self._file is None:
            if self.size_bytes <= self._memory_bytes:
                self._parts.append(bytes(part))
                return
            # It has no name: nobody can open it, and the kernel frees it when we end.
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - it is open until it is read
                dir=self._folder, buffering=0
            )
            self._file.write(b"".join(self._parts))
            self._parts = []
        rest = part
        while len(rest):
            rest = rest[self._file.write(rest) :]

    def _lose(self, why: str) -> None:
        self.lost = why
        self.close()
