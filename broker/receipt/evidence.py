"""
A receipt and all that it is verified with, opened in the one right order.

Decided here: which files are read, in which order, and what it means when one is not there. Not
decided here: what they demand of each other (``verify``).

Rules a maintainer keeps:

- Ratchet, head and checkpoint are read before the receipt, and the receipt's size once: so a
  writer at work is never mistaken for a thief.
- A receipt that is gone while something vouches that it began is a loss, not an empty folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker.errors import Break, UnverifiableError
from broker.receipt import disk
from broker.receipt.chain import LineTags
from broker.receipt.forward import read_kept
from broker.receipt.head import HEAD_BYTES, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.ratchetfile import KeptRatchet

if TYPE_CHECKING:
    from broker.receipt.checkpoint import Checkpoint
    from broker.receipt.sealing import Auditor
    from broker.receipt.signing import VerifyKey


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    A receipt, and what it is verified with.

    Args:
        path: the receipt.
        sid: the session it must be of.
        key: the secret it must be signed with, or the tags of its lines where those come from
            elsewhere; None takes the tags as they stand.
        head: its head; None verifies without, and completeness stays unknown. Only a secret
            can read one.
        checkpoint: its checkpoint; a file that is not there counts as none.
        vkeys: the public keys that may have signed the checkpoint.
        auditor: the key that the start key of a forward-secure session was sealed to. It
            checks the tags then, and with them a head that no other key can read.
        ending: the ledger was asked, and has no row of this session's end. That row follows the
            last checkpoint, so a receipt may be sealed and that one not be signed yet.
    """

    path: Path
    sid: str
    key: Key | LineTags | None
    head: Path | None = None
    checkpoint: Path | None = None
    vkeys: tuple[VerifyKey, ...] = ()
    auditor: Auditor | None = None
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """
    An open receipt of ``size`` bytes, and what its head and its checkpoint say.

    ``kept`` is the ratchet that a forward-secure session goes on with.
    """

    fd: int
    size: int
    slots: Slots | None
    checkpoint: Checkpoint | None
    kept: KeptRatchet | None = None


@contextmanager
def opened(evidence: Evidence) -> Iterator[Opened]:
    """
    Open head, checkpoint and receipt, in that order.

    Raises:
        Break: the head is missing or forged, the checkpoint is forged, or the receipt is gone.
        UnverifiableError: an unsafe or missing file, or no key for the checkpoint.
    """
    disk.require_posix()
    slots: Slots | None = None
    headless: Break | None = None
    key = evidence.key if isinstance(evidence.key, Key) else None
    kept: KeptRatchet | None = None
    if evidence.head is not None and key is not None:
        # Before the head, as a writer seals: the head is written first, then the ratchet goes.
        kept = read_kept(evidence.head, evidence.sid, key)
    if evidence.head is not None and (key is not None or evidence.auditor is not None):
        try:
            slots = read_head(evidence.head, evidence.sid, key)
        except Break as error:
            if error.reason != "no_head":
                raise
            headless = error
    checkpoint = _checkpoint(evidence)
    fd = _open(evidence, slots, checkpoint)
    try:
        if headless is not None:
            raise headless
        yield Opened(fd, os.fstat(fd).st_size, slots, checkpoint, kept)
    finally:
        os.close(fd)


def _open(evidence: Evidence, slots: Slots | None, checkpoint: Checkpoint | None) -> int:
    try:
        return disk.open_checked(evidence.path, "receipt", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        begun = checkpoint is not None or (slots is not None and slots.head.n + slots.torn > 0)
        if error.code != "unverifiable.missing" or not begun:
            raise
        what = "checkpoint" if slots is None else "head"
        raise Break(
            "missing", f"the receipt `{evidence.path}` is gone and its {what} is not"
        ) from error


def _checkpoint(evidence: Evidence) -> Checkpoint | None:
    if evidence.checkpoint is None or not os.path.lexists(evidence.checkpoint):
        return None
    from broker.receipt.checkpoint import (  # noqa: PLC0415  most receipts are read without one
        of_receipt,
        open_checkpoint,
        read_checkpoint,
    )

    content = read_checkpoint(evidence.checkpoint)
    if not evidence.vkeys:
        raise UnverifiableError(
            f"the checkpoint `{evidence.checkpoint}` cannot be verified: no public key is given",
            code="unverifiable.no_vkey",
        )
    return open_checkpoint(content, evidence.vkeys, of_receipt(evidence.sid))


def read_head(path: Path, sid: str, key: Key | None) -> Slots:
    """
    Read a head file that must be there; without a key, whoever signed it.

    Raises:
        Break: it is missing (``no_head``) or not signed for this session (``head_mac``).
        UnverifiableError: the file is unsafe.
    """
    try:
        fd = disk.open_checked(path, "head", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        if error.code == "unverifiable.missing":
            raise Break("no_head", f"the head `{path}` is missing") from error
        raise
    try:
        return HeadForm(sid, key).read(os.pread(fd, HEAD_BYTES + 1, 0))
    except OSError as error:
        raise unreadable("head", path, error) from error
    finally:
        os.close(fd)


def unreadable(what: str, path: Path, error: OSError) -> UnverifiableError:
    """Return the error of a file that could not be read to its end."""
    return UnverifiableError(
        f"the {what} `{path}` cannot be read: {error}", code="unverifiable.unreadable"
    )
