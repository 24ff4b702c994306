"""Abandoned sessions are sealed at the next start."""

from __future__ import annotations

import os

import pytest

from broker.sessions.recovery import Recovered, seal_abandoned
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]


def recovered(bench: Bench) -> list[Recovered]:
    """Seal what was abandoned."""
    return list(seal_abandoned(bench.home, bench.key(), bench.clock))


def test_an_abandoned_session_is_sealed_once(bench: Bench) -> None:
    """It gets its seal, with the reason, and is not looked at again."""
    session = bench.open()
    drop(session)
    assert recovered(bench) == [Recovered(session.sid)]
    verdict = bench.verdict(session.sid)
    assert (verdict.state, verdict.reason) == ("INTERRUPTED", "abandoned")
    assert recovered(bench) == []


def test_living_and_ended_sessions_are_left_alone(bench: Bench) -> None:
    """A session that runs goes on, and one that ended stays as it is."""
    living, ended = bench.open(), bench.open()
    ended.seal()
    before = living.receipt_path.read_bytes(), ended.receipt_path.read_bytes()
    assert recovered(bench) == []
    assert (living.receipt_path.read_bytes(), ended.receipt_path.read_bytes()) == before
    assert living.decide("Read", {"file_path": "src/a.py"}, cwd=str(bench.workspace)).allowed


def test_a_torn_line_is_mended_and_sealed(bench: Bench) -> None:
    """A line that was cut off does not keep the session from its seal."""
    session = bench.open()
    drop(session)
    with open(session.receipt_path, "ab") as file:
        file.write(b'{"at":"20')
    assert recovered(bench) == [Recovered(session.sid)]
    assert [kind for kind, _ in bench.entries(session.sid)][-2:] == ["recover", "seal"]


def test_a_receipt_that_was_tampered_with_is_never_sealed(bench: Bench) -> None:
    """A seal would cover up what is wrong; the person is told once instead."""
    session = bench.open()
    session.decide("Bash", {"command": "ls"})
    drop(session)
    text = session.receipt_path.read_bytes().replace(b'"refuse"', b'"allow!"')
    session.receipt_path.write_bytes(text)
    (found,) = recovered(bench)
    assert found.sid == session.sid
    assert "does not verify" in found.fault
    assert session.receipt_path.read_bytes() == text
    assert recovered(bench) == []


@pytest.mark.parametrize("left", ["sealed", "empty", "no receipt"])
def test_a_session_killed_at_its_first_or_last_step(bench: Bench, left: str) -> None:
    """Killed right after the seal, or before the first entry, there is nothing to tell."""
    session = bench.open()
    if left == "sealed":
        session._receipt.seal("complete", at=bench.clock())
    drop(session)
    if left != "sealed":
        receipts = bench.receipts()
        os.unlink(receipts.head_path(session.sid))
        os.unlink(session.receipt_path)
    if left == "empty":
        receipts.create(session.sid, opening={}, at=bench.clock()).close()
    (found,) = recovered(bench)
    assert (found.fault == "") == (left != "no receipt")
    assert recovered(bench) == []
