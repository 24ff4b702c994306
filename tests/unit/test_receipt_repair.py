"""What a person may decide about a finding, and when they may not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from broker.errors import InputError
from broker.receipt.audit import LEDGER, audit, audit_all
from broker.receipt.repair import adopt, adopt_ledger, retire
from tests.receiptkit import AT, Scene, outcome, tampered_tag


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
