"""
A broker that ends in any way: what it signed is true of what is left, and its seal is signed.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import time
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.receipt.checkpoint import (
    Checkpoint,
    CheckpointFile,
    of_receipt,
    open_checkpoint,
    read_checkpoint,
    sign_checkpoint,
)
from broker.receipt.demand import Demand
from broker.receipt.keyring import public_key
from broker.receipt.ledger import Ledger
from broker.receipt.sealing import AuditorKey
from broker.receipt.verify import verify
from broker.receipt.writer import Receipt
from broker.session import Session
from broker.sessions.checkpointfiles import checkpoint_file
from broker.sessions.recovery import seal_abandoned
from tests.forwardkit import AUDITOR
from tests.receiptkit import in_child, outcome
from tests.runkit import asker, finished, start
from tests.sessionkit import Bench, drop
from tests.unit.test_receipt_merkle import tree_hash

LONG = 100_000


def covered(bench: Bench, sid: str) -> Checkpoint:
    """Return the checkpoint of a session, and see that the lines it covers are there."""
    note = read_checkpoint(bench.home.checkpoints / sid)
    found = open_checkpoint(note, [public_key(bench.home)], of_receipt(sid))
    lines = bench.receipts().path(sid).read_bytes().split(b"\n")[:-1]
    assert found.size <= len(lines)
    assert found.root == tree_hash(lines[: found.size])
    return found


def sealed_alone(bench: Bench, session: Session) -> None:
    """Leave a session as a broker does that is killed right after its seal."""
    session._receipt.on_seal = None
    Receipt.seal(session._receipt, "complete", at=bench.clock())
    session._ground.abandon()


def run_until(bench: Bench, number: int, bytes_: int) -> int:
    """Start a run, send it a signal when it has recorded so much, and return how it ended."""
    run = start(asker(LONG), home=bench.home.state.parent, workspace=bench.workspace)
    given_up = time.monotonic() + 60
    while time.monotonic() < given_up:
        paths = bench.home.state.glob("sessions/*/receipt.jsonl")
        if sum(path.stat().st_size for path in paths) >= bytes_:
            break
        time.sleep(0.002)
    os.kill(run.pid, number)
    return finished(run)[0]


def test_a_broker_that_is_asked_to_end_signs_its_seal(tmp_path: Path) -> None:
    """After SIGTERM the receipt is sealed, and the checkpoint covers the seal."""
    bench = Bench(tmp_path)
    run_until(bench, signal.SIGTERM, 40_000)
    (info,) = bench.receipts().sessions()
    verdict = bench.verdict(info.sid)
    assert (verdict.state, verdict.reason) == ("INTERRUPTED", "interrupted")
    assert covered(bench, info.sid).size == verdict.lines > 64


@pytest.mark.timeout(300)
def test_killed_at_random_moments_checkpoints_stay_true(tmp_path: Path) -> None:
    """Whenever a broker is killed, its checkpoint covers what is left; the next start, all."""
    chance, behind = random.Random(5), []
    for number in range(8):
        bench = Bench(tmp_path / str(number))
        assert run_until(bench, signal.SIGKILL, chance.randrange(3_000, 60_000)) == -signal.SIGKILL
        (info,) = bench.receipts().sessions()
        behind.append(bench.verdict(info.sid).lines - covered(bench, info.sid).size)
        assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
        assert covered(bench, info.sid).size == bench.verdict(info.sid).lines
    # Whatever is not covered is young: a few checkpoints' worth of lines, not a session's.
    assert max(behind) < 64 * 4


def test_killed_between_seal_and_checkpoint(tmp_path: Path) -> None:
    """A seal that was not signed any more is signed by the next start, and nothing else is done."""
    bench = Bench(tmp_path)
    session = bench.open()
    session.decide("Read", {"file_path": "src/a.py"})
    sealed_alone(bench, session)
    before = session.receipt_path.read_bytes()
    assert covered(bench, session.sid).size == 2
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    assert covered(bench, session.sid).size == bench.verdict(session.sid).lines == 4
    assert session.receipt_path.read_bytes() == before
    assert list(seal_abandoned(bench.home, bench.key(), bench.clock)) == []


@pytest.mark.parametrize("auditor", [None, AUDITOR.public], ids=["plain", "forward"])
@pytest.mark.parametrize("last", ["checkpoint", "row"])
def test_killed_before_the_end_is_told_is_no_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, auditor: AuditorKey | None
) -> None:
    """
    Until the ledger has the row of its end, a seal without its checkpoint is only warned of; the
    next start signs it and writes the row, and from then on a missing checkpoint is a break.
    """
    bench = Bench(tmp_path)
    session = bench.open(auditor=auditor)
    session.decide("Read", {"file_path": "src/a.py"})
    step = (CheckpointFile, "put") if last == "checkpoint" else (Ledger, "end")

    def killed() -> None:
        monkeypatch.setattr(*step, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        session.seal()

    assert in_child(killed) == -signal.SIGKILL
    session._ground.abandon()
    session._receipt._journal.release()
    sid, note = session.sid, bench.home.checkpoints / session.sid
    verdict = bench.verdict(sid)
    assert (verdict.state, verdict.lines) == ("SEALED", 4)
    assert covered(bench, sid).size == (2 if last == "checkpoint" else 4)
    assert any("the next start" in warning for warning in verdict.warnings)
    assert alone(bench, sid) == ("checkpoint_old" if last == "checkpoint" else "SEALED")
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    listed = bench.receipts().ledger.read().sessions[sid]
    assert listed.end is not None
    assert covered(bench, sid).size == listed.end.n == 4
    assert not [warning for warning in bench.verdict(sid).warnings if "start" in warning]
    note.unlink()
    assert outcome(lambda: bench.verdict(sid)) == "no_checkpoint"


def alone(bench: Bench, sid: str) -> str:
    """Verify a receipt as a copy is: without asking the ledger, at level signed."""
    receipts = bench.receipts()
    return outcome(
        lambda: (
            verify(
                receipts.path(sid),
                key=bench.key(),
                head=receipts.head_path(sid),
                checkpoint=bench.home.checkpoints / sid,
                vkeys=(public_key(bench.home),),
                demand=Demand("signed"),
            ).state
        )
    )


def test_a_lost_first_checkpoint_is_no_attack_before_the_end(tmp_path: Path) -> None:
    """Where the seal came, the row did not, and there is no checkpoint at all: a warning too."""
    bench = Bench(tmp_path)
    session = bench.open()
    sealed_alone(bench, session)
    (bench.home.checkpoints / session.sid).unlink()
    assert bench.verdict(session.sid).level == "mac"
    assert alone(bench, session.sid) == "no_checkpoint"
    with pytest.raises(StoreError, match="sealed"):
        Session.resume(session.sid, home=bench.home)
    # Who only wanted to go on with it has signed nothing, and so tells the ledger nothing.
    assert bench.receipts().ledger.read().sessions[session.sid].end is None
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    assert bench.verdict(session.sid).level == "signed"


def test_the_row_of_the_end_cannot_be_taken_away(tmp_path: Path) -> None:
    """Who hides a checkpoint behind a crash has to cut the ledger, and that is seen."""
    bench = Bench(tmp_path)
    session = bench.open()
    session.seal()
    (bench.home.checkpoints / session.sid).unlink()
    ledger = bench.receipts().ledger
    rows = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(rows[:-1]))
    assert outcome(lambda: bench.verdict(session.sid)) == "truncated"


@pytest.mark.parametrize("auditor", [None, AUDITOR.public], ids=["plain", "forward"])
def test_an_abandoned_session_is_covered_and_told(
    tmp_path: Path, auditor: AuditorKey | None
) -> None:
    """What the next start seals gets its checkpoint and its row, of either kind."""
    bench = Bench(tmp_path)
    session = bench.open(auditor=auditor)
    session.decide("Read", {"file_path": "src/a.py"})
    drop(session)
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    listed = bench.receipts().ledger.read().sessions[session.sid]
    assert (listed.end and listed.end.reason) == "abandoned"
    verdict = bench.verdict(session.sid)
    assert covered(bench, session.sid).size == verdict.lines == verdict.signed_lines == 4
    assert verdict.forward is (auditor is not None)


def test_a_seal_that_cannot_be_signed_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk takes no checkpoint, the ledger gets no row until the next start signs it."""
    bench = Bench(tmp_path)
    session = bench.open()
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "put", no_room)
        session.seal()
    assert bench.receipts().ledger.read().sessions[session.sid].end is None
    assert bench.verdict(session.sid).state == "SEALED"
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "put", no_room)
        (told,) = seal_abandoned(bench.home, bench.key(), bench.clock)
        assert "No space" in told.fault
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    end = bench.receipts().ledger.read().sessions[session.sid].end
    assert (end and end.n) == covered(bench, session.sid).size


def no_room(*_: object) -> None:
    """Stand for a write on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_start_covers_up_no_fork(tmp_path: Path) -> None:
    """Where the checkpoint of a killed broker speaks of other lines, nothing further is signed."""
    bench = Bench(tmp_path)
    session = bench.open()
    sealed_alone(bench, session)
    file = checkpoint_file(bench.home, session.sid)
    file.path.write_bytes(sign_checkpoint(file.key, of_receipt(session.sid), 2, bytes(32)))
    (old,) = seal_abandoned(bench.home, bench.key(), bench.clock)
    assert "does not verify" in old.fault
    kept = file.read()
    assert kept is not None
    assert kept.size == 2


def test_a_forked_child_goes_on_signing(tmp_path: Path) -> None:
    """A session that decides in a forked child is covered there, and by the parent's seal."""
    bench = Bench(tmp_path)
    session = bench.open()

    def child() -> None:
        for _ in range(70):
            session.decide("Read", {"file_path": "src/a.py"})
        given_up = time.monotonic() + 20
        while covered(bench, session.sid).size < 64 and time.monotonic() < given_up:
            time.sleep(0.005)
        os._exit(0 if covered(bench, session.sid).size >= 64 else 3)

    assert in_child(child) == 0
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    assert covered(bench, session.sid).size == bench.verdict(session.sid).lines == 74
