"""
The head: how many lines of a receipt are acknowledged, kept apart from the receipt.

Decided here: the two slots, their one spelling and tag, and which slot counts. Not decided
here: when a head is written (``writer``) and what follows from it (``verify``).

The file is two slots of 512 bytes, written in turn, so a crash in the middle of one leaves
the other. The slot with the most lines counts.

INVARIANT: a slot is written only after the lines it covers are durable. So a slot that is
neither blank nor authentic says that a newer line had been written before it; ``torn`` tells
the verifier to insist on that line.

The head of a forward-secure session also holds the aggregate over its lines (``ratchet``).
There no older head may stay: with it, a thief could cut the lines since. So slot 0 is always
written first, and slot 1 is then written over with the same; only a torn slot 0 says that a
newer line had been written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, Final

from broker.errors import Break
from broker.receipt.chain import TAIL_BYTES, genesis
from broker.receipt.entry import HEX64, canonical, strict_object
from broker.receipt.form import RECEIPT, Form
from broker.receipt.keys import Key, Mac

SLOT_BYTES: Final = 512
HEAD_BYTES: Final = 2 * SLOT_BYTES
_BLANK: Final = bytes(SLOT_BYTES)
_TYPES: Final = {"bytes": int, "last": str, "n": int, "sid": str}


@dataclass(frozen=True, slots=True)
class Head:
    """
    ``n`` acknowledged lines take ``size`` bytes, and the last of them hashes to ``last``.

    ``aggregate`` is the one over their tags in a forward-secure session, else empty. The head
    of such a session has one from the start, so that nobody takes it for another kind.
    """

    n: int
    last: str
    size: int
    aggregate: str = ""


@dataclass(frozen=True, slots=True)
class Slots:
    """What a head file says: the head that counts, its slot, and whether the other is torn."""

    head: Head
    slot: int
    torn: bool


class HeadForm:
    """
    Writes and reads the slots of one session.

    Without a key it only reads, and takes the tags as they stand: for an auditor, who has no
    key of the installation and proves a head by its aggregate.
    """

    __slots__ = ("_genesis", "_mac", "_sid")

    def __init__(self, sid: str, key: Key | None, form: Form = RECEIPT) -> None:
        self._sid = sid
        self._genesis = genesis(sid, form)
        self._mac: Mac | None = None if key is None else key.mac(form.head_label, sid)

    def first(self, aggregate: str = "") -> bytes:
        """Return a head file that covers no line yet."""
        return self.slot(Head(0, self._genesis, 0, aggregate)) + _BLANK

    def slot(self, head: Head) -> bytes:
        """Return one slot: a line of canonical JSON, filled up with blanks."""
        assert self._mac is not None  # noqa: S101  who has no key writes no head
        body = self._body(head)
        return self._filled(body, self._mac.tag(body.encode()))

    def _body(self, head: Head) -> str:
        fields: dict[str, object] = {
            "bytes": head.size,
            "last": head.last,
            "n": head.n,
            "sid": self._sid,
        }
        if head.aggregate:
            fields["agg"] = head.aggregate
        return canonical(fields)

    @staticmethod
    def _filled(body: str, tag: str) -> bytes:
        return f'{body[:-1]},"tag":"{tag}"}}'.encode().ljust(SLOT_BYTES - 1) + b"\n"

    def read(self, content: bytes) -> Slots:
        """
        Return the head that counts.

        Raises:
            Break: no slot is authentic for this session and key (``head_mac``).
        """
        slots = (content[:SLOT_BYTES], content[SLOT_BYTES:])
        heads = tuple(self._read_slot(slot) for slot in slots)
        authentic = [(head.n, i, head) for i, head in enumerate(heads) if head is not None]
        if not authentic or len(content) != HEAD_BYTES:
            raise Break("head_mac", f"the head was not signed with this key for `{self._sid}`")
        _, number, best = max(authentic, key=lambda each: each[0])
        torn = heads[1 - number] is None and slots[1 - number] != _BLANK
        if best.aggregate and number == 0:
            torn = False  # slot 1 repeats slot 0 here, and is written after it
        return Slots(best, number, torn)

    def _read_slot(self, slot: bytes) -> Head | None:
        line = slot.rstrip(b" \n")
        body = line[:-TAIL_BYTES] + b"}"
        tag = line[-66:-2]
        if self._mac is None:
            return self._read_untagged(slot, body, tag)
        if not compare_digest(tag, self._mac.tag(body).encode()):
            return None
        head = _head(json.loads(body))
        return head if self.slot(head) == slot else None

    def _read_untagged(self, slot: bytes, body: bytes, tag: bytes) -> Head | None:
        """Read a slot of the right form, whoever wrote it."""
        try:
            fields = strict_object(str(body, "utf-8"))
        except (Break, UnicodeDecodeError):
            return None
        if {key: type(value) for key, value in fields.items() if key != "agg"} != _TYPES:
            return None
        head = _head(fields)
        hashes = (head.last, head.aggregate or head.last, str(tag, "latin-1"))
        if not all(isinstance(each, str) and HEX64.fullmatch(each) for each in hashes):
            return None
        return head if self._filled(self._body(head), str(tag, "ascii")) == slot else None


def _head(fields: dict[str, Any]) -> Head:
    return Head(fields["n"], fields["last"], fields["bytes"], fields.get("agg", ""))
