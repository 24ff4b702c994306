"""
The files of a forward-secure session: receipt, head, and the ratchet kept between lines.

Decided here: when the ratchet is kept, and what a crash leaves of it. Not decided here: what is
in the file (``ratchetfile``), all else about writing (``journal``).

One durable append is: one write of one whole line; sync the receipt; write the ratchet that has
stepped past it, sync it; write the head, sync it. A crash leaves:

- before the ratchet: a line that the kept ratchet can check. The next writer does, and steps.
- before the head: a line that the ratchet was kept for. The next writer believes it, since what
  is kept names the line's hash under the installation's key.
- right after the seal: a ratchet that nobody needs. Whoever opens the session next removes it.

INVARIANT: after an append neither file holds the key of a line that is on disk, nor an aggregate
over fewer lines. Both files are two slots; the second is written over with what the first has
just been made durable with. It needs no sync of its own: it is there for a torn first slot only,
and reaches the disk with the next one.
"""

from __future__ import annotations

import os
from pathlib import Path

from broker.errors import StoreError, UnverifiableError
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.form import SEAL
from broker.receipt.forward import Rejoined
from broker.receipt.head import SLOT_BYTES, Head, Slots
from broker.receipt.journal import Journal
from broker.receipt.keys import Key
from broker.receipt.ratchet import Ratchet
from broker.receipt.ratchetfile import (
    BLANK,
    RATCHET_BYTES,
    KeptRatchet,
    RatchetForm,
    ratchet_path,
)
from broker.receipt.untagged import stated_kid

_NONE = -1  # no descriptor


class ForwardJournal(Journal):
    """
    Receipt, head and ratchet of one session.

    Args:
        start: the ratchet of a session that begins here; a session that goes on has none.
    """

    __slots__ = ("_kept", "_kept_form", "_ratchet", "_start", "ratchet_path")

    def __init__(
        self,
        sid: str,
        path: Path,
        head: Path,
        key: Key,
        system: disk.Disk,
        *,
        start: Ratchet | None = None,
    ) -> None:
        self._kept = _NONE
        super().__init__(sid, path, head, key, system)
        self._kept_form = RatchetForm(sid, key)
        self._ratchet: Ratchet | None = None
        self._start = start
        self.ratchet_path = ratchet_path(head)

    @property
    def ratchet(self) -> Ratchet | None:
        """The ratchet in memory: what a thief of this process gets."""
        return self._ratchet

    def reload(self, at: int | None) -> None:
        """Open all files afresh and walk every line; remove what a sealed session left."""
        super().reload(at)
        if self.chain.kind == SEAL:
            self._forget()

    def _begun(self, slots: Slots) -> Chain:
        kept = self._open_kept()
        start, self._start = self._start, None
        if start is not None:
            self._ratchet = start
            return Chain(self.sid, start)
        if kept is None and slots.head.n == 0:
            raise StoreError(
                f"session `{self.sid}` never began: start another", code="store.never_began"
            )
        return Rejoined(self.sid, kept.kid if kept else stated_kid(self._log), kept)

    def _open_kept(self) -> KeptRatchet | None:
        try:
            self._kept = disk.open_checked(
                self.ratchet_path, "ratchet", flags=os.O_RDWR, forbidden=disk.BEYOND_OWNER
            )
        except UnverifiableError as error:
            if error.code == "unverifiable.missing":
                return None
            raise
        return self._kept_form.read(os.pread(self._kept, RATCHET_BYTES + 1, 0))

    def _walked(self, slots: Slots) -> None:
        chain = self.chain
        if not isinstance(chain, Rejoined):
            return
        chain.check_vouched(slots.head.n)
        self._ratchet = chain.ratchet
        if chain.ratchet is None and chain.kind != SEAL:
            raise chain.broken(
                "ratchet", "the ratchet is gone or was changed, and no other key can go on"
            )

    def _standing(self) -> Head:
        """Keep the ratchet past the lines so far, and return the head over them."""
        chain = self.chain
        ratchet = self._ratchet
        assert ratchet is not None  # noqa: S101  without one no walk ends, and nothing is written
        kept = KeptRatchet(ratchet.kid, ratchet.position, chain.last, chain.size)
        self._overwrite(self._kept, self._kept_form.slot(kept))
        return Head(chain.n, chain.last, chain.size, ratchet.aggregate)

    def _write_head(self, head: Head, number: int) -> None:
        """Write both slots of the head; after the seal the ratchet has done its work."""
        slot = self._form.slot(head)
        self._overwrite(self._head, slot)
        self._head_seen = (slot + slot, Slots(head, 0, False))
        if self.chain.kind == SEAL:
            self._forget()

    def _overwrite(self, fd: int, slot: bytes) -> None:
        """Make a slot durable in the first place, then leave nothing older in the second."""
        for place in (0, SLOT_BYTES):
            if self._disk.pwrite(fd, slot, place) != SLOT_BYTES:
                raise self._poison("a slot was written in part", "store.short_write")
            if place == 0:
                self._disk.sync(fd)

    def _forget(self) -> None:
        """Write the ratchet over with nothing, and remove it."""
        if self._kept != _NONE:
            self._disk.pwrite(self._kept, BLANK, 0)
            self._disk.sync(self._kept)
            self.ratchet_path.unlink(missing_ok=True)
            os.close(self._kept)
            self._kept = _NONE
        self._ratchet = None
        self._start = None

    def _places(self) -> tuple[tuple[int, Path, str], ...]:
        return (*super()._places(), (self._kept, self.ratchet_path, "ratchet"))

    def release(self) -> None:
        """Close all files."""
        super().release()
        if self._kept != _NONE:
            os.close(self._kept)
        self._kept = _NONE
