"""
Sharing the verification of one file among processes.

Decided here: how a file is cut into segments, and when what was found in one may be believed.
Not decided here: what a line must be (``chain``), how lines are walked (``scan``).

A segment begins in the middle of a file, so its process must assume where the chain stands
there: it takes number, instant and hash from the line before, unverified. The chain itself then
takes in segment after segment, and believes one only if the state that it has come to is, field
by field, the state that the segment assumed. So by induction each segment says what one pass
from the first line would have said.

Rules a maintainer keeps:

- Nothing that goes wrong in another process is reported: the chain stays before that segment,
  and the walk from there finds the first broken line, or finds that nothing is wrong.
- The last stretch of the file is never given away, so a seal, and what follows the last line,
  are always met by the chain with the whole tree.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Final

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import Chain, State
from broker.receipt.merkle import Frontier
from broker.receipt.runs import Scan
from broker.receipt.scan import CHUNK_BYTES, Progress, Walk

SEGMENT_BYTES: Final = 8 * 2**20  # what one process takes at a time; less is not worth a fork
_LAST_BYTES: Final = 2 * CHUNK_BYTES  # never given away
_END = re.compile(rb'"n":(0|[1-9][0-9]{0,15}),"prev":"[0-9a-f]{64}","sid":"[^"]*","sig":"[^"]*"}\Z')


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a chain stood, with its tree: after a segment, or at a stop within it."""

    state: State
    text: str
    tree: Frontier | None
    start: int  # where the line before it begins; of a stop only


@dataclass(frozen=True, slots=True)
class _Found:
    """What a process found in a segment: where it assumed to begin, its stops, and its end."""

    assumed: State
    stops: tuple[_Place, ...]
    end: _Place


def in_segments(
    fd: int, size: int, whole: Scan, jobs: int, progress: Progress | None = None
) -> None:
    """
    Move the chain of ``whole`` as far as other processes verify it; the caller walks on.

    Where the file is too small, or forking is not safe, nothing is done.

    Raises:
        Break: what a stop of ``whole`` raises.
    """
    chain = whole.chain
    cuts = _cuts(fd, chain.size, size - _LAST_BYTES)
    safe = hasattr(os, "fork") and _alone()
    if not safe or len(cuts) < 3 or chain.mac is None or chain.closing:
        return
    spans = list(pairwise(cuts))
    with closing(_results(fd, spans, whole, min(jobs, len(spans)))) as results:
        for found in results:
            if found is None or not _join(whole, found):
                return
            if progress is not None:
                progress(chain.size)


def _join(whole: Scan, found: _Found) -> bool:
    """Take a segment in, if it began where the chain stands; look at what its stops ask for."""
    chain, assumed = whole.chain, found.assumed
    here = (chain.n, chain.size, chain.last, chain.at, chain.closing)
    if here != (assumed.n, assumed.size, assumed.last, assumed.at, ""):
        return False
    tree, went_back = chain.tree, chain.went_back
    for place in (*found.stops, found.end):
        state = place.state
        chain.restore(replace(state, went_back=went_back + state.went_back))
        chain.text = place.text
        if tree is not None and place.tree is not None:
            chain.tree = tree.copy()
            chain.tree.join(place.tree)
        if place is not found.end:
            whole.stops[chain.n](place.start)
    return True


def _cuts(fd: int, start: int, stop: int) -> list[int]:
    """Return where segments begin, each after a newline, and where the last one ends."""
    cuts = [start]
    while (target := cuts[-1] + SEGMENT_BYTES) < stop:
        window = os.pread(fd, MAX_LINE_BYTES + 1, target)
        newline = window.find(b"\n")
        if newline < 0:
            break
        cuts.append(target + newline + 1)
    return cuts


def _results(
    fd: int, spans: list[tuple[int, int]], whole: Scan, jobs: int
) -> Generator[_Found | None, None, None]:
    """Yield what is found in each span, in order, while ``jobs`` processes work ahead."""
    context = multiprocessing.get_context("fork")
    ends, workers = [], []
    try:
        for number in range(jobs):
            here, there = context.Pipe(duplex=False)
            worker = context.Process(target=_work, args=(there, fd, spans[number::jobs], whole))
            worker.daemon = True
            worker.start()
            there.close()
            ends.append(here)
            workers.append(worker)
        for number in range(len(spans)):
            yield _received(ends[number % jobs])
    finally:
        for worker in workers:
            worker.kill()  # it holds nothing but an open file
            worker.join()
        for end in ends:
            end.close()


def _received(end: Connection) -> _Found | None:
    """Return what a process sends; None when it found a break, or died."""
    try:
        found: _Found | None = end.recv()
    except (EOFError, OSError):
        return None
    return found


def _work(pipe: Connection, fd: int, spans: list[tuple[int, int]], whole: Scan) -> None:
    """Verify spans in a process of our own, and send what was found in each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process answers, and ends us
    first = whole.chain.state()
    with suppress(OSError):
        for start, stop in spans:
            pipe.send(_verify(fd, start, stop, whole, first))


def _verify(fd: int, start: int, stop: int, whole: Scan, first: State) -> _Found | None:
    chain = whole.chain
    tree = chain.tree is not None
    assumed = first if start == first.size else _assume(fd, start)
    if assumed is None:
        return None
    chain.restore(replace(assumed, edge=None))
    if tree:
        chain.tree = Frontier(assumed.n)
    stops: list[_Place] = []

    def met(place: int) -> None:
        stops.append(_place(chain, place))

    part = Scan(chain, quick=whole.quick, stops=dict.fromkeys(whole.stops, met))
    try:
        for stretch in Walk(fd, stop, chain, None).stretches():
            part.take(stretch)
    except (Break, OSError):
        return None
    return _Found(replace(assumed, edge=None), tuple(stops), _place(chain, 0))


def _assume(fd: int, start: int) -> State | None:
    """Return where the chain would stand behind the line that ends before ``start``."""
    begin = max(0, start - 1 - MAX_LINE_BYTES)
    line = os.pread(fd, start - 1 - begin, begin).rpartition(b"\n")[2]
    end = _END.search(line, max(0, line.rfind(b',"kind":"')))
    try:
        at = str(line[7:31], "ascii")
    except UnicodeDecodeError:
        return None
    if end is None:
        return None
    last = sha256(line).hexdigest()
    return State(int(end[1]) + 1, start, last, at, "", 0, "", "", None)


def _place(chain: Chain, start: int) -> _Place:
    tree = chain.tree.copy() if chain.tree is not None else None
    return _Place(replace(chain.state(), edge=None), chain.text, tree, start)


def _alone() -> bool:
    """Whether no other thread runs, which a forked process would find in the midst of something."""
    return threading.active_count() == 1
