"""
Walking the lines of an open file, in constant memory.

Decided here: how a file is cut into lines, and what a head demands of them. Not decided here:
what one line must be (``chain``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import Chain
from broker.receipt.head import Slots

CHUNK_BYTES: Final = 262_144


class Walk:
    """
    One pass over the lines of an open file, up to the size it had at the start.

    Iterate to the end: the last checks come then. After that ``fragment`` holds what follows
    the last newline.
    """

    __slots__ = ("_chain", "_fd", "_size", "fragment", "slots")

    def __init__(self, fd: int, size: int, chain: Chain, slots: Slots | None) -> None:
        self._fd = fd
        self._size = size
        self._chain = chain
        self.slots = slots
        self.fragment = b""

    def __iter__(self) -> Iterator[None]:
        """
        Accept line after line, and stop after each so that the chain can be read.

        Raises:
            Break: the first line that is not as signed, or what is missing at the end.
        """
        chain = self._chain
        acknowledged = self.slots.head.n if self.slots else -1
        for lines in self._batches():
            for line in lines:
                start = chain.size
                chain.accept(line)
                if chain.n == acknowledged:
                    self._check_head(start)
                yield
        self._check_end()

    def _batches(self) -> Iterator[list[bytes]]:
        """Split on 0x0A only; never hold more than a chunk and one line."""
        at = self._chain.size
        while at < self._size:
            chunk = os.pread(self._fd, min(CHUNK_BYTES, self._size - at), at)
            if not chunk:
                break
            at += len(chunk)
            lines = (self.fragment + chunk).split(b"\n")
            self.fragment = lines.pop()
            yield lines
            if len(self.fragment) > MAX_LINE_BYTES:
                raise self._chain.broken("size", f"a line is longer than {MAX_LINE_BYTES} bytes")

    def _check_head(self, start: int) -> None:
        chain, head = self._chain, self.slots.head if self.slots else None
        if head is not None and (chain.last != head.last or chain.size != head.size):
            raise Break(
                "fork",
                f"line {chain.n - 1} is signed but is not the one that the head acknowledged",
                line=chain.n - 1,
                offset=start,
            )

    def _check_end(self) -> None:
        chain, slots = self._chain, self.slots
        if slots is not None:
            wanted = slots.head.n + slots.torn
            if chain.n < wanted:
                raise chain.broken(
                    "truncated", f"{wanted} lines were acknowledged and {chain.n} are left"
                )
        if chain.closing and (self.fragment or chain.tree is None):
            raise chain.broken("after_seal", "something follows the seal")
        if self.fragment and slots is None:
            raise chain.broken("torn", "the last line is cut off, and no head says if it counted")
