"""What a person may decide about a finding, and when they may not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from broker.errors import InputError
from broker.receipt.audit import LEDGER, audit, audit_all
from broker.receipt.repair import adopt, adopt_ledger, retire
from broker.receipt.sealing import Auditor
from broker.session import Session
from tests.forwardkit import AUDITOR
from tests.receiptkit import AT, Scene, outcome, tampered_tag
from tests.sessionkit import Bench, drop


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three sessions, of which `s1` is sealed."""
    return Scene.at(tmp_path)


def states(scene: Scene) -> dict[str, str]:
    """Return the state of each session, or the reason of its break."""
    return {
        each.sid: str(each.fault.detail.get("reason", each.fault.code))
        if each.fault
        else each.state
        for each in audit_all(scene.receipts)
    }


def test_a_restored_backup_is_adopted(scene: Scene) -> None:
    """A receipt that came back shorter stands from then on, says so for good, and can go on."""
    scene.put("s1", scene.lines("s1")[:6])
    assert states(scene)["s1"] == "truncated"
    assert adopt(scene.receipts, "s1", reason=" Monday's backup ", at=AT).reason == "truncated"
    verdict = audit(scene.receipts, "s1")
    assert (verdict.state, verdict.lines) == ("OPEN", 6)
    assert "Monday's backup" in verdict.warnings[-1]
    scene.receipts.resume("s1", at=AT).seal("abandoned", at=AT)
    assert states(scene)["s1"] == "INTERRUPTED"
    scene.put("s1", scene.lines("s1")[:5])
    assert states(scene)["s1"] == "truncated"


def test_a_lost_head_is_signed_anew(scene: Scene) -> None:
    """Where the head is gone, the lines that the ledger knows of stand for it."""
    scene.head("s2").unlink()
    assert adopt(scene.receipts, "s2", reason="lost", at=AT).reason == "no_head"
    assert (states(scene)["s2"], scene.outcome("s2")) == ("OPEN", "OPEN")


def test_an_unlisted_session_is_listed(scene: Scene) -> None:
    """A receipt without a row gets one by a person's word."""
    ledger = scene.receipts.ledger
    rows = {path: path.read_bytes() for path in (ledger.path, ledger.head_path)}
    scene.receipts.create("s4", opening={}, at=AT).append("note", {}, at=AT)
    for path, content in rows.items():
        path.write_bytes(content)
    assert states(scene)["s4"] == "unlisted"
    adopt(scene.receipts, "s4", reason="from another disk", at=AT)
    assert states(scene)["s4"] == "OPEN"


def test_a_torn_end_is_adopted_and_mended_later(scene: Scene) -> None:
    """A fragment after the last line does not keep a receipt from being adopted."""
    scene.path("s2").write_bytes(scene.content("s2")[:-40])
    assert adopt(scene.receipts, "s2", reason="backup", at=AT).reason == "truncated"
    assert states(scene)["s2"] == "TORN"
    scene.receipts.resume("s2", at=AT).close()
    assert states(scene)["s2"] == "OPEN"


@pytest.mark.parametrize("sid", ["s1", "s2"])
def test_what_is_in_order_is_not_adopted_nor_retired(scene: Scene, sid: str) -> None:
    """Without a finding there is nothing to decide, and no row is written."""
    before = scene.receipts.ledger.path.read_bytes()
    with pytest.raises(InputError, match="nothing to adopt"):
        adopt(scene.receipts, sid, reason="x", at=AT)
    with pytest.raises(InputError, match="nothing to retire"):
        retire(scene.receipts, sid, reason="x", at=AT)
    with pytest.raises(InputError, match="in order"):
        adopt_ledger(scene.receipts, reason="x", at=AT)
    assert scene.receipts.ledger.path.read_bytes() == before


@pytest.mark.parametrize("reason", ["", "  ", "x" * 1_025])
def test_a_reason_is_needed(scene: Scene, reason: str) -> None:
    """A decision without a reason of a fair length is refused."""
    scene.path("s2").unlink()
    for act in (adopt, retire):
        with pytest.raises(InputError, match="reason"):
            act(scene.receipts, "s2", reason=reason, at=AT)


def test_a_receipt_that_does_not_verify_is_never_adopted(scene: Scene) -> None:
    """Nobody's word makes a changed line authentic; nor is it retired while it is there."""
    lines = scene.lines("s2")
    scene.put("s2", [*lines[:4], tampered_tag(lines[4]), *lines[5:]])
    before = scene.receipts.ledger.path.read_bytes()
    assert outcome(lambda: adopt(scene.receipts, "s2", reason="x", at=AT)) == "mac"
    with pytest.raises(InputError, match="away first"):
        retire(scene.receipts, "s2", reason="x", at=AT)
    assert scene.receipts.ledger.path.read_bytes() == before
    os.rename(scene.path("s2").parent, scene.path("s2").parents[3] / "aside")
    assert retire(scene.receipts, "s2", reason="bad sectors", at=AT).reason == "missing"
    assert states(scene)["s2"] == "RETIRED"


def test_what_is_gone_is_retired_and_not_adopted(scene: Scene) -> None:
    """A receipt that is gone is retired; one that was never there is neither."""
    scene.path("s3").unlink()
    with pytest.raises(InputError, match="retire"):
        adopt(scene.receipts, "s3", reason="x", at=AT)
    retire(scene.receipts, "s3", reason="deleted after a year", at=AT)
    assert states(scene)["s3"] == "RETIRED"
    assert outcome(lambda: retire(scene.receipts, "s3", reason="x", at=AT)) == RETIRED
    assert outcome(lambda: retire(scene.receipts, "s9", reason="x", at=AT)) == MISSING


RETIRED, MISSING = "unverifiable.retired", "unverifiable.missing"


def test_a_retired_session_that_is_back_can_be_adopted(scene: Scene) -> None:
    """A person may change their mind: the receipt was found again, and verifies."""
    kept = scene.content("s2")
    scene.path("s2").unlink()
    retire(scene.receipts, "s2", reason="lost", at=AT)
    scene.path("s2").touch(mode=0o600)
    scene.path("s2").write_bytes(kept)
    assert adopt(scene.receipts, "s2", reason="found again", at=AT).reason == "retired"
    assert states(scene)["s2"] == "OPEN"


def test_another_ledger_adopts_what_verifies(scene: Scene) -> None:
    """What is left of the old ledger is kept, and what does not verify is told and not listed."""
    ledger = scene.receipts.ledger
    lines = ledger.path.read_bytes().split(b"\n")
    ledger.path.write_bytes(b"\n".join([lines[0], *lines[2:]]))
    broken = scene.lines("s3")
    scene.put("s3", [*broken[:4], tampered_tag(broken[4]), *broken[5:]])
    adopted, left = adopt_ledger(scene.receipts, reason="bit rot", at=AT)
    assert (sorted(adopted), left) == (["s1", "s2"], ["s3"])
    assert states(scene) == {LEDGER: "OPEN", "s1": "SEALED", "s2": "OPEN", "s3": "mac"}
    assert len(list(ledger.path.parent.glob("*.before-*"))) == 2
    assert ledger.read().opening["reason"] == "bit rot"
    scene.receipts.create("s4", opening={}, at=AT).close()
    assert states(scene)["s4"] == "OPEN"


def test_a_ledger_that_is_gone_is_begun_anew(scene: Scene) -> None:
    """With nothing left of it, what verifies is adopted all the same."""
    shutil.rmtree(scene.receipts.ledger.path.parent)
    assert sorted(adopt_ledger(scene.receipts, reason="lost", at=AT)[0]) == ["s1", "s2", "s3"]
    assert states(scene) == {LEDGER: "OPEN", "s1": "SEALED", "s2": "OPEN", "s3": "OPEN"}


# ── under checkpoints, and forward-secure ──


@pytest.fixture
def signing(tmp_path: Path) -> Bench:
    """A home whose sessions promise checkpoints."""
    return Bench(tmp_path / "signing")


def busy(bench: Bench, auditor: Auditor | None = None, decisions: int = 3) -> Session:
    """Open a session and let it decide."""
    session = bench.open(auditor=auditor and auditor.public)
    for _ in range(decisions):
        session.decide("Read", {"file_path": "src/a.py"})
    return session


def accepted(bench: Bench, sid: str, auditor: Auditor | None = None) -> str:
    """Adopt a session; return what was found."""
    receipts, at = bench.receipts(), bench.clock()
    return outcome(lambda: adopt(receipts, sid, reason="so", at=at, auditor=auditor).reason)


def test_a_sealed_session_that_lost_its_checkpoint(signing: Bench) -> None:
    """What is adopted is signed anew, and told as ended."""
    session = busy(signing)
    session.seal()
    note = signing.home.checkpoints / session.sid
    note.unlink()
    assert accepted(signing, session.sid) == "no_checkpoint"
    verdict = signing.verdict(session.sid)
    assert (verdict.state, verdict.level, verdict.signed_lines) == ("SEALED", "signed", 6)
    note.unlink()
    assert outcome(lambda: signing.verdict(session.sid)) == "no_checkpoint"


@pytest.mark.parametrize("auditor", [None, AUDITOR], ids=["plain", "forward"])
def test_a_backup_from_before_the_checkpoint(signing: Bench, auditor: Auditor | None) -> None:
    """A checkpoint over lines that are gone is kept aside, and the session can go on."""
    session = busy(signing, auditor)
    sid, head = session.sid, signing.receipts().head_path(session.sid)
    places = (session.receipt_path, head, head.with_name(f"{sid}.ratchet"))
    backup = {path: path.read_bytes() for path in places if path.exists()}
    for _ in range(3):
        session.decide("Read", {"file_path": "src/a.py"})
    session._ground.checkpoints.end()
    drop(session)
    for path, content in backup.items():
        path.write_bytes(content)
    assert accepted(signing, sid, auditor) == "truncated"
    assert signing.verdict(sid).lines == 5
    assert [path.name for path in signing.home.checkpoints.glob(f"{sid}.before-*")]
    again = Session.resume(sid, home=signing.home, outside=signing.outside)
    assert again.decide("Read", {"file_path": "src/a.py"}).refusal is not None
    again.seal()
    assert signing.verdict(sid).state == "SEALED"
    if auditor is not None:
        verdict = audit(signing.receipts(), sid, auditor=auditor)
        assert (verdict.state, verdict.tags) == ("SEALED", "checked")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_forward_secure_session_takes_the_auditor_s_key(signing: Bench, sealed: bool) -> None:
    """Without it the person is told what to do; with it head and ratchet are made anew."""
    session = busy(signing, AUDITOR)
    sid, head = session.sid, signing.receipts().head_path(session.sid)
    if sealed:
        session.seal()
    else:
        drop(session)
        head.with_name(f"{sid}.ratchet").unlink()
    head.unlink()
    receipts = signing.receipts()
    with pytest.raises(InputError, match=r"--auditor-key FILE .* `broker receipt retire"):
        adopt(receipts, sid, reason="so", at=signing.clock())
    assert accepted(signing, sid, Auditor.of(bytes(range(32)))) == "unverifiable.auditor"
    assert receipts.ledger.read().sessions[sid].adopted == ""
    assert accepted(signing, sid, AUDITOR) == "no_head"
    for auditor in (None, AUDITOR):
        verdict = audit(signing.receipts(), sid, auditor=auditor)
        assert (verdict.forward, verdict.state) == (True, "SEALED" if sealed else "OPEN")
    assert head.with_name(f"{sid}.ratchet").exists() is not sealed
    if not sealed:
        again = Session.resume(sid, home=signing.home, outside=signing.outside)
        again.seal()
        assert audit(signing.receipts(), sid, auditor=AUDITOR).tags == "checked"


def test_a_forged_line_of_a_forward_secure_session_is_never_adopted(signing: Bench) -> None:
    """The auditor's key sees that a tag is wrong, and then no row is written."""
    session = busy(signing, AUDITOR)
    session.seal()
    lines = session.receipt_path.read_bytes().split(b"\n")
    lines[3] = tampered_tag(lines[3])
    session.receipt_path.write_bytes(b"\n".join(lines))
    assert accepted(signing, session.sid, AUDITOR) == "mac"
    assert signing.receipts().ledger.read().sessions[session.sid].adopted == ""


def test_an_auditor_s_key_for_an_ordinary_session(signing: Bench) -> None:
    """It would make the session what it never was."""
    session = busy(signing)
    session.seal()
    signing.receipts().head_path(session.sid).unlink()
    with pytest.raises(InputError, match="leave --auditor-key out"):
        adopt(signing.receipts(), session.sid, reason="x", at=signing.clock(), auditor=AUDITOR)
