"""
What a forward-secure session keeps on disk to go on: the key of its next line, and no other.

Decided here: the file, ``heads/<sid>.ratchet``, its two slots, their one spelling and tag. Not
decided here: when it is written (``forwardjournal``) and what it proves (``forward``).

A slot covers ``n`` lines that are on disk: the last of them hashes to ``last``, and together
they take ``bytes``. So a session that goes on need not check the tags of those lines, which it
could not: their keys are gone. The tag of the slot is made with the installation's key, under a
label of its own; it keeps out whoever can write the file and has no key.

Rules a maintainer keeps:

- Slot 0 is written first and made durable, then slot 1 is written over with the same: after
  that no older key is in the file. (What a drive keeps of overwritten blocks is another
  matter; ADR-0011.)
- The start key is never written here: the first slot is written after line 0.
- A file without a key is blank: before line 0, and after the seal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Final

from broker.receipt.chain import TAIL_BYTES
from broker.receipt.entry import canonical
from broker.receipt.form import RECEIPT
from broker.receipt.head import HEAD_BYTES, SLOT_BYTES
from broker.receipt.keys import Key, Mac
from broker.receipt.ratchet import Position, Ratchet

SUFFIX: Final = ".ratchet"
RATCHET_LABEL: Final = f"{RECEIPT.name} ratchet"
RATCHET_BYTES: Final = HEAD_BYTES
BLANK: Final = bytes(RATCHET_BYTES)


def ratchet_path(head: Path) -> Path:
    """
    Return where the ratchet's file lies: beside the head, under a name that no session has.

    >>> ratchet_path(Path("heads/k3v")).as_posix()
    'heads/k3v.ratchet'
    """
    return head.with_name(head.name + SUFFIX)


@dataclass(frozen=True, slots=True)
class KeptRatchet:
    """A ratchet's position, and the lines before it: the last one's hash, and their bytes."""

    kid: str
    position: Position
    last: str
    size: int

    def ratchet(self, sid: str) -> Ratchet:
        """Return the ratchet that goes on from here."""
        return Ratchet(self.kid, sid, self.position)


class RatchetForm:
    """Writes and reads the slots of one session."""

    __slots__ = ("_mac", "_sid")

    def __init__(self, sid: str, key: Key) -> None:
        self._sid = sid
        self._mac: Mac = key.mac(RATCHET_LABEL, sid)

    def slot(self, kept: KeptRatchet) -> bytes:
        """Return one slot: a line of canonical JSON, filled up with blanks."""
        position = kept.position
        fields = {
            "agg": position.aggregate,
            "bytes": kept.size,
            "key": position.key.hex(),
            "kid": kept.kid,
            "last": kept.last,
            "n": position.n,
            "sid": self._sid,
        }
        body = canonical(fields)
        text = f'{body[:-1]},"tag":"{self._mac.tag(body.encode())}"}}'
        return text.encode().ljust(SLOT_BYTES - 1) + b"\n"

    def read(self, content: bytes) -> KeptRatchet | None:
        """
        Return what counts; None when no slot is authentic for this session.

        That is no break by itself: a crash in the first slot, or in the removal after the seal,
        leaves a file that says nothing. What cannot be checked then is for others to refuse.
        """
        if len(content) != RATCHET_BYTES:
            return None
        slots = (content[:SLOT_BYTES], content[SLOT_BYTES:])
        found = [kept for slot in slots if (kept := self._read_slot(slot)) is not None]
        return max(found, key=lambda kept: kept.position.n, default=None)

    def _read_slot(self, slot: bytes) -> KeptRatchet | None:
        line = slot.rstrip(b" \n")
        body = line[:-TAIL_BYTES] + b"}"
        if not compare_digest(line[-66:-2], self._mac.tag(body).encode()):
            return None
        fields = json.loads(body)
        position = Position(fields["n"], bytes.fromhex(fields["key"]), fields["agg"])
        kept = KeptRatchet(fields["kid"], position, fields["last"], fields["bytes"])
        return kept if self.slot(kept) == slot else None
