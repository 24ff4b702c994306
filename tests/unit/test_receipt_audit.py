"""What rows demand of a receipt, and what a session without a row may be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.errors import UnverifiableError
from broker.receipt.audit import LEDGER, Audited, audit, audit_all, expect
from broker.receipt.head import HeadForm
from broker.receipt.writer import Receipt
from tests.receiptkit import AT, KEY, SECOND, Scene, decision, fill, new_receipts, outcome


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three sessions, of which `s1` is sealed."""
    return Scene.at(tmp_path)


def found(scene: Scene) -> dict[str, Audited]:
    """Audit everything."""
    return {each.sid: each for each in audit_all(scene.receipts)}


def states(scene: Scene) -> dict[str, str]:
    """Return the state of each session, or the reason of its break."""
    return {
        sid: str(each.fault.detail.get("reason", each.fault.code)) if each.fault else each.state
        for sid, each in found(scene).items()
    }


def test_all_is_well(scene: Scene) -> None:
    """Everything is audited, the ledger first, and there is nothing to remark."""
    assert states(scene) == {LEDGER: "OPEN", "s1": "SEALED", "s2": "OPEN", "s3": "OPEN"}
    assert not any(each.warnings for each in found(scene).values())
    assert audit(scene.receipts, "s1").lines == 12


def test_nothing_to_verify_is_no_success(tmp_path: Path) -> None:
    """Where nothing began there is no verdict."""
    with pytest.raises(UnverifiableError) as caught:
        list(audit_all(new_receipts(tmp_path)))
    assert caught.value.code == "unverifiable.nothing"


def test_a_session_goes_on_beyond_its_row(scene: Scene) -> None:
    """Lines that no row names yet are no fault: the row only says how many there are at least."""
    receipt = scene.receipts.resume("s2", at=AT)
    receipt.append("decision", decision(1), at=AT)
    assert audit(scene.receipts, "s2").lines == 12
    assert scene.receipts.ledger.read().sessions["s2"].n == 11


def test_a_forked_receipt_is_found_beyond_its_row(scene: Scene) -> None:
    """Where a receipt goes on, the line that a row names must still be the one it names."""
    ledger = scene.receipts.ledger
    ledger.head("s2", n=12, last="f" * 64, at=AT)
    assert states(scene)["s2"] == "truncated"
    fill_on(scene, "s3", 2)
    ledger.head("s3", n=12, last="f" * 64, at=AT)
    assert states(scene)["s3"] == "swapped"


def fill_on(scene: Scene, sid: str, lines: int) -> None:
    """Let a session go on, and leave it as a killed broker does."""
    receipt = scene.receipts.resume(sid, at=AT)
    for number in range(lines):
        receipt.append("decision", decision(number), at=AT)
    receipt._journal.release()


def test_a_killed_start_is_a_remark(scene: Scene) -> None:
    """A head that covers nothing, an empty file, one line without a row: nothing was released."""
    for sid in ("empty", "bare"):
        scene.path(sid).parent.mkdir()
        scene.head(sid).write_bytes(HeadForm(sid, KEY).first())
    scene.path("empty").touch(mode=0o600)
    ledger = scene.receipts.ledger
    rows = {path: path.read_bytes() for path in (ledger.path, ledger.head_path)}
    fill(scene.receipts, "one", 0)._journal.release()
    for path, content in rows.items():
        path.write_bytes(content)
    every = found(scene)
    assert {sid: every[sid].state for sid in ("empty", "bare", "one")} == {
        "empty": "EMPTY",
        "bare": "EMPTY",
        "one": "OPEN",
    }
    assert "no row" in every["one"].warnings[0]
    assert audit(scene.receipts, "one").lines == 1


def test_a_seal_without_its_row_is_a_remark(scene: Scene) -> None:
    """A broker that is killed right after its seal leaves a row to write."""
    receipt = scene.receipts.resume("s2", at=AT)
    Receipt.seal(receipt, "complete", at=AT)
    each = found(scene)["s2"]
    assert each.state == "SEALED"
    assert "the next start writes it" in each.warnings[-1]


def test_what_is_unlisted_and_more_than_a_start(scene: Scene) -> None:
    """Two lines without a row are left by no crash."""
    ledger = scene.receipts.ledger
    rows = {path: path.read_bytes() for path in (ledger.path, ledger.head_path)}
    fill(scene.receipts, "two", 1)._journal.release()
    for path, content in rows.items():
        path.write_bytes(content)
    assert states(scene)["two"] == "unlisted"
    assert outcome(lambda: audit(scene.receipts, "two")) == "unlisted"
    assert outcome(lambda: scene.receipts.resume("two", at=AT)) == "unlisted"


def test_a_session_that_begins_meanwhile_is_not_taken_for_a_stranger(scene: Scene) -> None:
    """The folders are listed before the ledger is read, and strangers are looked up once more."""
    auditing = audit_all(scene.receipts)
    assert next(auditing).sid == LEDGER
    fill(scene.receipts, "late", 3).close()
    assert "BROKEN" not in {each.state for each in auditing}

    class Slow:
        """Receipts whose folders are listed after the ledger was read."""

        def __getattr__(self, name: str) -> object:
            return getattr(scene.receipts, name)

        def sessions(self) -> object:
            fill(scene.receipts, "later", 3).close()
            return scene.receipts.sessions()

    assert "BROKEN" not in {each.state for each in audit_all(Slow())}  # type: ignore[arg-type]  # a stand-in


def test_a_broken_ledger_is_told_and_the_receipts_are_read_all_the_same(scene: Scene) -> None:
    """Who lost the ledger still learns which receipts verify."""
    shutil.rmtree(scene.receipts.ledger.path.parent)
    assert states(scene) == {LEDGER: "no_ledger", "s1": "SEALED", "s2": "OPEN", "s3": "OPEN"}
    assert outcome(lambda: audit(scene.receipts, "s1")) == "no_ledger"


def test_a_retired_session(scene: Scene) -> None:
    """Nothing of it is verified; a receipt that is there again is a break."""
    kept = scene.content("s2")
    scene.path("s2").unlink()
    scene.receipts.ledger.retire("s2", reason="old", found="missing", at=AT)
    assert states(scene)["s2"] == "RETIRED"
    assert found(scene)["s2"].warnings == ("old",)
    assert outcome(lambda: audit(scene.receipts, "s2")) == "unverifiable.retired"
    scene.path("s2").write_bytes(kept)
    assert states(scene)["s2"] == "retired"


def test_a_session_of_a_key_that_is_gone(scene: Scene) -> None:
    """The key is named, and that is no break: nobody can tell."""
    book = scene.receipts.ledger.read()
    book.sessions["s1"] = book.sessions["s1"]._replace(kid="0" * 16)
    with pytest.raises(UnverifiableError, match="0000000000000000"):
        expect(scene.receipts, "s1", book=book)


def test_an_end_that_is_another(scene: Scene) -> None:
    """A receipt that ends otherwise than its row is not the one that was sealed."""
    book = scene.receipts.ledger.read()
    listed = book.sessions["s1"]
    assert listed.end is not None
    other = listed._replace(end=listed.end._replace(reason="abandoned"))
    book.sessions["s1"] = other
    assert outcome(lambda: audit(scene.receipts, "s1", book=book)) == "swapped"


def test_progress_is_told(scene: Scene) -> None:
    """Each session moves the progress on, to the end."""
    told: list[tuple[int, int]] = []
    list(audit_all(scene.receipts, now=AT + 99 * SECOND, progress=lambda *at: told.append(at)))
    assert told == [(1, 3), (2, 3), (3, 3)]
