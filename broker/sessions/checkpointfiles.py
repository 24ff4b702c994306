"""
Which chains of a session are covered by checkpoints, and where those lie.

Decided here: that a session signs for its own receipt and for the ledger, with the signing key of
this installation. Not decided here: when (``broker.sessions.checkpointing``).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from broker.events import Bus, CheckpointFailed
from broker.home import Home
from broker.receipt.checkpoint import OF_LEDGER, CheckpointFile, of_receipt
from broker.receipt.covering import FollowedTree
from broker.receipt.keyring import signing_key_path
from broker.receipt.ledger import CHECKPOINT_NAME
from broker.receipt.signing import load_or_create_signing_key
from broker.receipt.store import Receipts
from broker.receipt.writer import Receipt
from broker.sessions.checkpointing import Checkpointer, Track

Randomness = Callable[[int], bytes]


def checkpointer(
    home: Home,
    receipts: Receipts,
    receipt: Receipt,
    *,
    bus: Bus,
    clock: Callable[[], int],
    randomness: Randomness,
) -> Checkpointer:
    """
    Return what signs the checkpoints of a session, and of the ledger; it has not begun.

    Raises:
        UnverifiableError: the signing key is unsafe, or the ledger's checkpoint is.
        StoreError: there is no key, and none can be made.
    """
    sid, ledger = receipt.sid, receipts.ledger
    own = checkpoint_file(home, sid, randomness)
    rows = CheckpointFile(ledger.path.with_name(CHECKPOINT_NAME), own.key, OF_LEDGER)
    tree = FollowedTree(ledger.path, ledger.head_path, rows.read())
    return Checkpointer(
        [Track(receipt.snapshot, own), Track(tree.snapshot, rows)],
        tell=lambda why: bus.publish(CheckpointFailed(clock(), sid, why)),
    )


def checkpoint_file(home: Home, sid: str, randomness: Randomness = os.urandom) -> CheckpointFile:
    """
    Return the file of a session's checkpoint, with the key that signs it.

    Raises:
        UnverifiableError: the key is unsafe.
        StoreError: there is none, and none can be made.
    """
    key = load_or_create_signing_key(signing_key_path(home), randomness=randomness)
    return CheckpointFile(home.checkpoints / sid, key, of_receipt(sid))
