"""
What the anchors of this installation hold of a session, for the verification of it.

Decided here: that an anchor which can only be asked over the network, and is not reached, counts as
none and is told; and that evidence which is there and wrong is a break. Only who wants to know
calls this, since it may take the network. Not decided here: what each anchor's evidence shows
(``broker.anchors``), what a level is (``broker.receipt.verify``).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt.evidence import Evidence
    from broker.receipt.marks import Mark


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
    from broker.anchors.evidence import Attestations
    from broker.config import load_config
    from broker.receipt.checkpoint import of_receipt, open_checkpoint
    from broker.receipt.marks import Mark

    kept = Attestations(home)
    notes = kept.notes(what.sid) if what.vkeys else []
    there = anchors(load_config(home.config).anchors, home) if notes else ()
    marks, unasked = [], []
    for note in notes:
        checkpoint = open_checkpoint(note.note, what.vkeys, of_receipt(what.sid))
        for anchor in there:
            answer = kept.read(note, anchor.name)
            if answer is None:
                continue
            try:
                seen = anchor.check(note.note, answer, time.time_ns())
            except AnchorError as error:
                unasked.append(f"anchor `{anchor.name}` could not be asked: {error}")
                continue
            says = f"the anchor `{anchor.name}`"
            root, size = checkpoint.root, checkpoint.size
            marks.append(Mark(size, says, root=root, anchor=seen.by))
            unasked += seen.warnings
    return tuple(marks), tuple(dict.fromkeys(unasked))
