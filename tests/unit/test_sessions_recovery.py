"""Abandoned sessions are sealed at the next start."""

from __future__ import annotations

import os
from hashlib import sha256

import pytest

from broker.receipt.head import Head, HeadForm
from broker.receipt.writer import Receipt
from broker.sessions.alive import Alive
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


def test_a_session_killed_right_after_its_seal(bench: Bench) -> None:
    """There is nothing to tell, and the ledger gets the row that was missing."""
    session = bench.open()
    Receipt.seal(session._receipt, "complete", at=bench.clock())
    drop(session)
    assert bench.receipts().ledger.read().sessions[session.sid].end is None
    assert recovered(bench) == [Recovered(session.sid)]
    end = bench.receipts().ledger.read().sessions[session.sid].end
    assert end is not None
    assert end.reason == "complete"
    assert recovered(bench) == []


def test_a_session_killed_before_its_first_line(bench: Bench) -> None:
    """A head that covers nothing and an empty receipt are nothing to tell of."""
    bench.open().seal()
    receipts = bench.receipts()
    path, head = receipts.path("killed"), receipts.head_path("killed")
    Alive.begin(path.parent).drop()
    path.touch(mode=0o600)
    head.write_bytes(HeadForm("killed", bench.key()).first())
    assert recovered(bench) == [Recovered("killed")]
    assert recovered(bench) == []


def test_a_session_killed_before_its_row(bench: Bench) -> None:
    """A receipt of one line without a row gets its row, then its seal and the row of that."""
    session = bench.open()
    ledger = bench.receipts().ledger
    files = (ledger.path, ledger.head_path, bench.home.ledger / "checkpoint")
    copies = {path: path.read_bytes() for path in files}
    killed = bench.open()
    (bench.home.checkpoints / killed.sid).unlink()  # signed after what is cut off here
    cut = killed.receipt_path.read_bytes().partition(b"\n")[0] + b"\n"
    last = sha256(cut[:-1]).hexdigest()
    drop(killed)
    killed.receipt_path.write_bytes(cut)
    slot = HeadForm(killed.sid, bench.key()).slot(Head(1, last, len(cut)))
    bench.receipts().head_path(killed.sid).write_bytes(slot.ljust(1024, b"\0"))
    for path, content in copies.items():
        path.write_bytes(content)
    assert recovered(bench) == [Recovered(killed.sid)]
    listed = ledger.read().sessions[killed.sid]
    assert (listed.first, listed.end and listed.end.reason) == (last, "abandoned")
    session.seal()


@pytest.mark.parametrize("taken", ["receipt", "both"])
def test_a_session_that_was_taken_away_is_told(bench: Bench, taken: str) -> None:
    """A session that began and is gone is a loss, said once."""
    session = bench.open()
    drop(session)
    os.unlink(session.receipt_path)
    if taken == "both":
        os.unlink(bench.receipts().head_path(session.sid))
    (found,) = recovered(bench)
    assert "does not verify" in found.fault
    assert recovered(bench) == []


def test_where_the_ledger_does_not_verify_nothing_is_touched(bench: Bench) -> None:
    """Once the ledger is back, what was abandoned is still sealed."""
    session = bench.open()
    drop(session)
    ledger = bench.receipts().ledger
    content = ledger.path.read_bytes()
    ledger.path.unlink()
    before = session.receipt_path.read_bytes()
    (found,) = recovered(bench)
    assert "the ledger does not verify" in found.fault
    assert session.receipt_path.read_bytes() == before
    ledger.path.write_bytes(content)
    ledger.path.chmod(0o600)
    assert recovered(bench) == [Recovered(session.sid)]
    assert bench.verdict(session.sid).reason == "abandoned"
