"""The broker in a few calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.api import append, attach, check, from_scope, narrowed
from broker.budget import MemoryBudget
from broker.calls import Call
from broker.errors import AttenuationError, InputError, ScopeError
from broker.home import Home
from broker.service.client import SessionClient
from broker.service.server import Server
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def test_a_scope_is_a_guard(bench: Bench) -> None:
    """Read, check, narrow: without a receipt, in one process."""
    guard = from_scope(["tools=Read", "paths=src/**", "calls=2"], workspace=bench.workspace)
    inside = {"file_path": str(bench.workspace / "src/a.py")}
    assert check(guard, "Read", inside).allowed
    child = narrowed(guard, "calls=1")
    assert check(child, "Read", inside).allowed
    refusal = check(guard, "Read", inside).refusal
    assert refusal is not None
    assert refusal.caveat == "calls"
    with pytest.raises(AttenuationError):
        narrowed(guard, "tools=Bash")
    with pytest.raises(ScopeError):
        from_scope(["path=x"])


def test_the_brokers_own_files_are_closed(bench: Bench, broker_home: Path) -> None:
    """Also without a session no tool reaches the keys."""
    guard = from_scope([], workspace=bench.workspace)
    refusal = check(guard, "Read", {"file_path": str(broker_home / "data/keys/x")}).refusal
    assert refusal is not None
    assert refusal.caveat == "own"


def test_the_instant_may_be_given(bench: Bench) -> None:
    """With an instant of its own a guard can be replayed."""
    guard = from_scope(["until=1h"], workspace=bench.workspace, at=0, budget=MemoryBudget())
    assert check(guard, "think", {}, at=3_599 * 10**9).allowed
    assert not check(guard, "think", {}, at=3_600 * 10**9).allowed


def test_a_running_session_is_attached_to(bench: Bench, tmp_path: Path) -> None:
    """The same calls ask the session of a run, which records them."""
    session = bench.open(["tools=Read", "calls=1"])
    server = Server(session, tmp_path / "s", {})
    server.bind()
    server.start()
    try:
        attached = attach({"BROKER_SOCKET": str(tmp_path / "s")})
        child = narrowed(attached, "paths=src/**")
        assert isinstance(child, SessionClient)
        assert not check(child, "Read", {"file_path": "/x"}).allowed
        cwd = str(bench.workspace)
        assert check(child, "Read", {"file_path": "src/a.py"}, cwd=cwd, call_id="c").allowed
        assert not check(attached, "Read", {"file_path": "src/a.py"}, cwd=cwd).allowed
    finally:
        server.stop()
    assert (session.allowed, session.refused) == (1, 2)


def test_outside_a_run_there_is_nothing_to_attach_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a session the answer is an error that says how to start one."""
    with pytest.raises(InputError, match="broker run"):
        attach()
    monkeypatch.setenv("BROKER_SOCKET", "/s")
    assert attach().path == "/s"


def test_a_harness_keeps_its_own_receipt(bench: Bench) -> None:
    """A decision can be recorded where a harness keeps the receipt itself."""
    session = bench.open()
    guard = from_scope(["tools=Read"], workspace=bench.workspace)
    decision = check(guard, "Bash", {"command": "ls"})
    receipt = bench.receipts().create("mine", opening={}, at=bench.clock())
    entry = append(receipt, Call("Bash"), decision, ticket=guard.ticket.id, at=bench.clock())
    append(receipt, Call("Bash"), decision, ticket=guard.ticket.id, call_id="c", actor="a")
    receipt.close()
    assert entry.n == 1
    kept = bench.entries("mine")
    assert [k for k, _ in kept] == ["open", "decision", "decision"]
    assert kept[1][1]["caveat"] == "tools"
    session.seal()
    assert Home.find({"BROKER_HOME": "/x"}).state == Path("/x/state")
