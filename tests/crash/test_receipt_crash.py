"""
Killed writers: real processes, ended by SIGKILL.

The law: no acknowledged append is ever lost, and no receipt fails to verify other than as
torn. First every single system call of a writer is its last one, before it and within it;
then writers are killed at random moments, alone and in company; then the disk is really full.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.errors import FatalStoreError, UnverifiableError
from broker.receipt.audit import audit_all
from broker.receipt.disk import DISK
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries
from tests.receiptkit import (
    AT,
    KEY,
    Faults,
    Scene,
    decision,
    fill,
    in_child,
    new_receipts,
    outcome,
)

FINE = {"OPEN", "TORN", "SEALED", "INTERRUPTED"}


def check_law(scene: Scene, sid: str, acknowledged: dict[int, str]) -> None:
    """See that every acknowledged line is there with its hash, and that all verifies."""
    answer = scene.outcome(sid)
    if not acknowledged:
        assert answer in FINE | {"unverifiable.missing", "unverifiable.nothing"}
    if answer in FINE:
        found = {e.n: e.hash for e in read_entries(scene.path(sid), KEY, scene.head(sid))}
        assert acknowledged.items() <= found.items()
    else:
        assert not acknowledged


def acknowledged_in(log: Path) -> dict[int, str]:
    """Read what writers said was acknowledged, which each wrote before it went on."""
    pairs = re.findall(r"^(\d+) ([0-9a-f]{64})$", log.read_text(), re.M)
    return {int(n): digest for n, digest in pairs}


def telling(log: Path) -> Callable[[Any], None]:
    """
    Return what notes an acknowledged entry in a file, as an action that was released.

    A killed process leaves half a note too, where it crosses a page: so each note begins on a
    line of its own, and halves match nothing.
    """
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return lambda entry: void(os.write(fd, f"\n{entry.n} {entry.hash}\n".encode()))


def void(_: object) -> None:
    """Forget a value."""


# ── each system call as the last one ──


def before(name: str, real: Callable[..., Any], *arguments: Any) -> None:
    """Die instead of the call."""
    os.kill(os.getpid(), signal.SIGKILL)


def within(name: str, real: Callable[..., Any], *arguments: Any) -> None:
    """Die after half of a write, or right after any other call."""
    if name in {"write", "pwrite"}:
        fd, content, *place = arguments
        real(fd, content[: len(content) // 2], *place)
    else:
        real(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)


def life(receipts: Receipts, tell: Callable[[Any], None]) -> None:
    """Live through all that a session does: begin, append, lose a line, resume, seal."""
    receipt = receipts.create("s1", opening={"agent": "x"}, at=AT)
    for i in range(2):
        tell(receipt.append("decision", decision(i), at=AT))
        receipt.append("note", {}, at=AT, durable=False)
    receipt.close()
    with open(receipt.path, "ab") as file:
        file.write(b'{"at":"2026')
    receipt = receipts.resume("s1", at=AT)
    tell(receipt.append("decision", decision(9), at=AT))
    tell(receipt.seal("complete", at=AT))


def count_calls(place: Path) -> int:
    """Return how many system calls such a life takes."""
    faults = Faults()
    life(new_receipts(place, faults.disk()), void)
    return len(faults.calls)


def lived(receipts: Receipts, log: Path) -> None:
    """Live, and note in a file what was acknowledged."""
    life(receipts, telling(log))


def sealed_kind(scene: Scene) -> str:
    """Resume a session, seal it, and return the kind of the line that did."""
    return scene.receipts.resume("s1", at=AT).seal("abandoned", at=AT).kind


def check_ledger(scene: Scene, acknowledged: dict[int, str]) -> None:
    """See that auditing everything takes no crash for an attack."""
    try:
        found = {each.sid: each.state for each in audit_all(scene.receipts)}
    except UnverifiableError as error:
        assert (error.code, acknowledged) == ("unverifiable.nothing", {})
        return
    assert set(found.values()) <= FINE | {"EMPTY"}
    if acknowledged:
        assert found["s1"] in FINE


@pytest.mark.parametrize("act", [before, within])
def test_every_call_may_be_the_last(tmp_path: Path, act: Callable[..., Any]) -> None:
    """Killed at any call of its life, a session keeps the law, and the next writer goes on."""
    calls = count_calls(tmp_path / "count")
    assert calls > 30
    for at in range(calls):
        place = tmp_path / str(at)
        log = tmp_path / f"{at}.log"
        faults = Faults(at, act)
        receipts = new_receipts(place, faults.disk())
        assert in_child(partial(lived, receipts, log)) == -signal.SIGKILL
        scene = Scene(new_receipts(place))
        acknowledged = acknowledged_in(log)
        check_law(scene, "s1", acknowledged)
        check_ledger(scene, acknowledged)
        answer = outcome(partial(sealed_kind, scene))
        check_ledger(scene, acknowledged)
        if answer in {"store.never_began", "unverifiable.missing", "unverifiable.nothing"}:
            assert not acknowledged
            fill(scene.receipts, "s2", 1).seal("complete", at=AT)
            check_ledger(scene, acknowledged)
        else:
            assert answer in {"seal", "store.sealed"}
            assert scene.receipts.ledger.read().sessions["s1"].end is not None
            check_law(scene, "s1", acknowledged)
            assert scene.outcome("s1") in {"SEALED", "INTERRUPTED"}


# ── random moments ──


def start(place: Path, sid: str, log: Path, who: int) -> int:
    """Start a process that resumes a session and appends until it is killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            tell = telling(log)
            receipt = new_receipts(place).resume(sid, at=AT)
            for i in range(10**9):
                entry = receipt.append("decision", decision(i, who=who), at=AT, durable=i % 4 == 0)
                if i % 4 == 0:
                    tell(entry)
        finally:
            os._exit(code)
    return child


def kill_rounds(place: Path, rounds: int, company: int) -> None:
    """Kill writers at random moments, round after round on one session; the law holds."""
    chance = random.Random(company)
    scene = Scene(new_receipts(place))
    fill(scene.receipts, "s1", 0).close()
    log = place / "acknowledged"
    log.touch()
    for turn in range(rounds):
        size = log.stat().st_size
        children = [start(place, "s1", log, who) for who in range(company)]
        while turn % 2 and log.stat().st_size == size:  # every other time, wait for a first line
            time.sleep(0.001)
        for child in children:
            time.sleep(chance.random() * 0.02)
            os.kill(child, signal.SIGKILL)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert ends == [-signal.SIGKILL] * company
        check_law(scene, "s1", acknowledged_in(log))
    acknowledged = acknowledged_in(log)
    assert len(acknowledged) >= rounds // 3
    scene.receipts.resume("s1", at=AT).seal("abandoned", at=AT)
    check_law(scene, "s1", acknowledged)
    assert scene.verify("s1").state == "INTERRUPTED"


def test_killed_at_random(tmp_path: Path) -> None:
    """A writer killed at 25 random moments loses nothing that it had acknowledged."""
    kill_rounds(tmp_path, 25, 1)


def test_killed_in_company(tmp_path: Path) -> None:
    """Two writers on one receipt, each killed at random moments, lose nothing between them."""
    kill_rounds(tmp_path, 8, 2)


@pytest.mark.deep
@pytest.mark.parametrize("company", [1, 2, 3])
def test_killed_at_random_for_long(tmp_path: Path, company: int) -> None:
    """The law holds over hundreds of kills."""
    kill_rounds(tmp_path, 400 // company, company)


# ── a disk that is really full, and a file that really went back ──


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    mount, place = shutil.which("mount"), tmp_path / "tiny"
    place.mkdir()
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    command = [mount, "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_file_system_ends_in_a_seal(tiny: Path) -> None:
    """When the file system fills up, the action is refused, and the held-back space seals."""
    scene = Scene(new_receipts(tiny))
    receipt = fill(scene.receipts, "s1", 0)
    acknowledged = {}

    def append_for_ever() -> None:
        for i in range(10**6):
            entry = receipt.append("decision", decision(i, filler="x" * 997), at=AT)
            acknowledged[entry.n] = entry.hash

    with pytest.raises(FatalStoreError) as caught:
        append_for_ever()
    assert caught.value.code == "store.disk_full"
    assert len(acknowledged) > 100
    check_law(scene, "s1", acknowledged)
    verdict = scene.verify("s1")
    assert (verdict.state, verdict.reason) == ("INTERRUPTED", "disk-full")
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == "store.disk_full"


def test_no_session_begins_on_a_full_file_system(tiny: Path) -> None:
    """On a full file system no session begins, so no action is released."""
    (tiny / "filler").write_bytes(b"x" * (500 * 1_024))
    scene = Scene(new_receipts(tiny))
    answer = outcome(lambda: scene.receipts.create("s1", opening={}, at=AT))
    assert answer.startswith("store")
    assert scene.outcome("s1") in {"unverifiable.missing", "unverifiable.nothing"}


def test_a_rolled_back_file_is_noticed(tmp_path: Path) -> None:
    """A receipt that went back behind a crashed writer is neither verified nor written to."""
    scene = Scene(new_receipts(tmp_path))
    fill(scene.receipts, "s1", 0).close()
    older = scene.content("s1")
    log = tmp_path / "acknowledged"
    log.touch()
    child = start(tmp_path, "s1", log, 0)
    while not acknowledged_in(log):
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    scene.path("s1").write_bytes(older)
    assert scene.outcome("s1") == "truncated"
    assert outcome(lambda: scene.receipts.resume("s1", at=AT)) == "truncated"
    assert scene.content("s1") == older


def test_the_real_calls_are_the_systems_own() -> None:
    """What these tests wrap is what runs otherwise."""
    assert (DISK.write, DISK.truncate) == (os.write, os.ftruncate)
