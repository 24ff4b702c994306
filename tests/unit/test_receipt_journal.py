"""
The order of system calls, and what each failure means.

The fault table fails every call of an append, a recovery and a seal once, and states for each
whether the line counts afterwards and whether the session is over.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.errors import FatalStoreError, StoreError
from broker.limits import RESERVE_BYTES
from broker.receipt.verify import read_entries
from tests.receiptkit import AT, KEY, Faults, Scene, failing, fill, new_receipts, outcome, short

EIO, ENOSPC, EDQUOT = failing(errno.EIO), failing(errno.ENOSPC), failing(errno.EDQUOT)


def done_then_error(name: str, real: Callable[..., Any], *arguments: Any) -> Any:
    """Do what was asked for, and report an error all the same."""
    real(*arguments)
    raise OSError(errno.EIO, "input/output error")


def part_then_full(name: str, real: Callable[..., Any], fd: int, content: bytes) -> int:
    """Write a part, then find the disk full."""
    real(fd, content[:40])
    raise OSError(errno.ENOSPC, "no space left on device")


def kinds(scene: Scene) -> list[str]:
    """Return the kinds of all lines that verify."""
    return [entry.kind for entry in read_entries(scene.path("s1"), KEY, scene.head("s1"))]


@pytest.fixture
def faults() -> Faults:
    """A disk that can be told to fail."""
    return Faults()


@pytest.fixture
def scene(tmp_path: Path, faults: Faults) -> Scene:
    """One session with an open line, on that disk."""
    scene = Scene(new_receipts(tmp_path, faults.disk()))
    fill(scene.receipts, "s1", 0).close()
    return scene


# One durable append calls: write, sync, pwrite, sync. Each row: what fails at which of them,
# the code of the error, the state afterwards, and the kinds that verify.
TABLE = [
    ("write, nothing written", 0, EIO, "store.io", "OPEN", ["open"]),
    ("write, all written", 0, done_then_error, "store.io", "OPEN", ["open", "note"]),
    ("write, half written", 0, short, "store.short_write", "TORN", ["open"]),
    ("write, full", 0, ENOSPC, "store.disk_full", "INTERRUPTED", ["open", "seal"]),
    ("write, over quota", 0, EDQUOT, "store.disk_full", "INTERRUPTED", ["open", "seal"]),
    (
        "write, full half way",
        0,
        part_then_full,
        "store.disk_full",
        "INTERRUPTED",
        ["open", "recover", "seal"],
    ),
    ("sync of the receipt", 1, EIO, "store.sync", "OPEN", ["open", "note"]),
    ("sync of the receipt, full", 1, ENOSPC, "store.sync", "OPEN", ["open", "note"]),
    ("sync, done and failed", 1, done_then_error, "store.sync", "OPEN", ["open", "note"]),
    ("head slot", 2, EIO, "store.sync", "OPEN", ["open", "note"]),
    ("head slot, half written", 2, short, "store.short_write", "OPEN", ["open", "note"]),
    ("head slot, done and failed", 2, done_then_error, "store.sync", "OPEN", ["open", "note"]),
    ("sync of the head", 3, EIO, "store.sync", "OPEN", ["open", "note"]),
]


@pytest.mark.parametrize(("at", "act", "code", "state", "left"), [row[1:] for row in TABLE],
                         ids=[row[0] for row in TABLE])  # fmt: skip
def test_fault_table(
    scene: Scene,
    faults: Faults,
    at: int,
    act: Callable[..., Any],
    code: str,
    state: str,
    left: list[str],
) -> None:
    """Every failure is fatal, releases nothing, and leaves a receipt that verifies or is torn."""
    receipt = scene.receipts.resume("s1", at=AT)
    faults.calls.clear()
    faults.at, faults.act = at, act
    with pytest.raises(FatalStoreError) as caught:
        receipt.append("note", {}, at=AT)
    assert caught.value.code == code
    calls = list(faults.calls)
    for refused in (
        lambda: receipt.append("note", {}, at=AT, durable=False),
        lambda: receipt.seal("complete", at=AT),
    ):
        assert outcome(refused) == code
    receipt.close()
    assert faults.calls == calls
    assert scene.outcome("s1") == state
    assert kinds(scene) == left
    if state != "INTERRUPTED":
        scene.receipts.resume("s1", at=AT).seal("abandoned", at=AT)
        assert scene.outcome("s1") == "INTERRUPTED"


@pytest.mark.parametrize("at", range(8))
def test_a_recovery_that_fails_can_be_done_again(scene: Scene, faults: Faults, at: int) -> None:
    """Whichever call of a recovery fails, the next start finishes it and loses nothing."""
    whole = scene.content("s1")
    scene.path("s1").write_bytes(whole + b'{"at":')
    faults.calls.clear()
    faults.at, faults.act = at, EIO
    with pytest.raises(StoreError):
        scene.receipts.resume("s1", at=AT)
    assert scene.outcome("s1") in {"TORN", "OPEN"}
    scene.receipts.resume("s1", at=AT).close()
    assert scene.outcome("s1") == "OPEN"
    assert scene.content("s1").startswith(whole)
    kept = list(scene.path("s1").parent.glob("receipt.torn-*"))
    assert [path.read_bytes() for path in kept] == [b'{"at":']


def test_a_recovery_calls_in_order(scene: Scene, faults: Faults) -> None:
    """The fragment is safe aside before it is cut, and cut before the line that says so."""
    scene.path("s1").write_bytes(scene.content("s1") + b'{"at":')
    faults.calls.clear()
    scene.receipts.resume("s1", at=AT).close()
    aside, cut, line = ["write", "sync", "sync"], ["truncate", "sync"], ["write", "sync"]
    row = ["write", "sync", "pwrite", "sync"]
    assert faults.calls == [*aside, *cut, *line, "pwrite", "sync", *row]


def test_a_fault_during_the_last_seal_leaves_a_receipt_to_mend(
    scene: Scene, faults: Faults
) -> None:
    """When even the seal of a full disk fails, the receipt is torn, and the next start mends it."""
    receipt = scene.receipts.resume("s1", at=AT)
    written = faults.calls.count("write")

    def act(name: str, real: Callable[..., Any], fd: int, content: bytes) -> int:
        faults.at = written + 1  # the next write, that of the fragment kept aside, fails too
        return part_then_full(name, real, fd, content)

    faults.at, faults.act, faults.only = written, act, "write"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.disk_full"
    assert scene.outcome("s1") == "TORN"
    faults.act = None
    scene.receipts.resume("s1", at=AT).close()
    assert kinds(scene) == ["open", "recover"]


def test_a_disk_that_stays_full_is_written_to_no_more(scene: Scene, faults: Faults) -> None:
    """When the space held back does not help either, the first fault stands, and that is all."""
    receipt = scene.receipts.resume("s1", at=AT)
    before = scene.content("s1")
    faults.calls.clear()

    def act(name: str, real: Callable[..., Any], *arguments: Any) -> Any:
        faults.at += 1
        raise OSError(errno.ENOSPC, "no space left on device")

    faults.at, faults.act = 0, act
    for _ in range(2):
        assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.disk_full"
    assert faults.calls == ["write", "write"]
    assert not receipt.sealed
    assert (scene.content("s1"), scene.outcome("s1")) == (before, "OPEN")


def test_a_session_begins_in_order(tmp_path: Path) -> None:
    """Head, names, space held back, line 0, head, row: each is durable before the next."""
    faults = Faults()
    receipts = new_receipts(tmp_path, faults.disk())
    receipts.ledger.ready(AT)
    faults.calls.clear()
    fill(receipts, "s9", 0)
    head, names, space = ["write", "sync", "sync"], ["sync", "sync"], ["write", "sync"]
    line, row = ["write", "sync", "pwrite", "sync"], ["write", "sync", "pwrite", "sync"]
    assert faults.calls == [*head, *names, *space, *line, *row]


def test_a_short_write_on_a_full_disk_seals(
    scene: Scene, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line cut short because no space is left is treated as a full disk."""
    receipt = scene.receipts.resume("s1", at=AT)
    real = os.fstatvfs
    monkeypatch.setattr(
        os,
        "fstatvfs",
        lambda fd: os.statvfs_result([*tuple(real(fd))[:4], 0, *tuple(real(fd))[5:]]),
    )
    faults.at, faults.act, faults.only = faults.calls.count("write"), short, "write"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.disk_full"
    assert receipt.sealed
    assert kinds(scene) == ["open", "recover", "seal"]


def test_space_is_held_back_until_the_seal(scene: Scene) -> None:
    """A session holds space back while it is open, again after a resume, and gives it up."""
    reserve = scene.path("s1").with_name("receipt.reserve")
    assert reserve.stat().st_size == RESERVE_BYTES
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES
    reserve.unlink()
    receipt = scene.receipts.resume("s1", at=AT)
    assert reserve.stat().st_size == RESERVE_BYTES
    receipt.seal("complete", at=AT)
    assert not reserve.exists()


def test_the_slots_of_the_head_are_written_in_turn(scene: Scene) -> None:
    """Each durable line changes one slot, and never the one that counted before."""
    receipt = scene.receipts.resume("s1", at=AT)
    heads = [scene.head("s1").read_bytes()]
    for _ in range(6):
        receipt.append("note", {}, at=AT)
        heads.append(scene.head("s1").read_bytes())
    changed = [
        [i for i in (0, 1) if a[i * 512 :][:512] != b[i * 512 :][:512]] for a, b in pairwise(heads)
    ]
    assert changed in ([[0], [1]] * 3, [[1], [0]] * 3)


@pytest.mark.parametrize("trick", ["cut", "extend", "rewrite"])
def test_a_receipt_changed_under_the_writer(scene: Scene, trick: str) -> None:
    """A writer that finds its receipt shorter, or longer by what was never signed, stops."""
    receipt = scene.receipts.resume("s1", at=AT)
    receipt.append("note", {}, at=AT)
    content = scene.content("s1")
    changed = {"cut": content[:-1], "extend": content + b"{}\n", "rewrite": content[:-300]}[trick]
    with open(scene.path("s1"), "r+b") as file:
        file.truncate(0)
        file.write(changed)
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.changed"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.changed"
    assert scene.content("s1") == changed


@pytest.mark.parametrize("trick", ["older", "ahead", "spoiled", "empty"])
def test_a_head_changed_under_the_writer(scene: Scene, trick: str) -> None:
    """A writer whose head went back, ran ahead or is not authentic stops."""
    receipt = scene.receipts.resume("s1", at=AT)
    older = scene.head("s1").read_bytes()
    receipt.append("note", {}, at=AT)
    receipt.append("note", {}, at=AT)
    content = scene.content("s1")
    if trick == "ahead":
        with scene.receipts.resume("s1", at=AT) as other:
            other.append("note", {"who": "other"}, at=AT)
        scene.path("s1").write_bytes(content)
    else:
        head = {"older": older, "spoiled": bytes(1_024), "empty": b""}[trick]
        with open(scene.head("s1"), "r+b") as file:
            file.truncate(0)
            file.write(head)
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.changed"


def test_a_session_that_cannot_begin_says_so(tmp_path: Path) -> None:
    """Whichever call of beginning a session fails, the error is one of the store."""
    calls = Faults()
    fill(new_receipts(tmp_path / "count", calls.disk()), "s1", 0).close()
    for at in range(len(calls.calls)):
        faults = Faults(at, EIO)
        receipts = new_receipts(tmp_path / str(at), faults.disk())
        with pytest.raises(StoreError):
            receipts.create("s1", opening={}, at=AT)
        assert Scene(receipts).outcome("s1") in {
            "OPEN",
            "unverifiable.missing",
            "unverifiable.nothing",
        }


def test_a_disk_that_is_full_before_the_first_line_seals_nothing(tmp_path: Path) -> None:
    """A session without an open line is not sealed: it never began, and is no break."""
    faults = Faults()
    fill(new_receipts(tmp_path / "count", faults.disk()), "s1", 0).close()
    writes = [i for i, name in enumerate(faults.calls) if name == "write"]
    answers = []
    for at in writes:
        receipts = new_receipts(tmp_path / str(at), Faults(at, failing(errno.ENOSPC)).disk())
        answers.append(outcome(lambda receipts=receipts: receipts.create("s1", opening={}, at=AT)))
        scene = Scene(new_receipts(tmp_path / str(at)))
        assert scene.outcome("s1") in {"OPEN", "unverifiable.missing", "unverifiable.nothing"}
    assert "store.disk_full" in answers
    assert all(answer.startswith("store.") for answer in answers)


def test_held_back_space_that_stays_keeps_nobody_from_sealing(scene: Scene) -> None:
    """A seal that is durable is not taken back because the space beside it cannot be freed."""
    with scene.receipts.resume("s1", at=AT) as receipt:
        reserve = receipt.path.with_name("receipt.reserve")
        reserve.unlink()
        reserve.mkdir()
        assert receipt.seal("complete", at=AT).kind == "seal"
    assert scene.receipts.ledger.read().sessions["s1"].end is not None
    assert scene.outcome("s1") == "SEALED"


def test_a_lock_that_cannot_be_given_back_ends_the_session(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system refuses there is one of our errors, and nothing is written after it."""
    receipt = scene.receipts.resume("s1", at=AT)

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("broker.receipt.journal._unlock", refuse)
        assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.io"
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.io"
    receipt.close()
    assert kinds(scene) == ["open", "note"]
