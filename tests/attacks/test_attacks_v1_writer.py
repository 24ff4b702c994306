"""
Attacks on a writer at work, and what it costs to verify.

The last test holds the classes of all cases against the catalogue.
"""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from broker.errors import FatalStoreError
from broker.receipt.verify import read_entries
from tests.attacks import test_attacks_v1 as verifier
from tests.receiptkit import (
    AT,
    KEY,
    Faults,
    Scene,
    decision,
    failing,
    fill,
    in_child,
    new_receipts,
    outcome,
    short,
)

WRITER = """
import sys
from pathlib import Path
from tests.receiptkit import AT, decision, new_receipts
place, sid, count, durable = sys.argv[1:]
with new_receipts(Path(place)).resume(sid, at=AT) as receipt:
    for i in range(int(count)):
        receipt.append("decision", decision(i), at=AT, durable=durable == "1")
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def start_writer(place: Path, sid: str, count: int, *, durable: bool) -> subprocess.Popen[bytes]:
    """Start a process that resumes a session and appends to it."""
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(place), sid, str(count), str(int(durable))],
        env={**os.environ, "PYTHONPATH": root},
    )


# ── files ──


@pytest.mark.parametrize("what", ["receipt", "head"])
def test_f09_a_file_made_beforehand(scene: Scene, what: str) -> None:
    """F09: a session whose receipt or head is there already does not begin, nor touch it."""
    path = scene.path("s9") if what == "receipt" else scene.head("s9")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    assert outcome(lambda: scene.receipts.create("s9", opening={}, at=AT)) == "store.exists"
    assert path.read_bytes() == b""


@pytest.mark.parametrize("trick", ["rename", "unlink", "replace", "link", "open up"])
@pytest.mark.parametrize("what", ["receipt", "head"])
def test_f10_f11_a_file_moved_away_under_the_writer(scene: Scene, trick: str, what: str) -> None:
    """F10, F11: a writer whose receipt or head left its place releases nothing more."""
    receipt = scene.receipts.resume("s2", at=AT)
    path = receipt.path if what == "receipt" else receipt.head_path
    before = path.read_bytes()
    aside = path.with_name("aside")
    if trick == "link":
        os.link(path, aside)
    elif trick == "open up":
        path.chmod(0o666)
    elif trick == "unlink":
        path.unlink()
    else:
        os.rename(path, aside)
        if trick == "replace":
            path.write_bytes(before)
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.replaced"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.replaced"
    if trick != "unlink":
        assert (aside if aside.exists() else path).read_bytes() == before


def test_f15_the_lock_removed_while_held(scene: Scene) -> None:
    """F15: the lock is the head; with it gone nobody else can write, and its holder refuses."""
    receipt = scene.receipts.resume("s2", at=AT)
    before = scene.content("s2")
    scene.head("s2").unlink()
    assert outcome(lambda: scene.receipts.resume("s2", at=AT)) == "no_head"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.replaced"
    assert scene.content("s2") == before


# ── many writers ──


@pytest.mark.parametrize("durable", [True, False])
def test_w01_w06_processes_append_while_others_verify(tmp_path: Path, durable: bool) -> None:
    """W01, W06: six processes lose no line, and verifying meanwhile never finds a break."""
    scene = Scene(new_receipts(tmp_path))
    fill(scene.receipts, "s2", 10).close()
    writers = [start_writer(tmp_path, "s2", 25, durable=durable) for _ in range(6)]
    verdicts = 0
    while any(writer.poll() is None for writer in writers):
        assert scene.verify("s2").state in {"OPEN", "TORN"}
        verdicts += 1
    assert [writer.wait() for writer in writers] == [0] * 6
    assert verdicts > 3
    verdict = scene.verify("s2")
    assert (verdict.state, verdict.lines, verdict.beyond) == ("OPEN", 11 + 150, 0)


def test_w02_threads_share_one_receipt(scene: Scene) -> None:
    """W02: threads that share one receipt lose no line, and each gets its own number."""
    receipt = scene.receipts.resume("s2", at=AT)
    numbers: list[int] = []

    def work() -> None:
        for i in range(8):
            numbers.append(receipt.append("note", {"i": i}, at=AT, durable=i % 2 == 0).n)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    receipt.close()
    assert sorted(numbers) == list(range(11, 11 + 128))
    assert scene.verify("s2").lines == 11 + 128


def test_w03_parent_and_child_append_after_a_fork(scene: Scene) -> None:
    """W03: after a fork both sides append through the same object, and no line is lost."""
    receipt = scene.receipts.resume("s2", at=AT)
    receipt.append("note", {"who": "parent"}, at=AT, durable=False)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for i in range(10):
                    receipt.append("note", {"i": i}, at=AT)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for i in range(10):
        receipt.append("note", {"i": i}, at=AT)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    receipt.append("note", {"who": "parent"}, at=AT)
    assert scene.verify("s2").lines == 11 + 1 + 40 + 1


def test_w05_a_writer_dies_with_the_lock(scene: Scene) -> None:
    """W05: a writer killed in the middle of a line leaves a lock and a receipt others can use."""
    receipt = scene.receipts.resume("s2", at=AT)

    def die(name: str, real: object, fd: int, content: bytes) -> None:
        os.write(fd, content[:100])
        os.kill(os.getpid(), signal.SIGKILL)

    def act() -> None:
        faults = Faults(0, die, "write")
        other = new_receipts(scene.path("s2").parents[3], faults.disk())
        other.resume("s2", at=AT).append("note", {}, at=AT)

    assert in_child(act) == -signal.SIGKILL
    assert scene.verify("s2").state == "TORN"
    receipt.append("note", {}, at=AT)
    kinds = [entry.kind for entry in read_entries(scene.path("s2"), KEY, scene.head("s2"))]
    assert kinds[11:] == ["recover", "note"]


# ── crashes and failing disks ──


def test_d01_every_cut_of_the_last_line_is_mended(tmp_path: Path) -> None:
    """D01: a line cut anywhere beyond the head is torn, and after recovery all verifies."""
    scene = Scene(new_receipts(tmp_path))
    fill(scene.receipts, "s2", 1).close()
    head, start = scene.head("s2").read_bytes(), len(scene.content("s2"))
    ledger = scene.receipts.ledger
    rows = {path: path.read_bytes() for path in (ledger.path, ledger.head_path)}
    scene.receipts.resume("s2", at=AT).append("note", {}, at=AT)
    content = scene.content("s2")
    for cut in range(start + 1, len(content)):
        scene.path("s2").write_bytes(content[:cut])
        scene.head("s2").write_bytes(head)
        for path, before in rows.items():
            path.write_bytes(before)
        assert scene.outcome("s2") == "TORN"
        with scene.receipts.resume("s2", at=AT) as receipt:
            receipt.append("note", {}, at=AT)
        entries = list(read_entries(scene.path("s2"), KEY, scene.head("s2")))
        assert [entry.kind for entry in entries] == ["open", "decision", "recover", "note"]
        kept = scene.path("s2").with_name(str(entries[2].data["kept"]))
        assert kept.read_bytes() == content[start:cut]


def test_d02_a_feigned_crash_hides_nothing(scene: Scene) -> None:
    """D02: a cut into an acknowledged line is a break, and the writer refuses to go on."""
    content = scene.content("s2")[:-100]
    scene.path("s2").write_bytes(content)
    assert scene.outcome("s2") == "truncated"
    assert outcome(lambda: scene.receipts.resume("s2", at=AT)) == "truncated"
    assert scene.content("s2") == content


def test_d03_a_full_disk_seals(tmp_path: Path) -> None:
    """D03: a disk that fills within a line refuses the action, mends the line and seals."""
    faults = Faults()
    scene = Scene(new_receipts(tmp_path, faults.disk()))
    receipt = fill(scene.receipts, "s2", 3)

    def full(name: str, real: object, fd: int, content: bytes) -> int:
        os.write(fd, content[:50])
        raise OSError(errno.ENOSPC, "no space left on device")

    faults.at, faults.act, faults.only = faults.calls.count("write"), full, "write"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.disk_full"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.disk_full"
    verdict = scene.verify("s2")
    assert (verdict.state, verdict.reason, verdict.lines) == ("INTERRUPTED", "disk-full", 6)
    assert not receipt.path.with_name("receipt.reserve").exists()


def test_d03_a_file_size_limit_leaves_a_torn_line(scene: Scene) -> None:
    """D03: where not even the seal can be written, the receipt is torn until it is resumed."""

    def act() -> None:
        receipt = scene.receipts.resume("s2", at=AT)
        size = len(scene.content("s2"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
        for _ in range(2):
            try:
                receipt.append("note", {}, at=AT)
            except FatalStoreError as error:
                assert error.code == "store.short_write"
            else:
                raise AssertionError("an action was released")

    assert in_child(act) == 0
    assert scene.outcome("s2") == "TORN"
    scene.receipts.resume("s2", at=AT).close()
    assert scene.outcome("s2") == "OPEN"


@pytest.mark.parametrize("which", [0, 1])
def test_d04_a_failed_sync_ends_the_session(tmp_path: Path, which: int) -> None:
    """D04: when the receipt or the head cannot be synced, nothing is written or tried again."""
    faults = Faults()
    scene = Scene(new_receipts(tmp_path, faults.disk()))
    receipt = fill(scene.receipts, "s2", 3)
    faults.at, faults.act, faults.only = (
        faults.calls.count("sync") + which,
        failing(errno.EIO),
        "sync",
    )
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.sync"
    calls = list(faults.calls)
    for _ in range(3):
        assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.sync"
    assert outcome(lambda: receipt.seal("complete", at=AT)) == "store.sync"
    receipt.close()
    assert faults.calls == calls
    assert scene.outcome("s2") == "OPEN"


def test_d05_a_short_write_ends_the_session(tmp_path: Path) -> None:
    """D05: a line written in part is never completed by a second write; it is torn."""
    faults = Faults()
    scene = Scene(new_receipts(tmp_path, faults.disk()))
    receipt = fill(scene.receipts, "s2", 3)
    faults.at, faults.act, faults.only = faults.calls.count("write"), short, "write"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.short_write"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.short_write"
    assert scene.outcome("s2") == "TORN"


def test_d11_a_terminated_session_is_sealed_as_interrupted(tmp_path: Path) -> None:
    """D11: a process told to end, even within an append, can still seal its receipt."""
    scene = Scene(new_receipts(tmp_path))
    fill(scene.receipts, "s2", 3).close()
    reader, writer = os.pipe()

    def act() -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        receipt = scene.receipts.resume("s2", at=AT)
        os.write(writer, b"x")
        try:
            while True:
                receipt.append("note", {}, at=AT, durable=False)
        finally:
            receipt.seal("interrupted", at=AT)

    child = os.fork()
    if child == 0:
        try:
            act()
        except SystemExit:
            os._exit(0)
        finally:
            os._exit(1)
    os.read(reader, 1)
    time.sleep(0.05)
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader)
    os.close(writer)
    verdict = scene.verify("s2")
    assert (verdict.state, verdict.reason) == ("INTERRUPTED", "interrupted")


# ── the verifier's own cost, and what a gate relies on ──


def test_y01_constant_memory(tmp_path: Path) -> None:
    """Y01: the memory of verifying does not grow with the number of lines."""
    scene = Scene(new_receipts(tmp_path))
    receipt = fill(scene.receipts, "s2", 0)
    peaks = []
    for _ in range(2):
        for i in range(4_000):
            receipt.append("note", {"i": i}, at=AT, durable=False)
        receipt.flush()
        tracemalloc.start()
        scene.verify("s2")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.2


def test_g01_an_append_returns_only_after_it_is_durable(tmp_path: Path) -> None:
    """G01: line, sync, head slot, sync: only in this order, and only then does append return."""
    faults = Faults()
    receipt = fill(new_receipts(tmp_path, faults.disk()), "s2", 1)
    faults.calls.clear()
    receipt.append("decision", decision(1), at=AT)
    assert faults.calls == ["write", "sync", "pwrite", "sync"]


def test_g05_nothing_waits_unsigned(tmp_path: Path) -> None:
    """G05: even a record that is not yet durable is in the receipt, signed, on return."""
    scene = Scene(new_receipts(tmp_path))
    receipt = fill(scene.receipts, "s2", 1)
    for i in range(5):
        receipt.append("note", {"i": i}, at=AT, durable=False)
        assert scene.verify("s2").lines == 3 + i
    assert scene.verify("s2").beyond == 5


def test_y06_tags_are_compared_in_constant_time() -> None:
    """Y06: the two places that check a tag do it with the one comparison made for that."""
    package = Path(__file__).resolve().parents[2] / "broker" / "receipt"
    for name in ("chain.py", "head.py"):
        tree = ast.parse((package / name).read_text(encoding="utf-8"))
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "compare_digest" in called


# ── the account ──


def test_the_expected_answers_are_those_of_the_catalogue(shared: Path) -> None:
    """For each mounted case, the catalogue's class maps to the answer that is asserted."""
    rows = json.loads((shared / "attacks" / "attacks.json").read_text())["attacks"]
    for row in rows:
        if row["id"] in verifier.CASES:
            classes = re.findall(r"\b(?:E|OK)_[A-Z_]+", row["expected"]["verdict"])
            if row["id"] == "Y07":  # the catalogue lets a chain alone be checked; we do not
                classes = ["E_MISSING_KEY"]
            accepted = set().union(*(verifier.VERDICTS[name] for name in classes))
            assert verifier.CASES[row["id"]][0] in accepted, row["id"]
