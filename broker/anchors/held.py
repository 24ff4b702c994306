"""
Whether the ledger is still what outside anchors have seen of it.

Decided here: that a ledger which is shorter than what an anchor holds, or other, was cut, forked
or set back, whatever lies on this machine. Not decided here: what else is verified of a ledger
(``broker.receipt.audit``).

A git remote is asked for its newest checkpoint, so it shows even that everything here was
deleted. Who keeps nothing to be asked for is believed by the evidence that is kept here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker.anchors.anchor import Anchor, AnchorError
from broker.anchors.configured import lines_of_chain
from broker.anchors.evidence import LEDGER, Attestations
from broker.errors import Break, BrokerError, UnverifiableError
from broker.home import Home
from broker.receipt import disk
from broker.receipt.checkpoint import OF_LEDGER, Checkpoint, open_checkpoint
from broker.receipt.merkle import Frontier
from broker.receipt.paths import lines_of
from broker.receipt.signing import VerifyKey


@dataclass(frozen=True, slots=True)
class Holding:
    """How many rows of the ledger an anchor holds; ``fault`` says what is wrong with that."""

    anchor: str
    rows: int = 0
    fault: BrokerError | None = None


def ledger_held(
    home: Home, anchors: Sequence[Anchor], publics: Sequence[VerifyKey]
) -> Iterator[Holding]:
    """
    Yield what each anchor holds of the ledger, once it was compared with what lies here.

    Args:
        home: where the ledger lies.
        anchors: who is asked.
        publics: the signing keys that count, the one in use last.
    """
    for anchor in anchors:
        try:
            yield Holding(anchor.name, _compared(home, anchor, publics))
        except BrokerError as error:
            yield Holding(anchor.name, fault=error)


def _compared(home: Home, anchor: Anchor, publics: Sequence[VerifyKey]) -> int:
    found = _newest(anchor, publics) or _kept(home, anchor, publics)
    if found is None:
        raise AnchorError(f"`{anchor.name}` holds nothing of the ledger yet")
    rows, root = _root(home, found.size)
    if rows < found.size:
        raise Break(
            "anchor_missing",
            f"`{anchor.name}` holds {found.size} rows of the ledger, and {rows} are left here",
        )
    if root != found.root:
        raise Break("anchor", f"`{anchor.name}` holds another ledger of this installation")
    return found.size


def _newest(anchor: Anchor, publics: Sequence[VerifyKey]) -> Checkpoint | None:
    """Return the newest checkpoint that the anchor itself gives, under the newest key."""
    for public in reversed(publics):
        note = anchor.newest(f"{public.name}/{OF_LEDGER}")
        if note is not None:
            return open_checkpoint(note, [public], OF_LEDGER)
    return None


def _kept(home: Home, anchor: Anchor, publics: Sequence[VerifyKey]) -> Checkpoint | None:
    """Return the newest checkpoint for which there is evidence of the anchor here."""
    kept = Attestations(home)
    for note in kept.notes(LEDGER):
        answer = kept.read(note, anchor.name)
        if answer is not None:
            anchor.check(note.note, answer, time.time_ns())
            return open_checkpoint(note.note, publics, OF_LEDGER)
    return None


def _root(home: Home, size: int) -> tuple[int, bytes]:
    """Return how many of the first rows there are here, and the root over them."""
    tree = Frontier()
    try:
        fd = disk.open_checked(lines_of_chain(home, LEDGER), "ledger", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        if error.code != "unverifiable.missing":
            raise
        return 0, tree.root()
    try:
        for line in lines_of(fd):
            if tree.size == size:
                break
            tree.append(line)
    finally:
        os.close(fd)
    return tree.size, tree.root()
