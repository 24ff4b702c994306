"""Checkpoints beside a running session: when they are made, and that nothing waits for them."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import BrokerError, StoreError
from broker.events import CheckpointFailed, Event
from broker.receipt.checkpoint import (
    Checkpoint,
    CheckpointFile,
    of_receipt,
    open_checkpoint,
    read_checkpoint,
)
from broker.receipt.disk import DISK, Disk
from broker.receipt.keyring import public_key
from broker.receipt.signing import SigningKey
from broker.session import Session
from broker.sessions import checkpointing
from broker.sessions.checkpointing import Checkpointer, Track
from broker.sessions.recovery import seal_abandoned
from tests.receiptkit import in_child
from tests.sessionkit import Bench
from tests.unit.test_receipt_merkle import tree_hash

KEY = SigningKey.of(bytes(range(32)))
ARGUMENTS = {"file_path": "src/a.py"}


def until(true: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Wait until something is true; say whether it came to be."""
    given_up = time.monotonic() + within_s
    while time.monotonic() < given_up:
        if true():
            return True
        time.sleep(0.005)
    return true()


class Lines:
    """A chain that only counts, and a checkpointer of it with short pauses."""

    def __init__(self, place: Path, *, system: Disk = DISK, pause_s: float = 60.0) -> None:
        self.n = 1
        self.told: list[str] = []
        self.file = CheckpointFile(place / "checkpoints" / "s1", KEY, of_receipt("s1"))
        self.file._disk = system
        track = Track(lambda: (self.n, bytes([self.n % 256]) * 32), self.file)
        self.made = Checkpointer([track], tell=self.told.append, lines=4, pause_s=pause_s)

    def wrote(self, count: int = 1) -> None:
        """Write lines."""
        for _ in range(count):
            self.n += 1
            self.made.wrote(self.n - 1)

    def covered(self) -> int:
        """Return how many lines the file covers."""
        found = self.file.read()
        return 0 if found is None else found.size


def test_the_first_is_there_when_the_session_is(tmp_path: Path) -> None:
    """The first checkpoint is made before anything goes on."""
    lines = Lines(tmp_path)
    lines.made.begin()
    assert lines.covered() == 1
    assert lines.made.end() == ""


def test_one_follows_so_many_lines(tmp_path: Path) -> None:
    """After so many lines one is made at once, and none before."""
    lines = Lines(tmp_path)
    lines.made.begin()
    lines.wrote(3)
    time.sleep(0.1)
    assert lines.covered() == 1
    lines.wrote(1)
    assert until(lambda: lines.covered() == 5)
    lines.wrote(9)
    assert until(lambda: lines.covered() == 14)
    lines.made.stop()


def test_one_follows_a_pause(tmp_path: Path) -> None:
    """Fewer lines are covered after a while, and nothing is written when there are none."""
    lines = Lines(tmp_path, pause_s=0.02)
    lines.made.begin()
    lines.wrote(1)
    assert until(lambda: lines.covered() == 2)
    before = lines.file.path.stat()
    time.sleep(0.1)
    assert lines.file.path.stat().st_ino == before.st_ino
    lines.made.stop()


def test_lines_that_come_fast_are_signed_a_few_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many lines are due, the next one waits its time, and the end waits for none."""
    monkeypatch.setattr(checkpointing, "MIN_CHECKPOINT_S", 600.0)
    lines = Lines(tmp_path)
    lines.made.begin()
    lines.wrote(4)
    assert until(lambda: lines.covered() == 5)
    lines.wrote(400)
    time.sleep(0.1)
    assert lines.covered() == 5
    assert (lines.made.end(), lines.covered()) == ("", 405)


def test_the_last_covers_all(tmp_path: Path) -> None:
    """At the end everything is covered, and nothing is signed after that."""
    lines = Lines(tmp_path)
    lines.made.begin()
    lines.wrote(2)
    assert (lines.made.end(), lines.covered()) == ("", 3)
    lines.wrote(50)
    time.sleep(0.05)
    assert lines.covered() == 3


def test_a_session_without_a_checkpoint_does_not_begin(tmp_path: Path) -> None:
    """Where the first cannot be made, the beginning says so."""
    (tmp_path / "checkpoints").write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        Lines(tmp_path).made.begin()
    assert caught.value.code == "store.checkpoint"


def test_a_failure_is_told_once_and_mended(tmp_path: Path) -> None:
    """While nothing can be signed that is told once; when it can be again, it is."""
    lines = Lines(tmp_path, pause_s=0.01)
    lines.made.begin()
    folder = tmp_path / "checkpoints"
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"")
    lines.wrote(1)
    assert until(lambda: bool(lines.told))
    lines.wrote(20)
    time.sleep(0.1)
    assert len(lines.told) == 1
    assert "no checkpoint could be signed" in lines.told[0]
    folder.unlink()
    assert until(lambda: lines.covered() == 22)
    lines.made.stop()


def test_whoever_is_told_cannot_stop_it(tmp_path: Path) -> None:
    """One who breaks when told does not end the thread, nor does a snapshot that breaks."""
    lines = Lines(tmp_path, pause_s=0.01)
    lines.made.begin()
    whole, broken = lines.made._tracks[0].snapshot, []

    def breaks() -> tuple[int, bytes]:
        broken.append(1)
        raise RuntimeError("no")

    lines.made._tell = lambda why: 1 // 0
    lines.made._tracks[0].snapshot = breaks
    lines.wrote(9)
    assert until(lambda: len(broken) > 2)
    lines.made._tracks[0].snapshot = whole
    assert until(lambda: lines.covered() == 10)
    lines.made.stop()


def test_nothing_waits_for_a_slow_disk(tmp_path: Path) -> None:
    """While a checkpoint hangs in its sync, writing a line takes no time."""
    slow = threading.Event()

    def sync(fd: int) -> None:
        if lines.n > 1:
            assert slow.wait(30)

    lines = Lines(tmp_path, system=Disk(sync=sync))
    lines.made.begin()
    lines.wrote(4)
    time.sleep(0.05)
    start = time.perf_counter()
    lines.wrote(1_000)
    assert time.perf_counter() - start < 0.5
    assert lines.covered() == 1
    slow.set()
    assert until(lambda: lines.covered() > 4)
    lines.made.stop()


def test_a_checkpoint_never_goes_back(tmp_path: Path) -> None:
    """A file that covers more lines stays; the same lines with another root are refused."""
    lines = Lines(tmp_path)
    lines.file.put(9, bytes(32))
    lines.made.begin()
    assert lines.covered() == 9
    with pytest.raises(BrokerError, match="another root"):
        lines.file.put(9, bytes([1]) * 32)
    lines.file.path.write_bytes(b"what an attacker put there")
    lines.wrote(3)
    assert (lines.made.end(), lines.covered()) == ("", 4)


def test_after_a_fork_both_go_on(tmp_path: Path) -> None:
    """A forked child starts a thread of its own with its first line; the parent keeps its own."""
    lines = Lines(tmp_path, pause_s=0.02)
    lines.made.begin()

    def child() -> None:
        assert lines.made._thread is None
        lines.wrote(7)
        assert until(lambda: lines.covered() == 8)
        os._exit(7)

    assert in_child(child) == 7
    lines.wrote(2)
    time.sleep(0.1)
    assert lines.covered() == 8  # what the child signed covers more
    lines.wrote(6)
    assert until(lambda: lines.covered() == 9)
    lines.made.stop()


def test_a_fork_in_the_middle_of_a_checkpoint(tmp_path: Path) -> None:
    """A child forked while the thread holds its lock is not held up by it."""
    held, go_on = threading.Event(), threading.Event()

    def sync(fd: int) -> None:
        if lines.n == 5 and os.getpid() == parent:
            held.set()
            assert go_on.wait(30)

    parent = os.getpid()
    lines = Lines(tmp_path, system=Disk(sync=sync))
    lines.made.begin()
    lines.wrote(4)
    assert held.wait(30)
    # The lock of the folder is the parent's until its checkpoint is written.
    threading.Timer(0.2, go_on.set).start()

    def child() -> None:
        lines.wrote(6)
        assert until(lambda: lines.covered() == 11)
        os._exit(7)

    assert in_child(child) == 7
    lines.made.stop()


# ── with a session ──


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def found(bench: Bench, session: Session) -> Checkpoint:
    """Return the checkpoint of a session, and see that its root is that of the lines."""
    note = read_checkpoint(bench.home.checkpoints / session.sid)
    checkpoint = open_checkpoint(note, [public_key(bench.home)], of_receipt(session.sid))
    lines = session.receipt_path.read_bytes().split(b"\n")[:-1]
    assert checkpoint.root == tree_hash(lines[: checkpoint.size])
    return checkpoint


def test_a_session_is_signed_from_begin_to_seal(bench: Bench) -> None:
    """A session promises its level, has a checkpoint at once, and is covered to its seal."""
    session = bench.open()
    assert bench.entries(session.sid)[0][1]["level"] == "signed"
    assert found(bench, session).size == 2
    for _ in range(130):
        session.decide("Read", ARGUMENTS)
    assert until(lambda: found(bench, session).size > 64)
    session.seal()
    assert found(bench, session).size == bench.verdict(session.sid).lines == 133


def test_a_resumed_session_is_signed_too(bench: Bench) -> None:
    """A session that goes on in another process is covered again."""
    session = bench.open()
    session._ground.abandon()
    session._receipt.close()
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    again.decide("Read", ARGUMENTS)
    again.seal()
    assert found(bench, again).size == bench.verdict(again.sid).lines == 4


def test_decisions_do_not_need_checkpoints(bench: Bench) -> None:
    """With nowhere to write one, a session decides, seals, and says what is missing."""
    told: list[Event] = []
    bench.bus.subscribe(told.append)
    session = bench.open()
    shutil.rmtree(bench.home.checkpoints)
    bench.home.checkpoints.write_bytes(b"")
    for _ in range(70):
        assert session.decide("Glob", {}).refusal is not None
    session.decide("Read", ARGUMENTS)
    session.seal()
    failures = [event for event in told if isinstance(event, CheckpointFailed)]
    assert failures
    assert {event.sid for event in failures} == {session.sid}
    assert bench.entries(session.sid)[-1][0] == "seal"
    bench.home.checkpoints.unlink()
    assert [r.fault for r in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    assert bench.verdict(session.sid).state == "SEALED"


def test_an_unsafe_signing_key_begins_no_session(bench: Bench) -> None:
    """A seed that others can read signs nothing, and no session promises that it does."""
    bench.open().seal()
    (bench.home.keys / "signing.key").chmod(0o644)
    with pytest.raises(BrokerError, match="chmod 600"):
        bench.open()


def test_a_session_that_was_dropped_keeps_no_thread(tmp_path: Path) -> None:
    """Who lets a session go without sealing it is not left with a thread for each."""
    before = {thread.ident for thread in threading.enumerate()}
    session = Bench(tmp_path).open()
    mine = [t for t in threading.enumerate() if t.ident not in before]
    assert [thread.name for thread in mine] == ["checkpoints"]
    del session
    gc.collect()
    mine[0].join(10)
    assert not mine[0].is_alive()
