"""What a session stands on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.errors import BrokerError, InputError, ScopeError, StoreError
from broker.receipt.checkpoint import CheckpointFile, of_receipt
from broker.receipt.covering import cover
from broker.receipt.demand import Demand, expected_head
from broker.receipt.keyring import public_key, signing_key_path
from broker.receipt.ratchetfile import ratchet_path
from broker.receipt.signing import load_signing_key
from broker.session import Session
from broker.sessions.alive import abandoned
from broker.sessions.ground import new_sid
from broker.sessions.recovery import Recovered, seal_abandoned
from tests.forwardkit import AUDITOR, audit_verdict
from tests.receiptkit import Faults, failing
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


def test_a_forward_secure_session_goes_on(bench: Bench) -> None:
    """It is killed, resumed with what it had spent, sealed, and followed by its auditor."""
    session = bench.open(["tools=Read", "calls=3"], auditor=AUDITOR.public)
    began = session.head
    assert session.decide("Read", {"file_path": "src/a.py"}, cwd=str(bench.workspace)).allowed
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert again.spent() == (1,)
    assert again.decide("Read", {"file_path": "src/a.py"}, cwd=str(bench.workspace)).allowed
    again.seal()
    receipts = bench.receipts()
    checkpoint = bench.home.checkpoints / session.sid
    demand = Demand(require_seal=True, expect=expected_head(began))
    more = {"demand": demand, "checkpoint": checkpoint, "vkeys": (public_key(bench.home),)}
    verdict = audit_verdict(receipts, session.sid, **more)
    assert (verdict.tags, verdict.lines, verdict.warnings) == ("checked", 5, ())


def test_an_abandoned_forward_secure_session_is_sealed(bench: Bench) -> None:
    """What a killed broker left is sealed and covered, tags or no tags; its ratchet is gone."""
    session = bench.open(auditor=AUDITOR.public)
    drop(session)
    found = list(seal_abandoned(bench.home, bench.key(), bench.clock))
    assert found == [Recovered(session.sid)]
    receipts, path = bench.receipts(), bench.home.checkpoints / session.sid
    head = receipts.head_path(session.sid)
    assert not ratchet_path(head).exists()
    signer = load_signing_key(signing_key_path(bench.home))
    file = CheckpointFile(path, signer, of_receipt(session.sid))
    assert cover(receipts.path(session.sid), head, session.sid, bench.key(), file)
    given = {"checkpoint": path, "vkeys": (signer.public,)}
    verdict = audit_verdict(receipts, session.sid, **given)
    assert (verdict.state, verdict.reason, verdict.level) == ("INTERRUPTED", "abandoned", "signed")


def test_the_seal_of_a_full_disk_is_covered(bench: Bench) -> None:
    """A receipt that sealed itself because the disk was full gets its checkpoint at the end."""
    session = bench.open()
    session._receipt._journal._disk = Faults(0, failing(errno.ENOSPC)).disk()
    refused = session.decide("Read", {"file_path": "src/a.py"})
    assert refused.refusal is not None
    assert "the disk is full" in refused.refusal.reason
    with pytest.raises(StoreError):
        session.seal()
    verdict = bench.verdict(session.sid)
    assert (verdict.state, verdict.reason, verdict.level) == ("INTERRUPTED", "disk-full", "signed")
    assert [each.fault for each in seal_abandoned(bench.home, bench.key(), bench.clock)] == [""]
    assert bench.receipts().ledger.read().sessions[session.sid].end is not None
