"""
A broker that ends in any way: what it signed is true of what is left, and its seal is signed.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from broker.receipt.checkpoint import (
    Checkpoint,
    of_receipt,
    open_checkpoint,
    read_checkpoint,
    sign_checkpoint,
)
from broker.receipt.keyring import public_key
from broker.sessions.ground import checkpoint_file
from broker.sessions.recovery import seal_abandoned
from tests.receiptkit import in_child
from tests.runkit import asker, finished, start
from tests.sessionkit import Bench
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
    session._receipt.seal("complete", at=bench.clock())
    session._ground.abandon()
    before = session.receipt_path.read_bytes()
    assert covered(bench, session.sid).size == 2
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    assert covered(bench, session.sid).size == bench.verdict(session.sid).lines == 4
    assert session.receipt_path.read_bytes() == before
    assert list(seal_abandoned(bench.home, bench.key(), bench.clock)) == []


def test_a_start_covers_up_no_fork(tmp_path: Path) -> None:
    """Where the checkpoint of a killed broker speaks of other lines, nothing further is signed."""
    bench = Bench(tmp_path)
    session = bench.open()
    session._receipt.seal("complete", at=bench.clock())
    session._ground.abandon()
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
