"""
What anchors of the ledger show of one session: that it ended so, since the ledger says so.

Decided here: that a checkpoint of the ledger which an anchor holds vouches for the `end` rows
under it, and so for every line of the sessions that they name. Not decided here: whether the
rows are authentic; the checkpoint's root is met by their bytes, and a key that counts signed it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.anchors.anchor import Anchor
from broker.anchors.configured import lines_of_chain
from broker.anchors.evidence import LEDGER, Anchored, Attestations
from broker.errors import Break, UnverifiableError
from broker.home import Home
from broker.receipt import disk
from broker.receipt.checkpoint import OF_LEDGER, open_checkpoint
from broker.receipt.merkle import Frontier
from broker.receipt.paths import lines_of
from broker.receipt.signing import VerifyKey


@dataclass(frozen=True, slots=True)
class AnchoredEnd:
    """A session ended after ``n`` lines, the last of which hashes to ``last``."""

    note: Anchored
    n: int
    last: str


def anchored_end(home: Home, sid: str, publics: Sequence[VerifyKey]) -> AnchoredEnd | None:
    """
    Return how a session ended by the newest checkpoint of the ledger that was to be anchored.

    Returns:
        None where there is no such checkpoint, or no ``end`` row of the session under it.

    Raises:
        Break: the checkpoint is not one of these keys, or not of the ledger that lies here.
        UnverifiableError: a file is unsafe.
    """
    for note in Attestations(home).notes(LEDGER)[:1]:
        checkpoint = open_checkpoint(note.note, publics, OF_LEDGER)
        tree, found = Frontier(), None
        for row in _rows(home, checkpoint.size):
            tree.append(row)
            found = _end(row, sid, note) or found
        if (tree.size, tree.root()) != (checkpoint.size, checkpoint.root):
            raise Break("anchor", "a checkpoint of the ledger was anchored that is of another one")
        return found
    return None


def answered(
    home: Home, end: AnchoredEnd, anchors: Sequence[Anchor]
) -> Iterator[tuple[Anchor, bytes]]:
    """Yield the anchors that answered to the checkpoint over an end, with what they answered."""
    kept = Attestations(home)
    for anchor in anchors:
        evidence = kept.read(end.note, anchor.name)
        if evidence is not None:
            yield anchor, evidence


def _rows(home: Home, size: int) -> Iterator[bytes]:
    try:
        fd = disk.open_checked(lines_of_chain(home, LEDGER), "ledger", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        if error.code != "unverifiable.missing":
            raise
        return
    try:
        for n, row in enumerate(lines_of(fd)):
            if n == size:
                return
            yield row
    finally:
        os.close(fd)


def _end(row: bytes, sid: str, note: Anchored) -> AnchoredEnd | None:
    if b'"kind":"end"' not in row or sid.encode() not in row:
        return None
    found = json.loads(row)
    data = found["data"]
    if found["kind"] != "end" or data["sid"] != sid:
        return None
    return AnchoredEnd(note, data["n"], data["last"])
