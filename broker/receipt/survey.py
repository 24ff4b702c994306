"""
What lies behind the first break: every further line that is not what was signed.

Decided here: how to go on after a broken line, and what counts as a break of its own. Not
decided here: the verdict; with a break there is none.

A line that is authentic says itself where it stands: by its number, and by its link to the line
before. So after damage the next authentic line tells how much was hit. Lines in between that do
not verify stood in for lost ones or were slipped in; numbers beyond those are missing.

Rule a maintainer keeps: every line is checked as strictly as before. Only its place may be
taken from itself, and only once its tag holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import Chain
from broker.receipt.head import Slots
from broker.receipt.scan import CHUNK_BYTES

_PLACE_BYTES: Final = 512  # more than a line's end takes, from its number on
_PLACE: Final = re.compile(
    rb',"n":([0-9]{1,16}),"prev":"([0-9a-f]{64})","sid":"[a-z0-9-]*","sig":"[0-9a-f]{64}"\}\Z'
)


def survey(fd: int, size: int, chain: Chain, slots: Slots | None) -> Iterator[Break]:
    """
    Yield every break of an open file, the first one included.

    Args:
        fd: the receipt.
        size: how much of it is looked at.
        chain: before line 0, without a tree: damaged lines have no root.
        slots: what the head says, if there is one.

    Raises:
        OSError: the file cannot be read.
    """
    walk = _Survey(chain, slots)
    end = 0
    for start, line, whole in _split(fd, size):
        yield from walk.take(line, start) if whole else walk.fragment(line, start)
        end = start + len(line) + 1 if whole else start
    yield from walk.end(end)


def _split(fd: int, size: int) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each line with its place; last, what follows the last newline, as not whole."""
    at = start = dropped = 0
    rest = b""
    while at < size and (chunk := os.pread(fd, min(CHUNK_BYTES, size - at), at)):
        at += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield start, line, True
            start += len(line) + dropped + 1
            dropped = 0
        # Of a line that is too long, only so much is kept that it stays too long.
        dropped += max(0, len(rest) - MAX_LINE_BYTES - 1)
        rest = rest[: MAX_LINE_BYTES + 1]
    if rest:
        yield start, rest, False


class _Survey:
    """The chain stands after the last line that has a place; ``_bad`` lines since have none."""

    def __init__(self, chain: Chain, slots: Slots | None) -> None:
        self._chain = chain
        self._slots = slots
        self._bad = 0

    def take(self, line: bytes, start: int) -> Iterator[Break]:
        """Yield what is wrong with the next line."""
        chain = self._chain
        chain.size = start
        flaw: Break | None = None
        if not self._bad:
            try:
                chain.accept(line)
            except Break as error:
                flaw = error
            else:
                yield from self._check_head(start)
                return
        stand = (chain.n, chain.last, chain.closing, chain.root)
        place = _PLACE.search(line[-_PLACE_BYTES:])
        if place is not None and not chain.closing:
            chain.n, chain.last = int(place[1]), place[2].decode()
        try:
            chain.accept(line)
        except Break as error:
            chain.n, chain.last = stand[:2]
            self._bad += 1
            worst = flaw or error
            yield Break(worst.reason, worst.message, line=chain.n + self._bad - 1, offset=start)
            return
        yield from self._settle(stand, (chain.n - 1, place[2].decode() if place else ""), start)

    def _settle(
        self, stand: tuple[int, str, str, str], place: tuple[int, str], start: int
    ) -> Iterator[Break]:
        """Compare the place that an authentic line has with the one it was found at."""
        chain = self._chain
        known, last = stand[:2]
        number, link = place
        if number < known:
            chain.n, chain.last, chain.closing, chain.root = stand
            message = f"line {number} stands here again, or out of its order"
            yield Break("seq", message, line=known + self._bad, offset=start)
            return
        if number > known + self._bad:
            gap = known + self._bad
            missing = f"line {gap} is" if gap == number - 1 else f"lines {gap} to {number - 1} are"
            yield Break("seq", f"{missing} missing before line {number}", line=gap, offset=start)
        elif number == known and link != last:
            message = f"line {number} does not link to the line before it"
            yield Break("prev", message, line=number, offset=start)
        self._bad = 0
        yield from self._check_head(start)

    def _check_head(self, start: int) -> Iterator[Break]:
        chain, slots = self._chain, self._slots
        if slots is not None and chain.n == slots.head.n and chain.last != slots.head.last:
            message = f"line {chain.n - 1} is signed but is not the one that the head acknowledged"
            yield Break("fork", message, line=chain.n - 1, offset=start)

    def fragment(self, line: bytes, start: int) -> Iterator[Break]:
        """Yield what is wrong with bytes after the last newline."""
        chain = self._chain
        number = chain.n + self._bad
        if chain.closing:
            yield Break("after_seal", "something follows the seal", line=number, offset=start)
        elif len(line) > MAX_LINE_BYTES:
            message = f"a line is longer than {MAX_LINE_BYTES} bytes"
            yield Break("size", message, line=number, offset=start)
        elif self._slots is None:
            message = "the last line is cut off, and no head says if it counted"
            yield Break("torn", message, line=number, offset=start)

    def end(self, start: int) -> Iterator[Break]:
        """Yield what is missing at the end."""
        number = self._chain.n + self._bad
        wanted = self._slots.head.n + self._slots.torn if self._slots else 0
        if number < wanted:
            message = f"{wanted} lines were acknowledged and {number} are left"
            yield Break("truncated", message, line=number, offset=start)
