"""
Walking the lines of an open file, in constant memory: one by one, or many at once.

Decided here: how a file is cut into stretches of lines, and what a head demands of them. Not
decided here: what one line must be (``chain``), how many are taken at once (``runs``), and how
the work is shared among processes (``segments``).

``Walk`` stops after each line; ``scan`` goes to the end and checks the same things, for a
fraction of the time.

Rule a maintainer keeps: however a file is cut into stretches, the outcome is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import Chain
from broker.receipt.head import Slots
from broker.receipt.runs import Scan, Stops

CHUNK_BYTES: Final = 131_072

# Told how many bytes of the file have been verified.
Progress = Callable[[int], None]


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

    def __iter__(self) -> Iterator[bytes]:
        """
        Accept line after line, and stop after each so that the chain can be read.

        Raises:
            Break: the first line that is not as signed, or what is missing at the end.
        """
        chain = self._chain
        acknowledged = self.slots.head.n if self.slots else -1
        for stretch in self.stretches():
            for line in stretch.split(b"\n"):
                start = chain.size
                chain.accept(line)
                if chain.n == acknowledged:
                    self.check_head(start)
                yield line
        self.check_end()

    def run(
        self,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
        quick: bool = False,
        stops: Stops | None = None,
    ) -> None:
        """
        Go to the end without stopping, save where ``stops`` says. For the arguments see ``scan``.

        Raises:
            Break: as iterating.
        """
        chain = self._chain
        whole = Scan(chain, quick=quick, stops=self._with_head(stops or {}))
        if jobs > 1:
            from broker.receipt.segments import in_segments  # noqa: PLC0415  it builds on us

            in_segments(self._fd, self._size, whole, jobs, progress)
        for stretch in self.stretches():
            whole.take(stretch)
            if progress is not None:
                progress(chain.size)
        self.check_end(quick=quick)

    def _with_head(self, stops: Stops) -> Stops:
        """Return the stops with the look at the head among them, first at its line."""
        if self.slots is None:
            return stops
        acknowledged = self.slots.head.n
        other = stops.get(acknowledged)

        def met(start: int) -> None:
            self.check_head(start)
            if other is not None:
                other(start)

        return {**stops, acknowledged: met}

    def stretches(self) -> Iterator[bytes]:
        """
        Yield whole lines, as many as a chunk holds, without the last newline.

        Lines end at 0x0A only. Never is more held than a chunk and one line.

        Raises:
            Break: a line is too long to look for its end.
        """
        at = self._chain.size
        while at < self._size:
            chunk = os.pread(self._fd, min(CHUNK_BYTES, self._size - at), at)
            if not chunk:
                break
            at += len(chunk)
            cut = chunk.rfind(b"\n")
            if cut >= 0:
                stretch = self.fragment + chunk[:cut] if self.fragment else chunk[:cut]
                self.fragment = chunk[cut + 1 :]
                if at < self._size:  # read again, with the rest of the line: no copy joins them
                    at -= len(self.fragment)
                    self.fragment = b""
                yield stretch
            else:
                self.fragment += chunk
            if len(self.fragment) > MAX_LINE_BYTES:
                raise self._chain.broken("size", f"a line is longer than {MAX_LINE_BYTES} bytes")

    def check_head(self, start: int) -> None:
        """
        Compare the line that the head acknowledged with the one that is there.

        Raises:
            Break: they differ.
        """
        chain, head = self._chain, self.slots.head if self.slots else None
        if head is not None and (chain.last != head.last or chain.size != head.size):
            raise Break(
                "fork",
                f"line {chain.n - 1} is signed but is not the one that the head acknowledged",
                line=chain.n - 1,
                offset=start,
            )

    def check_end(self, *, quick: bool = False) -> None:
        """
        Check what can only be seen at the end.

        Raises:
            Break: something is missing, or something is too many.
        """
        chain, slots = self._chain, self.slots
        if slots is not None:
            wanted = slots.head.n + slots.torn
            if chain.n < wanted:
                raise chain.broken(
                    "truncated", f"{wanted} lines were acknowledged and {chain.n} are left"
                )
        unproven = chain.tree is None and not quick
        if chain.closing and (self.fragment or unproven):
            raise chain.broken("after_seal", "something follows the seal")
        if self.fragment and slots is None:
            raise chain.broken("torn", "the last line is cut off, and no head says if it counted")


def scan(
    fd: int,
    size: int,
    chain: Chain,
    slots: Slots | None,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    quick: bool = False,
    stops: Stops | None = None,
) -> bytes:
    """
    Verify an open file from where the chain stands to its end; return what is cut off there.

    Args:
        fd: the file; it is read by place, so its offset does not matter.
        size: how much of it counts.
        chain: where to begin; in the end it stands after the last line.
        slots: what the head says, if there is one.
        jobs: how many processes may work on it.
        progress: told now and then how many bytes are verified.
        quick: check each line's link, the tags that stand over all of them, and the head, and
            do not read what is in the lines. Nobody without the key can make a line that this
            passes and the whole check refuses: ``runs`` says why.
        stops: what to look at when so many lines have been accepted.

    Raises:
        Break: the first line that is not as signed, or what is missing at the end.
    """
    walk = Walk(fd, size, chain, slots)
    walk.run(jobs=jobs, progress=progress, quick=quick, stops=stops)
    return walk.fragment
