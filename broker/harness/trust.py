"""
What a person trusts a workspace to have executed, by its path and by what it says now.

Decided here: that trust is of one workspace and of the very content that a person saw, and that any
change of it asks again. Not decided here: which files are executed (``projecthooks``), and how a
person is asked.

Rules a maintainer keeps: what is trusted is kept among the broker's own files, which no tool
touches; a record that cannot be read is no trust; a workspace that moved is another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from broker.capabilities.fs import Folder
from broker.errors import StoreError
from broker.limits import MAX_CONFIG_BYTES


@dataclass(frozen=True, slots=True)
class Executables:
    """
    What a workspace would have executed: its root, and the hex SHA-256 of each file by its place.

    >>> one = Executables("/ws", {"a": "00"})
    >>> one.digest == Executables("/ws", {"a": "00"}).digest
    True
    """

    root: str
    files: Mapping[str, str]

    @property
    def digest(self) -> str:
        """A name for all of it: 64 hex digits."""
        return sha256(json.dumps([self.root, sorted(self.files.items())]).encode()).hexdigest()


class Trust:
    """
    What a person trusted so far.

    Args:
        kept: the folder of the records; made when the first one comes.

    >>> from broker.capabilities.memory import MemoryFiles
    >>> trust = Trust(MemoryFiles().below("/state/trusted"))
    >>> trust.accept(Executables("/ws", {"a": "00"}))
    >>> trust.holds(Executables("/ws", {"a": "00"})), trust.holds(Executables("/ws", {"a": "01"}))
    (True, False)
    """

    __slots__ = ("_kept",)

    def __init__(self, kept: Folder) -> None:
        self._kept = kept

    def holds(self, found: Executables) -> bool:
        """Return whether a person trusted exactly this."""
        try:
            content = self._kept.read(_place(found), limit_bytes=MAX_CONFIG_BYTES)
            kept = json.loads(content)
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(kept, dict) and kept.get("digest") == found.digest

    def accept(self, found: Executables) -> None:
        """
        Keep that a person trusts this; what they trusted of this workspace before is forgotten.

        Raises:
            StoreError: it cannot be kept.
        """
        record = {"workspace": found.root, "digest": found.digest, "files": dict(found.files)}
        try:
            self._kept.make()
            self._kept.replace(_place(found), json.dumps(record, indent=1).encode() + b"\n")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise StoreError(f"what was trusted cannot be kept: {why}") from error


def _place(found: Executables) -> str:
    return f"{sha256(found.root.encode('utf-8', 'surrogateescape')).hexdigest()}.json"
