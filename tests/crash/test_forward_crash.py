"""
Killed writers of forward-secure sessions.

The law of every receipt holds: no acknowledged append is lost. Beside it: whatever the moment,
the auditor can follow the keys to the end, and the host can go on with the next line.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.receipt.ratchetfile import ratchet_path
from broker.receipt.store import Receipts
from tests.crash.test_receipt_crash import (
    acknowledged_in,
    before,
    check_law,
    check_ledger,
    telling,
    within,
)
from tests.forwardkit import AUDITOR, by_auditor, on_host
from tests.receiptkit import AT, Faults, Scene, decision, in_child, new_receipts, outcome

FINE = {"OPEN", "TORN", "SEALED", "INTERRUPTED"}
NEVER_BEGAN = {"store.never_began", "unverifiable.missing", "unverifiable.nothing"}


def life(receipts: Receipts, tell: Callable[[Any], object]) -> None:
    """Live through all that a session does: begin, append, lose a line, resume, seal."""
    receipt = receipts.create("s1", opening={"agent": "x"}, at=AT, auditor=AUDITOR.public)
    for i in range(2):
        tell(receipt.append("decision", decision(i), at=AT))
        receipt.append("note", {}, at=AT, durable=False)
    receipt.close()
    with open(receipt.path, "ab") as file:
        file.write(b'{"at":"2026')
    receipt = receipts.resume("s1", at=AT)
    tell(receipt.append("decision", decision(9), at=AT))
    tell(receipt.seal("complete", at=AT))


def lived(receipts: Receipts, log: Path) -> None:
    """Live, and note in a file what was acknowledged."""
    life(receipts, telling(log))


def sealed(receipts: Receipts) -> str:
    """Resume the session and seal it; return the kind of the line that did."""
    return receipts.resume("s1", at=AT).seal("abandoned", at=AT).kind


@pytest.mark.parametrize("act", [before, within])
def test_every_call_may_be_the_last(tmp_path: Path, act: Callable[..., Any]) -> None:
    """Killed at any call of its life, the auditor can follow a session and the host can end it."""
    counted = Faults()
    life(new_receipts(tmp_path / "count", counted.disk()), lambda n: n)
    assert len(counted.calls) > 40
    answers = set()
    for at in range(len(counted.calls)):
        place, log = tmp_path / str(at), tmp_path / f"{at}.log"
        log.touch()
        dying = new_receipts(place, Faults(at, act).disk())
        assert in_child(partial(lived, dying, log)) == -signal.SIGKILL
        acknowledged = acknowledged_in(log)
        receipts = new_receipts(place)
        scene = Scene(receipts)
        check_law(scene, "s1", acknowledged)
        check_ledger(scene, acknowledged)
        if acknowledged:
            assert by_auditor(receipts, "s1") in FINE
        answer = outcome(partial(sealed, receipts))
        answers.add(answer)
        check_ledger(scene, acknowledged)
        if answer in NEVER_BEGAN:
            assert not acknowledged
            continue
        assert answer in {"seal", "store.sealed"}
        check_law(scene, "s1", acknowledged)
        assert on_host(receipts, "s1") in {"SEALED", "INTERRUPTED"}
        assert by_auditor(receipts, "s1") in {"SEALED", "INTERRUPTED"}
        assert not ratchet_path(receipts.head_path("s1")).exists()
    assert answers >= {"seal", "store.sealed", "store.never_began"}


def _appending(receipts: Receipts, ready: Callable[[int], object]) -> None:
    receipt = receipts.resume("s1", at=AT)
    for i in range(10**9):
        entry = receipt.append("decision", decision(i), at=AT, durable=i % 3 == 0)
        if i % 3 == 0:
            ready(entry.n)


def test_two_writers_killed_in_turn(tmp_path: Path) -> None:
    """Two processes on one session keep one ratchet between them, killed at whatever moment."""
    receipts = new_receipts(tmp_path)
    receipts.create("s1", opening={}, at=AT, auditor=AUDITOR.public).close()
    for _ in range(6):
        children, pipes = [], []
        for _ in range(2):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    _appending(new_receipts(tmp_path), lambda n, fd=writing: os.write(fd, b"."))  # type: ignore[misc]  # bound now
                finally:
                    os._exit(1)
            os.close(writing)
            children.append(child)
            pipes.append(reading)
        for child, reading in zip(children, pipes, strict=True):
            assert os.read(reading, 1) == b"."
            os.kill(child, signal.SIGKILL)
            os.close(reading)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert ends == [-signal.SIGKILL] * 2
        assert on_host(receipts, "s1") in FINE
        assert by_auditor(receipts, "s1") in FINE
    assert sealed(receipts) == "seal"
    assert by_auditor(receipts, "s1") == "INTERRUPTED"
