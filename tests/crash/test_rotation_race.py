"""A session begins while keys are changed: under the new key or not at all, and never beside it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from broker.errors import InputError, StoreError
from broker.home import Home
from broker.receipt import rotation
from broker.receipt.sealing import AuditorKey
from broker.session import Session
from broker.sessions.alive import Alive
from tests.console import COMMAND
from tests.forwardkit import AUDITOR
from tests.receiptkit import in_child
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

KINDS = pytest.mark.parametrize("auditor", [None, AUDITOR.public], ids=["plain", "forward"])


def rotating(bench: Bench) -> subprocess.Popen[str]:
    """Start a change of keys in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, "key", "rotate"],
        env={**os.environ, "BROKER_HOME": str(bench.home.state.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@KINDS
def test_a_key_that_was_read_is_not_changed_under_a_session(
    bench: Bench, auditor: AuditorKey | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that starts after the session read its key waits, and is then refused."""
    bench.open().seal()
    key = bench.key()
    started: list[subprocess.Popen[str]] = []
    begin = Alive.begin

    def slowly(folder: Path) -> Alive:
        # The next step after the key was read.
        started.append(rotating(bench))
        with pytest.raises(subprocess.TimeoutExpired):
            started[0].wait(3)
        return begin(folder)

    monkeypatch.setattr(Alive, "begin", slowly)
    session = bench.open(auditor=auditor)
    _, said = started[0].communicate(timeout=60)
    assert started[0].returncode == 2
    assert f"session `{session.sid}` is running" in said
    assert bench.key() == key
    session.seal()
    assert bench.verdict(session.sid).state == "SEALED"
    assert rotating(bench).wait(60) == 0
    assert bench.key() != key
    assert bench.verdict(session.sid).state == "SEALED"


@KINDS
def test_a_session_waits_for_a_change_of_keys(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, auditor: AuditorKey | None
) -> None:
    """A session that comes while keys are changed begins under the new ones."""
    bench.open().seal()
    key, mark = bench.key(), bench.workspace / "halfway"

    def change() -> None:
        whole = rotation._install

        def slow(home: Home) -> None:
            mark.touch()
            time.sleep(1)
            whole(home)

        monkeypatch.setattr(rotation, "_install", slow)
        rotation.rotate(bench.home, bench.clock())

    child = os.fork()
    if child == 0:
        os._exit(in_child(change))
    while not mark.exists():
        time.sleep(0.01)
    session = bench.open(auditor=auditor)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bench.key() != key
    session.seal()
    listed = bench.receipts().ledger.read().sessions[session.sid]
    assert listed.kid == listed.under == bench.key().kid
    assert bench.verdict(session.sid).state == "SEALED"


def test_a_session_that_was_just_left_keeps_its_key(bench: Bench) -> None:
    """Whoever changes keys is asked again when no session can begin any more."""
    bench.open().seal()
    key = bench.key()

    def no() -> None:
        raise InputError("not now")

    with pytest.raises(InputError, match="not now"):
        rotation.rotate(bench.home, bench.clock(), may=no)
    assert bench.key() == key
    assert not rotation.unfinished(bench.home)


def test_a_forward_secure_session_begins_under_the_key_in_use(bench: Bench) -> None:
    """The ledger takes no row of a session whose key was rotated away, of whatever kind."""
    bench.open().seal()
    old = bench.receipts()
    rotation.rotate(bench.home, bench.clock())
    for auditor in (None, AUDITOR.public):
        with pytest.raises(StoreError, match="was rotated away"):
            old.create("late", opening={}, at=bench.clock(), auditor=auditor)
        for path in (old.path("late"), old.head_path("late")):
            path.unlink()
    assert Session.open([], workspace=Path(bench.workspace), home=bench.home).sid
