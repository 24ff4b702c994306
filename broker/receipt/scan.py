"""
Walking the lines of an open file, in constant memory: one by one, or many at once.

Decided here: how a file is cut into lines, what a head demands of them, and a quick way past
lines that are like the ones before. Not decided here: what one line must be (``chain``), and
how the work is shared among processes (``segments``).

``Walk`` stops after each line; ``scan`` goes to the end. ``scan`` checks the same things, for a
third of the time: most lines are recognised by their shape and not parsed. A line that is not
recognised goes to ``Chain.accept``, which alone says why a line is refused.

Rules a maintainer keeps:

- ``_run`` may only pass by what ``Chain.accept`` accepts, and leaves the chain as it would.
- It refuses nothing: where it is in doubt, it stops, and ``accept`` decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import TAIL_BYTES, Chain
from broker.receipt.entry import parse_at
from broker.receipt.head import Slots
from broker.receipt.shapes import Fits, Shapes

CHUNK_BYTES: Final = 131_072
_MILLIS: Final = 27  # where the milliseconds of the instant begin: {"at":"2026-11-30T08:00:00.
_SEAL_BYTES: Final = b'","kind":"seal","n":'

# What to do when so many lines have been accepted; told where the last of them starts.
Stops = Mapping[int, Callable[[int], None]]
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

    def __iter__(self) -> Iterator[None]:
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
                yield
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
            lines, newline, rest = chunk.rpartition(b"\n")
            if newline:
                stretch, self.fragment = self.fragment + lines, rest
                yield stretch
            else:
                self.fragment += rest
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
        quick: check each line's tag, number and link, and the head, and do not read what is in
            the lines. Nobody without the key can make a line that this passes and the whole
            check refuses.
        stops: what to look at when so many lines have been accepted.

    Raises:
        Break: the first line that is not as signed, or what is missing at the end.
    """
    walk = Walk(fd, size, chain, slots)
    walk.run(jobs=jobs, progress=progress, quick=quick, stops=stops)
    return walk.fragment


class Scan:
    """Takes stretches of lines past a chain; remembers the shapes of what it has read."""

    __slots__ = ("_kid", "_shapes", "chain", "quick", "stops")

    def __init__(self, chain: Chain, *, quick: bool, stops: Stops) -> None:
        self.chain = chain
        self.quick = quick
        self.stops = stops
        self._kid = ""
        self._shapes = Shapes()

    def _known(self) -> Shapes:
        """Return the shapes of lines that name the chain's key."""
        chain = self.chain
        if self._kid != chain.kid:  # a stop may let another key sign from its line on
            self._kid = chain.kid
            kinds = "|".join(sorted(chain.form.appended))
            after = f',"kid":"{re.escape(chain.kid)}","kind":"(?:{kinds})'
            self._shapes = Shapes('[0-9]{3}Z","data":', after)
        return self._shapes

    def take(self, stretch: bytes) -> None:
        """
        Move the chain past whole lines.

        Raises:
            Break: as ``Chain.accept``, at the first line that it does not accept.
        """
        chain, stops = self.chain, self.stops
        lines = stretch.split(b"\n")
        # Of a stretch that is no longer than a line may be, no line is too long; and if all of
        # it is UTF-8, each line is, since no other character has a byte 0x0A in it.
        alike = len(stretch) <= MAX_LINE_BYTES and _is_utf8(stretch)
        quick = self.quick and _SEAL_BYTES not in stretch
        ahead = {n - chain.n for n in stops if chain.n < n <= chain.n + len(lines)}
        begin = 0
        for end in sorted({*ahead, len(lines)}):
            while begin < end:
                passable = alike and chain.mac is not None
                if passable and chain.n and not chain.closing:
                    # What is passed quickly is not read, so the last line goes the other way.
                    upto = min(end, len(lines) - 1) if quick else end
                    begin += _run(chain, lines[begin:upto], None if quick else self._known())
                if begin < end:
                    chain.accept(lines[begin])
                    if passable and not quick:
                        self._learn(lines[begin])
                    begin += 1
            if end in ahead:
                stops[chain.n](chain.size - len(lines[end - 1]) - 1)

    def _learn(self, line: bytes) -> None:
        chain = self.chain
        if chain.plain:
            after_kind = line.rindex(f'","n":{chain.n - 1},"prev":"'.encode())
            self._known().learn(chain.text, line, _MILLIS, after_kind)


def _is_utf8(stretch: bytes) -> bool:
    if stretch.isascii():
        return True
    try:
        stretch.decode()
    except UnicodeDecodeError:
        return False
    return True


def _run(chain: Chain, lines: list[bytes], shapes: Shapes | None) -> int:
    """
    Move the chain past lines as long as each is surely the next one; return how many that were.

    The caller has seen that the lines are UTF-8 and not too long, that the chain has begun and
    is not sealed. Then this is what ``accept`` checks:

    - The end of the line is compared, byte by byte, with the one end that the next line can
      have: its tag over all before it, number, link and session.
    - The line begins with an instant of the calendar: with the one of the line before, down to
      the second, or it is parsed.
    - What stands in between matches a shape, so it is milliseconds, data that is canonical, our
      key's name, and a kind that has no rules of its own.

    Where any of it does not hold, the chain stays before that line. Without ``shapes`` the first
    of the three is all that is checked.
    """
    assert chain.mac is not None  # noqa: S101  the caller has seen to it
    inner_copy, outer_copy = chain.mac.inner, chain.mac.outer
    n, last = chain.n, chain.last
    middle = f'","sid":"{chain.sid}","sig":"'
    opening = before = f'{{"at":"{chain.at}'.encode()  # as far as an instant goes
    second, went_back = opening[:_MILLIS], 0
    fits: Fits = _nothing
    for line in lines:
        inner = inner_copy()
        inner.update(line[:-TAIL_BYTES] + b"}")
        outer = outer_copy()
        outer.update(inner.digest())
        end = f'","n":{n},"prev":"{last}{middle}{outer.hexdigest()}"}}'.encode()
        place = len(line) - len(end)
        if not compare_digest(line[place:], end):
            break
        if shapes is not None:
            opening = line[:31]
            if opening[:_MILLIS] != second:
                if not _is_opening(opening):
                    break
                second = opening[:_MILLIS]
            if not fits(line, _MILLIS, place):
                found = shapes.find(line, _MILLIS, place)
                if found is None:
                    break
                fits = found
            if opening < before:
                went_back += 1
            before = opening
        last = sha256(line).hexdigest()
        n += 1
    taken = n - chain.n
    chain.pass_by(lines[:taken], last, before[7:].decode(), went_back)
    return taken


def _nothing(_text: bytes, _start: int, _stop: int) -> None:
    """Match no text."""


def _is_opening(opening: bytes) -> bool:
    """Whether a line begins with an instant of the calendar."""
    try:
        parse_at(str(opening[7:], "ascii"))
    except ValueError:
        return False
    return opening.startswith(b'{"at":"')
