"""One receipt, open for writing: what is durable when, and who may share it."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import threading
import weakref
from hashlib import sha256
from pathlib import Path

import pytest

from broker.errors import LimitError, RecordError, StoreError
from broker.limits import MAX_GROUP_LINES, MAX_GROUP_S, MAX_LINE_BYTES
from broker.receipt.chain import Chain
from broker.receipt.form import RECEIPT
from broker.receipt.merkle import Frontier
from broker.receipt.verify import read_entries
from tests.receiptkit import (
    AT,
    KEY,
    Faults,
    Scene,
    failing,
    fill,
    in_child,
    new_receipts,
    outcome,
)


@pytest.fixture
def faults() -> Faults:
    """A disk that records its calls."""
    return Faults()


@pytest.fixture
def scene(tmp_path: Path, faults: Faults) -> Scene:
    """An empty home on that disk."""
    return Scene(new_receipts(tmp_path, faults.disk()))


def test_append_returns_the_entry(scene: Scene) -> None:
    """What append returns is what a reader finds."""
    receipt = fill(scene.receipts, "s1", 0)
    entry = receipt.append("note", {"text": "é"}, at=AT + 1_999_999)
    assert entry == list(read_entries(scene.path("s1"), KEY, scene.head("s1")))[entry.n]
    assert (entry.n, entry.kind, entry.data) == (1, "note", {"text": "é"})


@pytest.mark.parametrize("kind", ["open", "seal", "recover", "", "Note", "anything"])
def test_callers_append_only_their_kinds(scene: Scene, kind: str) -> None:
    """The kinds with a place of their own, and unknown ones, are not for callers."""
    receipt = fill(scene.receipts, "s1", 0)
    with pytest.raises(RecordError, match="not a kind"):
        receipt.append(kind, {}, at=AT)
    assert scene.verify("s1").lines == 1


def test_every_kind_of_callers_is_recorded(scene: Scene) -> None:
    """Each kind that callers may append verifies."""
    with fill(scene.receipts, "s1", 0) as receipt:
        for kind in sorted(RECEIPT.appended):
            receipt.append(kind, {}, at=AT)
    assert scene.verify("s1").lines == 1 + len(RECEIPT.appended)


def test_a_bad_record_writes_nothing_and_harms_nothing(scene: Scene) -> None:
    """A record that cannot be written is refused before the file is touched; others follow."""
    receipt = fill(scene.receipts, "s1", 0)
    before = scene.content("s1")
    with pytest.raises(RecordError):
        receipt.append("note", {"a": 1.5}, at=AT)
    with pytest.raises(RecordError):
        receipt.append("note", {}, at=10**30)
    with pytest.raises(LimitError):
        receipt.append("note", {"a": "x" * MAX_LINE_BYTES}, at=AT)
    assert scene.content("s1") == before
    assert receipt.append("note", {}, at=AT).n == 1


def test_records_that_release_nothing_are_not_synced(scene: Scene, faults: Faults) -> None:
    """A record that is not durable costs one write; the next durable one covers it."""
    receipt = fill(scene.receipts, "s1", 0)
    faults.calls.clear()
    for _ in range(3):
        receipt.append("note", {}, at=AT, durable=False)
    assert faults.calls == ["write"] * 3
    assert scene.verify("s1").beyond == 3
    receipt.append("note", {}, at=AT)
    assert faults.calls == [*["write"] * 4, "sync", "pwrite", "sync"]
    assert scene.verify("s1").beyond == 0


def test_a_full_group_is_made_durable(scene: Scene, faults: Faults) -> None:
    """The record that fills a group makes the whole group durable with one sync."""
    receipt = fill(scene.receipts, "s1", 0)
    faults.calls.clear()
    for _ in range(MAX_GROUP_LINES * 2):
        receipt.append("note", {}, at=AT, durable=False)
    assert faults.calls.count("pwrite") == 2
    assert scene.verify("s1").beyond == 0


@pytest.mark.parametrize("late", [int(MAX_GROUP_S * 1e9), -1])
def test_an_old_group_is_made_durable(scene: Scene, faults: Faults, late: int) -> None:
    """A record later than the group may wait, or before the first one, makes it durable."""
    receipt = fill(scene.receipts, "s1", 0)
    receipt.append("note", {}, at=AT, durable=False)
    receipt.append("note", {}, at=AT + int(MAX_GROUP_S * 1e9) - 1, durable=False)
    assert scene.verify("s1").beyond == 2
    receipt.append("note", {}, at=AT + late, durable=False)
    assert scene.verify("s1").beyond == 0


@pytest.mark.parametrize("way", ["flush", "close", "seal"])
def test_what_waits_is_made_durable_in_the_end(scene: Scene, way: str) -> None:
    """Flushing, closing and sealing leave no line that the head does not cover."""
    receipt = fill(scene.receipts, "s1", 0)
    receipt.append("note", {}, at=AT, durable=False)
    if way == "seal":
        receipt.seal("complete", at=AT)
    else:
        getattr(receipt, way)()
    assert scene.verify("s1").beyond == 0


def test_flushing_nothing_calls_nothing(scene: Scene, faults: Faults) -> None:
    """A flush with nothing waiting touches no disk, also on a closed receipt."""
    receipt = fill(scene.receipts, "s1", 0)
    faults.calls.clear()
    receipt.flush()
    receipt.close()
    receipt.flush()
    receipt.close()
    assert faults.calls == []


def test_flushing_after_another_writer(scene: Scene) -> None:
    """A flush covers what other writers added meanwhile, and leaves their fragment alone."""
    receipt = fill(scene.receipts, "s1", 0)
    receipt.append("note", {}, at=AT, durable=False)
    with scene.receipts.resume("s1", at=AT) as other:
        other.append("note", {}, at=AT)
    with open(scene.path("s1"), "ab") as file:
        file.write(b'{"at":')
    receipt.flush()
    assert (scene.verify("s1").state, scene.verify("s1").beyond) == ("TORN", 0)
    receipt.append("note", {}, at=AT)
    kinds = [entry.kind for entry in read_entries(scene.path("s1"), KEY, scene.head("s1"))]
    assert kinds == ["open", "note", "note", "recover", "note"]


def test_a_closed_receipt_takes_nothing(scene: Scene) -> None:
    """After closing, an append is refused and says so; the receipt can be resumed."""
    with fill(scene.receipts, "s1", 0) as receipt:
        pass
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.closed"
    assert outcome(lambda: receipt.seal("complete", at=AT)) == "store.closed"
    with scene.receipts.resume("s1", at=AT) as receipt:
        assert receipt.append("note", {}, at=AT).n == 1


def test_closing_while_others_append(scene: Scene) -> None:
    """A close beside appending threads waits for the line at hand; what was acknowledged stays."""
    receipt = fill(scene.receipts, "s1", 0)
    numbers: list[int] = []
    answers: list[str] = []
    begun = threading.Barrier(4)

    def work() -> None:
        begun.wait()
        try:
            while True:
                numbers.append(receipt.append("note", {}, at=AT).n)
        except StoreError as error:
            answers.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    while len(numbers) < 5:
        pass
    receipt.close()
    for thread in threads:
        thread.join()
    assert answers == ["store.closed"] * 3
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert scene.verify("s1").lines == 1 + len(numbers)


def test_writers_in_turn_do_not_sync_for_each_other(scene: Scene, faults: Faults) -> None:
    """Two writers whose records release nothing leave the syncing to their groups."""
    one = fill(scene.receipts, "s1", 0)
    two = scene.receipts.resume("s1", at=AT)
    faults.calls.clear()
    for writer in (one, two) * 5:
        writer.append("note", {}, at=AT, durable=False)
    assert faults.calls == ["write"] * 10
    two.flush()
    assert scene.verify("s1").beyond == 0


def test_a_sealed_receipt_takes_nothing(scene: Scene) -> None:
    """After the seal every append and every other seal is refused; the object knows."""
    receipt = fill(scene.receipts, "s1", 2)
    assert not receipt.sealed
    entry = receipt.seal("complete", at=AT)
    assert (entry.n, entry.kind, entry.data["n"]) == (3, "seal", 3)
    assert receipt.sealed
    before = scene.content("s1")
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.sealed"
    assert outcome(lambda: receipt.seal("complete", at=AT)) == "store.sealed"
    assert scene.content("s1") == before
    assert scene.verify("s1").root == entry.data["root"]


def test_a_seal_by_another_writer_is_seen(scene: Scene) -> None:
    """A writer finds the seal of another one, and writes nothing after it."""
    receipt = fill(scene.receipts, "s1", 0)
    scene.receipts.resume("s1", at=AT).seal("interrupted", at=AT)
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.sealed"
    assert scene.verify("s1").state == "INTERRUPTED"


def test_a_seal_needs_a_reason(scene: Scene) -> None:
    """Only the reasons of the format seal."""
    receipt = fill(scene.receipts, "s1", 0)
    with pytest.raises(RecordError, match="no reason to seal"):
        receipt.seal("finished", at=AT)
    assert not receipt.sealed


@pytest.mark.parametrize("after", ["write", "push"])
def test_an_interruption_within_an_append_is_mended(
    scene: Scene, faults: Faults, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception between the write of a line and the note of it loses nothing."""
    receipt = fill(scene.receipts, "s1", 0)

    def interrupt(name: str, real: object, fd: int, content: bytes) -> int:
        os.write(fd, content)
        raise KeyboardInterrupt

    faults.at, faults.act, faults.only = faults.calls.count("write"), interrupt, "write"
    if after == "push":
        faults.at, faults.only = faults.calls.count("pwrite"), "pwrite"
        faults.act = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        receipt.append("note", {"who": "first"}, at=AT)
    assert receipt.append("note", {"who": "second"}, at=AT).n == 2
    verdict = scene.verify("s1")
    assert (verdict.state, verdict.lines, verdict.beyond) == ("OPEN", 3, 0)


def test_an_interruption_within_the_note_of_a_line_is_mended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that leaves the chain's memory half changed does not reach the file."""
    receipt = fill(scene.receipts, "s1", 0)

    def interrupted(chain: Chain, kind: str, at: str, line: bytes) -> None:
        chain.n += 1
        chain.size += len(line) + 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Chain, "push", interrupted)
        with pytest.raises(KeyboardInterrupt):
            receipt.append("note", {}, at=AT)
    assert receipt.append("note", {}, at=AT).n == 2
    assert (scene.verify("s1").lines, scene.verify("s1").beyond) == (3, 0)


def test_a_snapshot_covers_what_is_acknowledged(scene: Scene) -> None:
    """A snapshot is the root over the durable lines: those that wait are not in it yet."""
    receipt = fill(scene.receipts, "s1", 2)
    tree = Frontier()
    tree.extend(scene.lines("s1"))
    receipt.append("note", {}, at=AT, durable=False)
    assert receipt.snapshot() == (3, tree.root())
    receipt.flush()
    assert receipt.last == (4, sha256(scene.lines("s1")[-1]).hexdigest())
    assert receipt.snapshot()[0] == 4
    sealed = receipt.seal("complete", at=AT).data
    tree.append(scene.lines("s1")[3])
    assert sealed["root"] == tree.root().hex()
    tree.append(scene.lines("s1")[4])
    assert receipt.snapshot() == (5, tree.root())


def test_a_snapshot_after_resuming_and_in_a_child(scene: Scene) -> None:
    """Who resumes a receipt, and a forked child, take the same snapshot as the writer."""
    receipt = fill(scene.receipts, "s1", 4)
    assert scene.receipts.resume("s1", at=AT).snapshot() == receipt.snapshot()

    def act() -> None:
        assert receipt.snapshot()[0] == 5

    assert in_child(act) == 0


def test_a_snapshot_does_not_wait_for_a_disk_that_failed(scene: Scene, faults: Faults) -> None:
    """After a failed sync the snapshot stays at the last lines that are safe."""
    receipt = fill(scene.receipts, "s1", 1)
    faults.at, faults.act, faults.only = faults.calls.count("sync"), failing(errno.EIO), "sync"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.sync"
    assert receipt.snapshot()[0] == 2


def test_the_end_is_told_once(scene: Scene) -> None:
    """Sealing tells of the seal, closing an unsealed receipt tells of that, each once."""
    told: list[object] = []
    for sid in ("s1", "s2"):
        receipt = fill(scene.receipts, sid, 0)
        receipt.on_seal = lambda receipt, entry: told.append((receipt.sid, entry.kind))
        receipt.on_close = lambda receipt: told.append((receipt.sid, receipt.last[0]))
        if sid == "s1":
            receipt.seal("complete", at=AT)
        receipt.close()
        receipt.close()
    assert told == [("s1", "seal"), ("s2", 1)]


def test_a_fork_while_another_thread_appends(scene: Scene) -> None:
    """A child forked while a thread was inside an append can append all the same."""
    receipt = fill(scene.receipts, "s1", 0)

    def act() -> None:
        signal.alarm(20)
        receipt.append("note", {}, at=AT)

    receipt._mutex.acquire()
    try:
        assert in_child(act) == 0
    finally:
        receipt._mutex.release()
    assert receipt.append("note", {}, at=AT).n == 2


def test_closing_tells_that_waiting_lines_are_not_durable(scene: Scene, faults: Faults) -> None:
    """A close that cannot make the waiting lines durable raises, and closes all the same."""
    receipt = fill(scene.receipts, "s1", 0)
    receipt.append("note", {}, at=AT, durable=False)
    faults.at, faults.act, faults.only = faults.calls.count("sync"), failing(errno.EIO), "sync"
    with pytest.raises(StoreError):
        receipt.close()
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.sync"


def test_a_child_holds_no_lock_of_its_parent(scene: Scene) -> None:
    """A child forked within an append keeps nobody from writing once its parent is dead."""
    receipt = fill(scene.receipts, "s1", 0)
    reader, writer = os.pipe()

    def parent() -> None:
        receipt._journal.lock(AT)
        if os.fork() == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    def other() -> None:
        signal.alarm(20)
        scene.receipts.resume("s1", at=AT).append("note", {}, at=AT)

    assert in_child(parent) == -signal.SIGKILL
    assert in_child(other) == 0
    os.close(writer)
    os.close(reader)
    assert scene.verify("s1").lines == 2


def test_a_child_closes_its_own_descriptors_only(scene: Scene) -> None:
    """A child that closes the receipt leaves the parent's open and usable."""
    receipt = fill(scene.receipts, "s1", 0)
    assert in_child(receipt.close) == 0
    assert receipt.append("note", {}, at=AT).n == 1


def files_open() -> set[str]:
    """Return the paths of all files that this process has open."""
    found = set()
    for fd in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            found.add(os.path.realpath(f"/dev/fd/{fd}"))
    return found


def test_a_dropped_receipt_gives_its_files_back(scene: Scene) -> None:
    """A receipt dropped without being closed keeps no file open, and no fork looks at it."""
    receipt = fill(scene.receipts, "s1", 0)
    gone, path = weakref.ref(receipt), os.fspath(receipt.path)
    assert path in files_open()
    del receipt
    gc.collect()
    assert gone() is None
    assert path not in files_open()
