"""
The two files of the ledger while a row is written.

Decided here: from where a writer walks, and what a full disk means. Not decided here: what a row
says (``ledger``), what all rows amount to (``book``); the rest is as in any journal.

A receipt's writer walks every line, since it must know the tree over all of them. A ledger has no
seal and grows for years, so its writer begins at the last row that the head names: the head is
signed and holds that row's hash, and the row's own link stands for all before it.
"""

from __future__ import annotations

import os
from pathlib import Path

from broker.errors import Break, FatalStoreError
from broker.receipt import disk
from broker.receipt.chain import Chain, genesis
from broker.receipt.entry import HEX64
from broker.receipt.form import LEDGER
from broker.receipt.head import Slots
from broker.receipt.journal import Journal
from broker.receipt.keys import Key
from broker.receipt.pages import LEDGER_SID, Archived, last_line, outgoing_key


class Rows(Journal):
    """
    The ledger's two files, for one row at a time.

    Args:
        path, head: where they lie.
        key: signs the next row.
        archived: returns a key that was in use before.
        system: the system calls.
    """

    __slots__ = ("_archived",)

    def __init__(
        self, path: Path, head: Path, key: Key, archived: Archived, system: disk.Disk
    ) -> None:
        super().__init__(LEDGER_SID, path, head, key, system, form=LEDGER)
        self._archived = archived

    @property
    def kid(self) -> str:
        """The name of the key that the next row is signed with."""
        return self._key.kid

    def _begun(self, slots: Slots) -> Chain:
        head = slots.head
        chain = Chain(LEDGER_SID, self._key, tree=False, form=LEDGER)
        if head.n == 0:
            return chain
        if head.size > os.fstat(self._log).st_size:
            raise Break("truncated", f"{head.n} rows were acknowledged and they are not all left")
        line = last_line(self._log, head.size)
        if head.n > 1:
            chain.n, chain.size = head.n - 1, head.size - len(line) - 1
            chain.last = _link(line)
        outgoing = outgoing_key(line, self._key, self._archived)
        if outgoing is not None:
            chain.turn(outgoing)
        chain.accept(line)
        if (chain.last, chain.size) != (head.last, head.size):
            raise chain.broken("fork", "the last row is not the one that the head acknowledged")
        if outgoing is not None:
            chain.turn(self._key)
        return chain

    def _close_full(self, at: int) -> FatalStoreError:
        """A ledger is never sealed: the next writer cuts what was written in part."""
        return self._poison("the disk is full", "store.disk_full")


def _link(line: bytes) -> str:
    """Return what a line says it follows; who accepts the line then checks it against its hash."""
    start = line.rfind(b',"prev":"') + 9
    link = line[start : start + 64].decode("ascii", "replace")
    return link if HEX64.fullmatch(link) else genesis(LEDGER_SID, LEDGER)
