"""
Handing checkpoints in: all that are still to be anchored, without anybody waiting for it.

Decided here: which checkpoints are handed in to whom, and that a failure is told and tried again
another time. Not decided here: how each anchor is asked (its own module).

Rules a maintainer keeps: only the newest checkpoint of a chain is handed in, since it covers the
older ones; a checkpoint of a session goes to anchors that take any origin, those of the ledger
to all; nothing that decides a call runs here or waits for what does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.anchors.anchor import Anchor
from broker.anchors.evidence import LEDGER, Anchored, Attestations
from broker.errors import BrokerError, UnverifiableError
from broker.receipt import disk
from broker.receipt.paths import consistency_path, lines_of

# Where the lines of a chain lie, by its name.
Lines = Callable[[str], Path]


@dataclass(frozen=True, slots=True)
class Handed:
    """What became of one checkpoint at one anchor; ``fault`` is empty when it was taken."""

    of: str
    size: int
    anchor: str
    fault: str = ""


def pending(evidence: Attestations, anchors: Sequence[Anchor]) -> Iterator[tuple[Anchored, Anchor]]:
    """
    Yield the newest checkpoint of each chain with every anchor that has not answered to it.

    Raises:
        UnverifiableError: a file of the evidence is unsafe.
    """
    for of in evidence.chains():
        for note in evidence.notes(of)[:1]:
            for anchor in anchors:
                takes = anchor.every_origin or of == LEDGER
                if takes and evidence.read(note, anchor.name) is None:
                    yield note, anchor


def hand_in(evidence: Attestations, anchors: Sequence[Anchor], lines: Lines) -> Iterator[Handed]:
    """
    Hand in what is pending; yield what became of each. One that fails keeps no other back.

    Raises:
        UnverifiableError: a file of the evidence is unsafe.
    """
    for note, anchor in list(pending(evidence, anchors)):
        fault = ""
        try:
            answer = anchor.submit(note.note, _Grown(lines(note.of), note.size))
            evidence.keep(note, anchor.name, answer)
        except BrokerError as error:
            fault = error.message
        yield Handed(note.of, note.size, anchor.name, fault)


@dataclass(frozen=True, slots=True)
class _Grown:
    """Proves from the lines of a chain that it only grew."""

    path: Path
    size: int

    def __call__(self, old: int) -> Sequence[bytes]:
        try:
            fd = disk.open_checked(self.path, "chain", forbidden=disk.OTHERS_WRITE)
        except UnverifiableError as error:
            raise UnverifiableError(f"nothing to prove growth with: {error}") from error
        with open(fd, "rb", closefd=True):
            return consistency_path(lines_of(fd), old, self.size)


class InBackground:
    """
    Hands in while something else goes on; ``finish`` waits for it, but not for long.

    Args:
        work: yields what became of each checkpoint.
    """

    def __init__(self, work: Callable[[], Iterable[Handed]]) -> None:
        self.handed: list[Handed] = []
        self._work = work
        self._thread = threading.Thread(target=self._run, name="anchors", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self, within_s: float) -> bool:
        """Wait for the end; whether it came. What is left is tried again another time."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            for handed in self._work():
                self.handed.append(handed)
        except BrokerError as error:
            self.handed.append(Handed("", 0, "", error.message))
