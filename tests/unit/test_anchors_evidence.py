"""Where checkpoints that are to be anchored lie, and what anchors answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.anchors.evidence import Anchored, Attestations
from broker.errors import UnverifiableError
from broker.home import Home


@pytest.fixture
def evidence(tmp_path: Path) -> Attestations:
    """The evidence of a fresh home."""
    return Attestations(Home.find({"BROKER_HOME": str(tmp_path)}))


def test_what_is_kept_is_read(evidence: Attestations) -> None:
    """Notes come back the largest first, evidence by its anchor, and nothing is made up."""
    assert evidence.chains() == []
    assert evidence.notes("s1") == []
    small = evidence.keep_note("s1", 9, b"nine")
    large = evidence.keep_note("s1", 12, b"twelve")
    evidence.keep_note("ledger", 3, b"three")
    assert evidence.chains() == ["ledger", "s1"]
    assert evidence.notes("s1") == [large, small]
    assert evidence.read(large, "tsa") is None
    evidence.keep(large, "tsa", b"token")
    assert evidence.read(large, "tsa") == b"token"
    assert evidence.read(small, "tsa") is None


def test_other_files_are_passed_over(evidence: Attestations, tmp_path: Path) -> None:
    """Only names that are a number are notes."""
    kept = evidence.keep_note("s1", 9, b"nine")
    for name in ("09.note", "x.note", "9.note.bak", ".9.note.new"):
        (evidence.folder / "s1" / name).write_bytes(b"x")
    assert evidence.notes("s1") == [kept]


def test_unsafe_and_huge_files_are_refused(evidence: Attestations, tmp_path: Path) -> None:
    """A link, and more than any evidence can be, are told and not read."""
    evidence.keep_note("s1", 9, b"nine")
    note = Anchored("s1", 9, b"nine")
    (evidence.folder / "s1" / "9.tsa").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnverifiableError):
        evidence.read(note, "tsa")
    evidence.keep(note, "big", b"x" * (2**20 + 1))
    with pytest.raises(UnverifiableError, match="more than"):
        evidence.read(note, "big")
