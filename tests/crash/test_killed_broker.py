"""
A broker that is killed at any moment: no receipt is left that fails to verify other than as torn,
and none that lost a decision whose answer had reached the agent.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from broker.sessions.recovery import seal_abandoned
from tests.runkit import asker, finished, start
from tests.sessionkit import Bench

LONG = 100_000


def written(bench: Bench) -> int:
    """Return how many bytes all receipts have together."""
    return sum(path.stat().st_size for path in bench.home.state.glob("sessions/*/receipt.jsonl"))


def killed(bench: Bench, after_s: float, after_bytes: int) -> tuple[str, list[str]]:
    """Kill a run's broker at some moment; return its error text and the answers it had given."""
    wanted = written(bench) + after_bytes
    run = start(asker(LONG), home=bench.home.state.parent, workspace=bench.workspace)
    # Some moments are counted in what is recorded, so that a busy machine reaches them too.
    given_up = time.monotonic() + 60
    while after_bytes and written(bench) < wanted and time.monotonic() < given_up:
        time.sleep(0.002)
    time.sleep(after_s)
    os.kill(run.pid, signal.SIGKILL)
    code, out, err = finished(run)
    assert code == -signal.SIGKILL, err
    # The agent's last line may have been cut off with it.
    return err, out.splitlines() if out.endswith("\n") else out.splitlines()[:-1]


def check(bench: Bench, answers: list[str], before: set[str]) -> bool:
    """Check what one killed run left behind; return whether it had begun a receipt."""
    if not (bench.home.data / "keys/receipt.key").exists():
        assert answers == []
        return False
    receipts = bench.receipts()
    fresh = {info.sid for info in receipts.sessions() if info.has_receipt} - before
    if not fresh:
        assert answers == []
        return False
    (sid,) = fresh
    if receipts.path(sid).stat().st_size == 0:
        assert answers == []
        return False
    verdict = bench.verdict(sid)
    assert verdict.state in ("OPEN", "TORN")
    recorded = {}
    for kind, data in bench.entries(sid):
        if kind == "decision":
            said = "allow" if data["decision"] == "allow" else data["caveat"]
            recorded[data["call"]] = said
    for line in answers:
        call, said = line.split()
        if said != "session":  # the broker was dead by then, and the client said so itself
            assert recorded[call] == said, f"{call} was answered and is not recorded"
    assert not any(line.startswith("s") and line.endswith("allow") for line in answers)
    recovered = [r for r in seal_abandoned(bench.home, bench.key(), bench.clock) if r.sid == sid]
    assert [r.fault for r in recovered] == [""]
    assert bench.verdict(sid).reason == "abandoned"
    return True


def kill_many(bench: Bench, times: int, seed: int) -> int:
    """Kill so many runs at random moments; return how many had begun a receipt: half, at least."""
    chance = random.Random(seed)
    began = 0
    for number in range(times):
        before = (
            {info.sid for info in bench.receipts().sessions()}
            if (bench.home.data / "keys/receipt.key").exists()
            else set()
        )
        early = number % 2 == 0
        after_s = chance.uniform(0, 0.9) if early else chance.uniform(0, 0.01)
        _, answers = killed(bench, after_s, 0 if early else chance.randrange(1, 20_000))
        began += check(bench, answers, before)
    return began


@pytest.mark.timeout(300)
def test_killed_at_random_moments_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Twenty kills: every receipt verifies, and holds every answer that was given."""
    assert kill_many(Bench(tmp_path), 20, seed=7) >= 10


@pytest.mark.deep
@pytest.mark.timeout(3_600)
def test_killed_very_often_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Two hundred kills, at other moments each time."""
    assert kill_many(Bench(tmp_path), 200, seed=time.time_ns()) >= 100
