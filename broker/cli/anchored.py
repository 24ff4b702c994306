"""
What the anchors of this installation hold of a session, for the verification of it.

Decided here: that an anchor which can only be asked over the network, and is not reached, counts as
none and is told; and that evidence which is there and wrong is a break. Only who wants to know
calls this, since it may take the network. Not decided here: what each anchor's evidence shows
(``broker.anchors``), what a level is (``broker.receipt.verify``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.anchors.anchor import Anchor
    from broker.home import Home
    from broker.receipt.evidence import Evidence
    from broker.receipt.marks import Mark


_Answer = tuple["Anchor", bytes, bytes, "Mark"]


def anchored(what: Evidence, home: Home) -> tuple[tuple[Mark, ...], tuple[str, ...]]:
    """
    Return what anchors say of the lines of a session, and what could not be asked.

    Raises:
        Break: evidence of an anchor does not fit its checkpoint, or the checkpoint is forged.
        UnverifiableError: a file of the evidence is unsafe.
        ConfigError: the configuration cannot be read.
    """
    from broker.anchors.anchor import AnchorError
    from broker.anchors.configured import anchors
    from broker.config import load_config

    there = anchors(load_config(home.config).anchors, home) if what.vkeys else ()
    marks, unasked = [], []
    for anchor, note, answer, mark in (*_own(what, home, there), *_by_ledger(what, home, there)):
        try:
            seen = anchor.check(note, answer, time.time_ns())
        except AnchorError as error:
            unasked.append(f"anchor `{anchor.name}` could not be asked: {error}")
            continue
        marks.append(replace(mark, says=f"the anchor `{anchor.name}`", anchor=seen.by))
        unasked += seen.warnings
    return tuple(marks), tuple(dict.fromkeys(unasked))


def _own(what: Evidence, home: Home, there: Sequence[Anchor]) -> Iterator[_Answer]:
    """Yield what anchors answered to checkpoints of the session itself."""
    from broker.anchors.evidence import Attestations
    from broker.receipt.checkpoint import of_receipt, open_checkpoint
    from broker.receipt.marks import Mark

    kept = Attestations(home)
    for note in kept.notes(what.sid) if there else ():
        checkpoint = open_checkpoint(note.note, what.vkeys, of_receipt(what.sid))
        for anchor in there:
            answer = kept.read(note, anchor.name)
            if answer is not None:
                yield anchor, note.note, answer, Mark(checkpoint.size, "", root=checkpoint.root)


def _by_ledger(what: Evidence, home: Home, there: Sequence[Anchor]) -> Iterator[_Answer]:
    """Yield what anchors answered to the checkpoint of the ledger over the session's end."""
    from broker.anchors.ends import anchored_end, answered
    from broker.receipt.marks import Mark

    end = anchored_end(home, what.sid, what.vkeys) if there else None
    if end is not None:
        for anchor, answer in answered(home, end, there):
            yield anchor, end.note.note, answer, Mark(end.n, "", last=end.last)
