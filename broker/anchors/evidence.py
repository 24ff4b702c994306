"""
What anchors answered, kept beside the receipts.

Decided here: where a checkpoint that is to be anchored lies, and the evidence for it. Not
decided here: what the evidence shows (each anchor's own module).

    state/anchors/<of>/<size>.note           a checkpoint, as it is signed
    state/anchors/<of>/<size>.<anchor>       what that anchor answered to it

A note without its evidence is one that is still to be handed in, so a run that was killed is
made up for by the next. Losing these files loses evidence and invents none: a note and what
belongs to it are checked together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import StoreError, UnverifiableError
from broker.home import Home
from broker.limits import MAX_NOTE_BYTES
from broker.receipt import disk

LEDGER: Final = "ledger"
MAX_EVIDENCE_BYTES: Final = 2**20
_NOTE: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.note")


@dataclass(frozen=True, slots=True)
class Anchored:
    """A checkpoint that was to be anchored: of which chain, over how many lines."""

    of: str
    size: int
    note: bytes


class Attestations:
    """
    The evidence of one installation.

    Args:
        home: where it lies.
    """

    def __init__(self, home: Home) -> None:
        self.folder = home.state / "anchors"

    def keep_note(self, of: str, size: int, note: bytes) -> Anchored:
        """
        Keep a checkpoint that is to be anchored.

        Args:
            of: the session's name, or ``LEDGER``.
            size: the number of lines it covers.
            note: as it is signed.

        Raises:
            StoreError: it cannot be written.
        """
        self._put(self._place(of, f"{size}.note"), note)
        return Anchored(of, size, note)

    def keep(self, of: Anchored, anchor: str, evidence: bytes) -> None:
        """
        Keep what an anchor answered.

        Raises:
            StoreError: it cannot be written.
        """
        self._put(self._place(of.of, f"{of.size}.{anchor}"), evidence)

    def read(self, of: Anchored, anchor: str) -> bytes | None:
        """
        Return what an anchor answered to a checkpoint, or None.

        Raises:
            UnverifiableError: the file is unsafe.
        """
        return self._read(self._place(of.of, f"{of.size}.{anchor}"), MAX_EVIDENCE_BYTES)

    def notes(self, of: str) -> list[Anchored]:
        """
        Return the checkpoints of a chain that were to be anchored, the largest first.

        Raises:
            UnverifiableError: a file is unsafe.
        """
        sizes = sorted((int(m[1]) for m in self._matches(of)), reverse=True)
        notes = ((n, self._read(self._place(of, f"{n}.note"), MAX_NOTE_BYTES)) for n in sizes)
        return [Anchored(of, size, note) for size, note in notes if note is not None]

    def chains(self) -> list[str]:
        """Return the chains of which there is any checkpoint, by name."""
        try:
            return sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        except FileNotFoundError:
            return []

    def _matches(self, of: str) -> Iterator[re.Match[str]]:
        try:
            names = os.listdir(self.folder / of)
        except FileNotFoundError:
            return
        for name in names:
            match = _NOTE.fullmatch(name)
            if match is not None:
                yield match

    def _place(self, of: str, name: str) -> Path:
        return self.folder / of / name

    def _put(self, path: Path, content: bytes) -> None:
        try:
            disk.make_private_folder(path.parent)
            disk.DISK.replace(path, content)
        except OSError as error:
            raise StoreError(f"`{path}` cannot be written: {disk.said(error)}") from error

    def _read(self, path: Path, limit: int) -> bytes | None:
        try:
            fd = disk.open_checked(path, "evidence", forbidden=disk.OTHERS_WRITE)
        except UnverifiableError as error:
            if error.code == "unverifiable.missing":
                return None
            raise
        with os.fdopen(fd, "rb") as stream:
            content = stream.read(limit + 1)
        if len(content) > limit:
            raise UnverifiableError(
                f"`{path}` has more than {limit} bytes", code="unverifiable.too_large"
            )
        return content
