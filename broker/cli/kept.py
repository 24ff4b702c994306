"""
Values that a session's lines only commit to, as they are shown beside the lines.

Decided here: that they are read for a session of this installation, once a line asks for them, and
that what cannot be shown is counted and never keeps a receipt from verifying. Not decided here:
when a value is the one that was committed to (``broker.receipt.commitment``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from broker.errors import Break, UnverifiableError


class Shown(NamedTuple):
    """The values of one line that are held, by field, and how many are kept out."""

    values: Mapping[str, object]
    kept_out: int


class Kept:
    """
    What lies beside one receipt; ``warnings`` say why something of it cannot be shown.

    Args:
        folder: the session's folder; None for a copy, of which no value is held.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._found: Mapping[str, str] | None = None
        self.warnings: tuple[str, ...] = ()

    def shown(self, data: Mapping[str, object]) -> Shown | None:
        """Return what a verified line commits to; None where it shows everything."""
        from broker.receipt.commitment import committed, shown

        promised = committed(data)
        if not promised:
            return None
        try:
            return Shown(*shown(data, self._disclosures()))
        except Break as error:
            self.warnings += (f"not all is shown: {error.message}",)
            return Shown({}, len(promised))

    def _disclosures(self) -> Mapping[str, str]:
        if self._found is None:
            self._found = {}
            if self._folder is not None:
                from broker.sessions.conceal import Disclosures

                try:
                    self._found = Disclosures(self._folder).read()
                except UnverifiableError as error:
                    self.warnings += (f"not all is shown: {error.message}",)
        return self._found
