"""
The tree over the lines of a file, for checkpoints that are not made by who wrote the lines.

Decided here: how the ledger's tree is followed from row to row, and how a sealed receipt gets the
checkpoint that its broker did not live to make. Not decided here: what a line must be
(``chain``), what a checkpoint says (``checkpoint``).

Rules a maintainer keeps:

- What is signed continues what was signed before: a file that was rewritten gets no checkpoint,
  since that would cover up the rewriting.
- A receipt is covered only by who has its line key, and in the pass that verifies it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.checkpoint import Checkpoint, CheckpointFile
from broker.receipt.evidence import read_head
from broker.receipt.forward import check_end, forward_chain, read_kept
from broker.receipt.keys import Key
from broker.receipt.merkle import Frontier
from broker.receipt.scan import Walk

_CHUNK_BYTES: Final = 262_144


class FollowedTree:
    """
    The tree over a file that grows, each line read once. Not safe among threads.

    Args:
        path: the file.
        lock: the file that its writers lock; what stands there while they do not is durable.
        before: the checkpoint to continue, if there is one.
    """

    def __init__(self, path: Path, lock: Path, before: Checkpoint | None = None) -> None:
        self._path = path
        self._lock = lock
        self._before = before
        self._edge = Frontier()
        self._at = 0

    def snapshot(self) -> tuple[int, bytes]:
        """
        Return how many lines there are, and their root.

        Raises:
            Break: the file does not continue what was signed before: ``checkpoint_root``, or
                ``truncated``.
            UnverifiableError: a file is missing or unsafe.
            OSError: it cannot be read.
        """
        fd = disk.open_checked(self._path, "ledger", forbidden=disk.OTHERS_WRITE)
        try:
            self._read(fd, self._durable_bytes(fd))
        finally:
            os.close(fd)
        before = self._before
        if before is not None and before.size > self._edge.size:
            raise Break("truncated", f"{before.size} rows were signed and fewer are left")
        return self._edge.size, self._edge.root()

    def _durable_bytes(self, fd: int) -> int:
        held = disk.open_checked(
            self._lock, "ledger's head", flags=os.O_RDWR, forbidden=disk.OTHERS_WRITE
        )
        try:
            disk.lock(held)
            return os.fstat(fd).st_size
        finally:
            disk.unlock(held)  # a process forked meanwhile has it open too
            os.close(held)

    def _read(self, fd: int, size: int) -> None:
        if size < self._at:
            raise Break("truncated", "the ledger became shorter")
        rest = b""
        place = self._at
        while place < size:
            chunk = os.pread(fd, min(_CHUNK_BYTES, size - place), place)
            if not chunk:
                break
            place += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise Break("size", f"a row is longer than {MAX_LINE_BYTES} bytes")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        edge, before = self._edge, self._before
        edge.append(line)
        self._at += len(line) + 1
        if before is not None and edge.size == before.size and edge.root() != before.root:
            raise Break(
                "checkpoint_root", f"the first {before.size} rows are not those that were signed"
            )


def cover(path: Path, head: Path, sid: str, key: Key, file: CheckpointFile) -> bool:
    """
    Sign a checkpoint over a sealed receipt that has none over all of it; verify it meanwhile.

    Args:
        path, head: the receipt, and its head.
        sid: its session.
        key: its line key.
        file: where the checkpoint goes.

    Returns:
        Whether the receipt is sealed, and so covered now.

    Raises:
        Break: it does not verify, or is not what was signed before (``checkpoint_root``).
        UnverifiableError: a file is missing or unsafe.
        OSError: one cannot be read or written.
    """
    before, kept, slots = file.read(), read_kept(head, sid, key), read_head(head, sid, key)
    fd = disk.open_checked(path, "receipt", forbidden=disk.OTHERS_WRITE)
    try:
        chain = Chain(sid, key)
        if slots.head.aggregate:
            chain = forward_chain(fd, sid, slots.head, kept, None, tree=True)
        for _ in Walk(fd, os.fstat(fd).st_size, chain, slots):
            if before is not None and chain.n == before.size and _root(chain) != before.root:
                raise chain.broken(
                    "checkpoint_root", "the lines so far are not those that were signed"
                )
        check_end(chain, slots.head)
    finally:
        os.close(fd)
    if chain.closing:
        file.put(chain.n, _root(chain))
    return bool(chain.closing)


def _root(chain: Chain) -> bytes:
    assert chain.tree is not None  # noqa: S101  made with one
    return chain.tree.root()
