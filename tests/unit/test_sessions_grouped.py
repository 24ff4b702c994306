"""Decisions that become durable together."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.budgets.memory import MemoryStore
from broker.budgets.shared import SharedBudget
from broker.errors import StoreError
from broker.events import CallDecided
from broker.receipt.disk import Disk
from broker.session import Session
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def _ask(session: Session, path: str = "src/a.py") -> bool:
    return session.decide("Read", {"file_path": path}, durable=False).allowed


def test_nothing_is_told_before_it_is_durable(bench: Bench) -> None:
    """A decision of a group is written at once, and told on the bus after the flush only."""
    heard: list[object] = []
    bench.bus.subscribe(heard.append)
    session = bench.open(["tools=Read"])
    heard.clear()
    safe = session._receipt.snapshot()[0]
    assert [_ask(session) for _ in range(3)] == [True, True, True]
    assert heard == []
    assert session._receipt.snapshot()[0] == safe
    session.flush()
    assert [type(event) for event in heard] == [CallDecided] * 3
    assert session._receipt.snapshot()[0] == safe + 3
    assert session.over == ""
    session.seal()
    assert [kind for kind, _ in bench.entries(session.sid)].count("decision") == 3


def test_a_session_knows_whether_its_decisions_wait_for_others(bench: Bench) -> None:
    """Its own memory is here; shared counts, and second opinions, may be over a network."""
    session = bench.open(["tools=Read", "calls=2"])
    assert not session.waits
    session._ground.counsel.opinions = (object(),)
    assert session.waits
    session._ground.counsel.opinions = ()
    session._custody.root.budget = SharedBudget(MemoryStore(), "h", trees=())
    assert session.waits


def test_counts_hold_within_a_group(bench: Bench) -> None:
    """A group that has not been flushed spends the budget like any other calls."""
    session = bench.open(["tools=Read", "calls=2"])
    assert [_ask(session) for _ in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("which", ["sync", "write"])
def test_a_group_that_is_not_durable_was_never_made(bench: Bench, which: str) -> None:
    """Where the disk fails at a later line or at the sync, flush raises and the session is over."""
    session = bench.open(["tools=Read"])
    assert _ask(session)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    failing = Disk(sync=broken) if which == "sync" else Disk(write=broken)
    session._receipt._journal._disk = failing
    if which == "write":
        assert not _ask(session)
    with pytest.raises(StoreError):
        session.flush()
    assert "cannot be written" in session.over
    with pytest.raises(StoreError):
        session.flush()
    refusal = session.decide("Read", {"file_path": "src/a.py"}).refusal
    assert refusal is not None
    assert refusal.caveat == "session"


def test_a_full_disk_that_could_be_sealed_keeps_what_was_written(
    bench: Bench, tmp_path: Path
) -> None:
    """What a full disk's own seal made durable may be told: flush says nothing then."""
    session = bench.open(["tools=Read"])
    assert _ask(session)
    full = iter([OSError(errno.ENOSPC, "full")])
    real = Disk()

    def write(fd: int, content: bytes) -> int:
        for error in full:
            raise error
        return real.write(fd, content)

    session._receipt._journal._disk = Disk(write=write)
    assert not _ask(session)
    assert session._receipt.sealed
    session.flush()
    assert bench.verdict(session.sid).lines == 4
