"""Tickets that are taken back while they are in use."""

from __future__ import annotations

import os

import pytest

from broker.budgets.store import Revoked
from broker.errors import InputError, StoreError
from broker.receipt.keys import Key
from broker.session import Session
from broker.sessions.following import earlier_session
from broker.sessions.revoking import Revocations
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

READ = ("Read", {"file_path": "src/a.py"})


def revocations(bench: Bench) -> Revocations:
    """Return the revocations of the bench's machine."""
    return Revocations(bench.home.revoked, bench.key())


def refused_by(bench: Bench, session: Session, actor: str = "main", **more: object) -> str:
    """Let an actor read, and return the caveat that refused, or nothing."""
    refusal = session.decide(*READ, actor=actor, cwd=str(bench.workspace), **more).refusal
    return "" if refusal is None else refusal.caveat


def test_a_subtree_stops_and_the_rest_goes_on(bench: Bench) -> None:
    """A revoked ticket stops with what was narrowed from it; its parent and its siblings do not."""
    session = bench.open(["tools=Read", "calls=9"])
    child = session.delegate(["calls=5"], holder="agent:x:1")
    session.delegate(["calls=4"], parent=child.id, holder="agent:y:1")
    session.delegate(["calls=4"], holder="agent:z:1")
    assert revocations(bench).add(Revoked(child.id, "wrong folder", 1))
    found = [refused_by(bench, session, who) for who in ("agent:x:1", "agent:y:1", "agent:z:1")]
    assert found == ["revoked", "revoked", ""]
    assert refused_by(bench, session) == ""
    assert session.spent() == (2,)


def test_it_is_recorded_once_as_the_persons_own(bench: Bench) -> None:
    """The receipt says who, what and why before the first call that is refused, and verifies."""
    session = bench.open()
    revocations(bench).add(Revoked(session.ticket.id, "a key AKIAIOSFODNN7EXAMPLE", 1))
    assert [refused_by(bench, session) for _ in range(2)] == ["revoked", "revoked"]
    kinds = [kind for kind, _ in bench.entries(session.sid)]
    assert kinds[-3:] == ["revoke", "decision", "decision"]
    data = bench.entries(session.sid)[-3][1]
    assert (data["by"], data["ticket"]) == ("operator", session.ticket.id)
    assert "AKIA" not in data["reason"]
    session.seal()
    assert bench.verdict(session.sid).state == "SEALED"


def test_what_a_hook_was_allowed_does_not_stand_for_a_gateway(bench: Bench) -> None:
    """A call that was let through before the revocation is refused where its server meets it."""
    session = bench.open(["tools=mcp__s__*"])
    told = ("mcp__s__get", {"a": 1})
    assert session.decide(*told).allowed
    revocations(bench).add(Revoked(session.ticket.id, "enough", 1))
    refusal = session.decide(*told, server="s", again=True).refusal
    assert refusal is not None
    assert refusal.caveat == "revoked"


def test_it_outlives_the_session_s_process(bench: Bench) -> None:
    """A session that goes on is revoked still, and one that follows it takes nothing over."""
    session = bench.open()
    revocations(bench).add(Revoked(session.ticket.id, "enough", 1))
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert refused_by(bench, again) == "revoked"
    again.seal()
    with pytest.raises(InputError, match="was revoked"):
        earlier_session(session.sid, bench.home)


def test_the_first_reason_stands(bench: Bench) -> None:
    """Revoking twice changes nothing."""
    found = revocations(bench) if bench.open() else None
    assert found is not None
    assert found.add(Revoked("0" * 16, "first", 1))
    assert not found.add(Revoked("0" * 16, "second", 2))
    assert found.of(("1" * 16, "0" * 16)) == Revoked("0" * 16, "first", 1)
    assert found.of(("1" * 16,)) is None


@pytest.mark.parametrize("spoil", ["another key", "another ticket", "torn", "a folder", "too long"])
def test_what_cannot_be_believed_revokes_all_the_same(bench: Bench, spoil: str) -> None:
    """A file that is not authentic, or cannot be read, stops its ticket, and says what is wrong."""
    session = bench.open()
    ticket, folder = session.ticket.id, bench.home.revoked
    if spoil == "another key":
        Revocations(folder, Key.of(bytes(range(32)))).add(Revoked(ticket, "x", 1))
    elif spoil == "another ticket":
        revocations(bench).add(Revoked("0" * 16, "x", 1))
        os.rename(folder / ("0" * 16), folder / ticket)
    else:
        revocations(bench).add(Revoked(ticket, "x", 1))
        content = (folder / ticket).read_bytes()
        (folder / ticket).unlink()
        if spoil == "a folder":
            (folder / ticket).mkdir()
        else:
            more = b"x" * 70_000 if spoil == "too long" else b""
            (folder / ticket).write_bytes(content[:-3] + more)
    refusal = session.decide(*READ, cwd=str(bench.workspace)).refusal
    assert refusal is not None
    assert (refusal.caveat, "cannot be believed" in refusal.reason) == ("revoked", True)


def test_a_folder_that_others_can_write_keeps_a_session_from_beginning(bench: Bench) -> None:
    """Where others could take a revocation away, nothing begins."""
    bench.home.revoked.mkdir(parents=True)
    bench.home.revoked.chmod(0o777)
    with pytest.raises(Exception, match="folder of revocations"):
        bench.open()


def test_a_disk_that_refuses_is_told(bench: Bench) -> None:
    """A revocation that cannot be written is an error, never a silent nothing."""
    bench.open()
    bench.home.revoked.write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        revocations(bench).add(Revoked("0" * 16, "x", 1))
