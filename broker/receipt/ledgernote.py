"""
The ledger's checkpoint, held against its rows.

Decided here: when the rows are those that were signed, and that none of these is gone. Not decided
here: when a checkpoint is made (``broker.sessions.checkpointing``), what a row is (``book``).

Rule a maintainer keeps: the checkpoint is read before the rows, so that these are at least as far.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from broker.errors import Break
from broker.receipt.book import Book
from broker.receipt.ledger import CHECKPOINT_NAME
from broker.receipt.merkle import Frontier

if TYPE_CHECKING:
    from broker.receipt.store import Receipts


def ledger_note(receipts: Receipts) -> bytes:
    """
    Return the ledger's checkpoint as it is, unverified; nothing where there is none.

    Raises:
        UnverifiableError: the file is unsafe.
    """
    path = receipts.home.ledger / CHECKPOINT_NAME
    if not os.path.lexists(path):
        return b""
    from broker.receipt.checkpoint import read_checkpoint  # noqa: PLC0415  loads a library

    return read_checkpoint(path)


def check_noted(receipts: Receipts, book: Book, content: bytes) -> None:
    """
    Check that the ledger's checkpoint is of these rows.

    Raises:
        Break: nobody signed it who may, or it is over other rows (``checkpoint_root``) or over
            more than are left (``truncated``).
        UnverifiableError: there is no public key to verify it with.
    """
    if not content:
        return
    from broker.receipt.checkpoint import OF_LEDGER, open_checkpoint  # noqa: PLC0415
    from broker.receipt.keyring import Keyring, public_key  # noqa: PLC0415

    keyring = Keyring.of(receipts.key.kid, public_key(receipts.home), book.rotations)
    signed = open_checkpoint(content, keyring.publics, OF_LEDGER)
    if signed.size > book.n:
        why = f"the ledger's checkpoint covers {signed.size} rows and {book.n} are left"
        raise Break("truncated", why, line=book.n, offset=book.size)
    tree = Frontier()
    with open(receipts.ledger.path, "rb") as rows:
        for _ in range(signed.size):
            tree.append(rows.readline().removesuffix(b"\n"))
    if tree.root() != signed.root:
        why = f"the first {signed.size} rows are not those that the ledger's checkpoint signs"
        raise Break("checkpoint_root", why)
