"""What a session stands on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.errors import BrokerError, InputError, ScopeError, StoreError
from broker.sessions.alive import abandoned
from broker.sessions.ground import new_sid
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]


def test_a_name_is_random_and_plain() -> None:
    """A session's name has 26 plain characters, and comes from 16 random bytes."""
    assert (
        new_sid(lambda n: b"\xff" * n)
        == "7777777777777777777777777q"[:0] + "77777777777777777777777774"
    )
    assert len({new_sid() for _ in range(100)}) == 100


def test_nothing_is_made_when_the_scope_is_malformed(bench: Bench) -> None:
    """A slip of the keyboard leaves no session, no receipt and no key behind."""
    with pytest.raises(ScopeError):
        bench.open(["path=src"])
    with pytest.raises(InputError):
        bench.open(intent="")
    assert not bench.home.state.exists()
    assert not bench.home.data.exists()


def test_a_missing_workspace_is_an_error(bench: Bench) -> None:
    """Patterns need a folder to be relative to."""
    bench.workspace = bench.workspace / "none"
    with pytest.raises(InputError):
        bench.open()


def test_a_session_lies_in_the_users_folder(bench: Bench) -> None:
    """Folder and files are the user's alone, and none lies in the workspace."""
    before = sorted(bench.workspace.rglob("*"))
    session = bench.open()
    assert session.folder.is_relative_to(bench.home.state)
    assert session.folder.stat().st_mode & 0o777 == 0o700
    for path in session.folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(bench.workspace.rglob("*")) == before


def test_a_receipt_that_cannot_begin_leaves_no_lock(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the receipt cannot begin there is no session, and its lock is given back."""
    session = bench.open()
    monkeypatch.setattr("broker.sessions.ground.new_sid", lambda _: session.sid)
    with pytest.raises(StoreError):
        bench.open()
    drop(session)
    assert [sid for sid, _ in abandoned(bench.home.sessions)] == [session.sid]


def test_the_clock_and_chance_are_given(bench: Bench) -> None:
    """The same instant and the same chance make the same ticket."""
    session = bench.open(["until=1h"])
    (until,) = (c.value for c in session.ticket.caveats)
    assert until == session.ticket.minted_at + 3_600 * 10**9
    assert session.ticket.minted_at == 1_800_000_000_001_000_000


def test_policies_of_the_user_are_found(bench: Bench) -> None:
    """``@name`` reads the user's own policies, and an unknown name is an error."""
    folder = bench.home.config / "policies"
    folder.mkdir(parents=True)
    (folder / "mine.scope").write_text("# Mine.\ntools = Read\n", encoding="utf-8")
    assert bench.open(["@mine"]).ticket.caveats[0].value == ("Read",)
    with pytest.raises(BrokerError):
        bench.open(["@nobodys"])


def test_the_workspace_is_kept_absolute(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session goes on in the same folder wherever it is resumed from."""
    monkeypatch.chdir(bench.workspace.parent)
    bench.workspace = Path("ws")
    session = bench.open()
    assert session.workspace == Path(os.getcwd()) / "ws"
    drop(session)
    monkeypatch.chdir("/")
    assert session.resume(session.sid, home=bench.home).workspace == session.workspace
