"""Handing checkpoints in: which, to whom, and what a failure leaves."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.anchors.anchor import AnchorError, Attested, Consistency
from broker.anchors.evidence import LEDGER, Attestations
from broker.anchors.submitting import Handed, InBackground, hand_in, pending
from broker.home import Home
from tests.anchorkit import Log


@dataclass
class Kept:
    """An anchor that remembers what it was given, and can be told to be away."""

    name: str = "kept"
    every_origin: bool = True
    away: bool = False
    given: list[bytes] = field(default_factory=list)
    proven: list[list[bytes]] = field(default_factory=list)

    def submit(self, note: bytes, consistency: Consistency) -> bytes:
        """Take it."""
        if self.away:
            raise AnchorError("away")
        self.given.append(note)
        self.proven.append(list(consistency(2)))
        return b"seen"

    def check(self, note: bytes, evidence: bytes, now: int) -> Attested:
        """Believe it."""
        return Attested(self.name)

    def newest(self, origin: str) -> bytes | None:
        """Tell nothing."""
        return None


@pytest.fixture
def evidence(tmp_path: Path) -> Attestations:
    """The evidence of a fresh home."""
    return Attestations(Home.find({"BROKER_HOME": str(tmp_path)}))


def lines(tmp_path: Path, log: Log) -> Path:
    """Write the lines of a log as a file of a receipt is."""
    path = tmp_path / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in log.lines))
    path.chmod(0o600)
    return path


def test_the_newest_of_each_chain_is_handed_in_once(evidence: Attestations, tmp_path: Path) -> None:
    """Older ones are covered; what was answered is not asked for again."""
    log, anchor = Log(9), Kept()
    path = lines(tmp_path, log)
    for size in (3, 5, 9):
        evidence.keep_note("s1", size, log.note(size))
    assert list(hand_in(evidence, [anchor], lambda of: path)) == [Handed("s1", 9, "kept")]
    assert anchor.given == [log.note(9)]
    assert anchor.proven == [list(log.grown(9)(2))]
    assert list(hand_in(evidence, [anchor], lambda of: path)) == []


def test_a_failure_is_told_and_tried_again(evidence: Attestations, tmp_path: Path) -> None:
    """An anchor that is away keeps no other back, and gets the checkpoint next time."""
    log, away, here = Log(9), Kept("away", away=True), Kept("here")
    path = lines(tmp_path, log)
    evidence.keep_note("s1", 9, log.note(9))
    assert list(hand_in(evidence, [away, here], lambda of: path)) == [
        Handed("s1", 9, "away", "away"),
        Handed("s1", 9, "here"),
    ]
    away.away = False
    assert list(hand_in(evidence, [away, here], lambda of: path)) == [Handed("s1", 9, "away")]


def test_an_anchor_of_one_log_gets_the_ledgers_only(evidence: Attestations) -> None:
    """Who must be told of each origin before is not asked about every session."""
    log = Log(9)
    evidence.keep_note("s1", 9, log.note(9))
    evidence.keep_note(LEDGER, 5, log.note(5))
    found = [(note.of, anchor.name) for note, anchor in pending(evidence, [Kept("w", False)])]
    assert found == [(LEDGER, "w")]


def test_a_chain_that_is_gone_is_a_fault_of_its_own(evidence: Attestations, tmp_path: Path) -> None:
    """Where growth cannot be proven, that is told, and nothing is kept as evidence."""
    log = Log(9)
    note = evidence.keep_note("s1", 9, log.note(9))
    (told,) = hand_in(evidence, [Kept()], lambda of: tmp_path / "gone")
    assert "nothing to prove growth with" in told.fault
    assert evidence.read(note, "kept") is None


def test_nobody_waits_for_long() -> None:
    """`finish` comes back although the work does not, and says so."""
    hold = threading.Event()

    def work() -> list[Handed]:
        hold.wait(30)
        return [Handed("s1", 1, "a")]

    background = InBackground(work)
    background.start()
    assert not background.finish(0.05)
    hold.set()
    assert background.finish(30)
    assert background.handed == [Handed("s1", 1, "a")]
