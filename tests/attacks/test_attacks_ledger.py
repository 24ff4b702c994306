"""
Attacks on sessions as a whole, and on the ledger of them: each is mounted, and each is found.

Exit codes and reasons are those of `broker receipt --verify --all --json`. Where the catalogue
asks for an anchor outside, what can be known without one is asserted here: ``T08`` is found by
the mark among the keys, which only somebody who reaches those can take away too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.cli.auditing import audit_everything
from broker.receipt.chain import Chain
from broker.receipt.entry import canonical
from broker.receipt.form import LEDGER
from broker.receipt.handover import agreement
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keys import Key
from broker.receipt.repair import adopt
from broker.receipt.store import Receipts
from tests.receiptkit import AT, KEY, SECOND, Scene, decision

FOREIGN = Key.of(bytes(range(2, 34)))
NEW = Key.of(bytes(range(1, 33)))
WHEN = "2026-11-30T08:00:00.000Z"
Finding = Callable[[], tuple[int, dict[str, str]]]


@pytest.fixture
def scene(broker_home: Path) -> Scene:
    """Three sessions in the home that the command reads, and its key."""
    scene = Scene.at(broker_home)
    put_key(scene, KEY)
    return scene


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]) -> Finding:
    """Verify everything as the command does: the exit code, and a word for each session."""

    def verify_all() -> tuple[int, dict[str, str]]:
        capsys.readouterr()
        code = audit_everything(as_json=True)
        document = json.loads(capsys.readouterr().out)
        assert document["exit"] == code
        return code, {
            each["sid"]: each["break"]["reason"] if each["break"] else each["state"]
            for each in document["sessions"]
        }

    return verify_all


def put_key(scene: Scene, key: Key, name: str = "receipt.key") -> None:
    """Put a key where the installation has its keys."""
    path = scene.receipts.home.keys / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(key.secret)


def plant(scene: Scene, key: Key) -> None:
    """Put a key into the archive."""
    (scene.receipts.home.keys / "archive").mkdir(mode=0o700)
    put_key(scene, key, f"archive/{key.kid}.key")


def test_nothing_is_found_where_nothing_was_done(scene: Scene, found: Finding) -> None:
    """Without an attack all verifies, so that what is found below was done below."""
    assert found() == (0, {"ledger": "OPEN", "s1": "SEALED", "s2": "OPEN", "s3": "OPEN"})


def test_t06_the_receipt_deleted(scene: Scene, found: Finding) -> None:
    """T06: a receipt that began and is gone is missing."""
    scene.path("s1").unlink()
    assert found() == (1, {"ledger": "OPEN", "s1": "missing", "s2": "OPEN", "s3": "OPEN"})


def test_t07_the_receipt_and_its_head_deleted(scene: Scene, found: Finding) -> None:
    """T07: with the head gone too, the ledger still knows that it began."""
    scene.path("s1").unlink()
    scene.head("s1").unlink()
    assert found() == (1, {"ledger": "OPEN", "s1": "missing", "s2": "OPEN", "s3": "OPEN"})


def test_t08_everything_deleted(scene: Scene, found: Finding) -> None:
    """T08: receipts, heads and ledger are gone; the mark says that there was a ledger."""
    shutil.rmtree(scene.receipts.home.state)
    assert found() == (1, {"ledger": "no_ledger"})


def test_t12_every_receipt_deleted(scene: Scene, found: Finding) -> None:
    """T12: an empty folder is no success: each session is missing."""
    for sid in ("s1", "s2", "s3"):
        scene.path(sid).unlink()
    assert found() == (1, {"ledger": "OPEN", **dict.fromkeys(("s1", "s2", "s3"), "missing")})


def older(scene: Scene, sid: str, lines: int) -> tuple[bytes, bytes]:
    """Return receipt and head of a session as they were when it had so many lines."""
    kept = scene.lines(sid)[:lines]
    chain = Chain(sid, KEY)
    for line in kept:
        chain.accept(line)
    slot = HeadForm(sid, KEY).slot(Head(chain.n, chain.last, chain.size))
    return b"".join(line + b"\n" for line in kept), slot.ljust(HEAD_BYTES, b"\0")


def test_r01_yesterdays_receipt(scene: Scene, found: Finding) -> None:
    """R01: an older copy of the receipt is shorter than its head says."""
    scene.path("s2").write_bytes(older(scene, "s2", 6)[0])
    code, states = found()
    assert (code, states["s2"]) == (1, "truncated")


@pytest.mark.parametrize("sid", ["s1", "s2"])
def test_r02_yesterdays_receipt_and_head(scene: Scene, found: Finding, sid: str) -> None:
    """R02: older copies of both fit each other, and are shorter than the ledger says."""
    content, head = older(scene, sid, 6)
    scene.path(sid).write_bytes(content)
    scene.head(sid).write_bytes(head)
    assert scene.outcome(sid) == "OPEN"
    code, states = found()
    assert (code, states[sid]) == (1, "truncated")


def test_r08_a_name_used_again(scene: Scene, found: Finding) -> None:
    """R08: another receipt under an old name: by the broker, two begins; by hand, other lines."""
    shutil.rmtree(scene.path("s1").parent)
    scene.head("s1").unlink()
    aside = Scene.at(scene.receipts.home.state.parent / "aside")
    scene.receipts.create("s1", opening={"agent": "another"}, at=AT + SECOND).close()
    forged = Receipts(aside.receipts.home, KEY)
    shutil.rmtree(forged.path("s2").parent)
    forged.head_path("s2").unlink()
    other = forged.create("s2", opening={"agent": "another"}, at=AT)
    for number in range(20):
        other.append("decision", decision(number), at=AT)
    scene.path("s2").write_bytes(forged.path("s2").read_bytes())
    scene.head("s2").write_bytes(forged.head_path("s2").read_bytes())
    assert scene.outcome("s2") == "OPEN"
    code, states = found()
    assert (code, states["s1"], states["s2"]) == (1, "reused", "swapped")


def test_d10_a_restored_backup_and_what_a_person_decides(scene: Scene, found: Finding) -> None:
    """D10: a backup older than the head is a loss, until a person adopts it with a reason."""
    scene.path("s2").write_bytes(older(scene, "s2", 6)[0])
    assert found()[1]["s2"] == "truncated"
    adopt(scene.receipts, "s2", reason="restored from the backup of Monday", at=AT)
    code, states = found()
    assert (code, states["s2"]) == (0, "OPEN")
    assert scene.receipts.ledger.read().sessions["s2"].adopted


# ── keys ──


class Pages:
    """The ledger's files, written on by somebody with keys of their own."""

    def __init__(self, scene: Scene) -> None:
        self.ledger = scene.receipts.ledger
        self.lines = self.ledger.path.read_bytes().split(b"\n")[:-1]
        self.chain = Chain("ledger", KEY, form=LEDGER, tree=False)
        for line in self.lines:
            self.chain.accept(line)

    def begin_anew(self, key: Key) -> None:
        self.lines = []
        self.chain = Chain("ledger", key, form=LEDGER, tree=False)
        self.add("open", {"format": LEDGER.name})

    def add(self, kind: str, data: dict[str, object]) -> None:
        line = self.chain.compose(kind, canonical(data), WHEN)
        self.chain.push(kind, WHEN, line)
        self.lines.append(line)

    def rotate(self, outgoing: Key, incoming: Key, *, agreed_by: Key) -> None:
        kids: dict[str, object] = {"kid_from": outgoing.kid, "kid_to": incoming.kid}
        data = {**kids, "vkey_from": "", "vkey_to": ""}
        self.add("rotate", {**data, "agreed": agreement(agreed_by, data, self.chain.last)})
        self.chain.turn(incoming)

    def write(self, key: Key) -> None:
        """Write both files, the head signed with a key."""
        chain = self.chain
        self.ledger.path.write_bytes(b"".join(line + b"\n" for line in self.lines))
        slot = HeadForm("ledger", key, LEDGER).slot(Head(chain.n, chain.last, chain.size))
        self.ledger.head_path.write_bytes(slot.ljust(HEAD_BYTES, b"\0"))


def begun(sid: str, key: Key) -> dict[str, object]:
    """Return the data of a `begin` row."""
    row = {"sid": sid, "kid": key.kid, "first": "a" * 64, "level": "mac"}
    return {**row, "forward": False}


def test_k16_a_key_that_was_rotated_away(scene: Scene, found: Finding) -> None:
    """K16: a row signed with the old key after the rotation is told as exactly that."""
    scene.receipts.ledger.rotate(NEW, vkey_from="", vkey_to="", at=AT)
    plant(scene, KEY)
    put_key(scene, NEW)
    assert found()[0] == 0
    pages = Pages(scene)
    pages.add("begin", begun("s9", KEY))
    pages.write(NEW)
    code, states = found()
    assert (code, states["ledger"]) == (1, "kid_retired")


@pytest.mark.parametrize("signed_by", [FOREIGN, KEY], ids=["theirs", "ours"])
def test_k17_a_forged_rotation(scene: Scene, found: Finding, signed_by: Key) -> None:
    """K17: a rotation to a foreign key, signed with that; even ours does not lead to our key."""
    pages = Pages(scene)
    pages.chain.turn(signed_by)
    pages.rotate(KEY, FOREIGN, agreed_by=FOREIGN)
    plant(scene, FOREIGN)
    pages.write(KEY)
    code, states = found()
    assert (code, states["ledger"]) == (1, "mac" if signed_by is FOREIGN else "kid")


@pytest.mark.parametrize("trick", ["ends there", "hands over"])
def test_k18_planted_archived_keys(scene: Scene, found: Finding, trick: str) -> None:
    """K18: a foreign ledger with its key in our archive: nothing leads from it to our key."""
    scene.receipts.ledger.mark_path.unlink()
    plant(scene, FOREIGN)
    pages = Pages(scene)
    pages.begin_anew(FOREIGN)
    pages.add("begin", begun("s1", FOREIGN))
    if trick != "ends there":
        pages.rotate(FOREIGN, KEY, agreed_by=FOREIGN)
    pages.write(FOREIGN)
    code, states = found()
    assert (code, states["ledger"]) == (1, "head_mac" if trick == "ends there" else "kid")
