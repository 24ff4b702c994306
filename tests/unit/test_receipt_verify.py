"""The verdict on a receipt, and what a head demands of it."""

from __future__ import annotations

import errno
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.errors import Break, UnverifiableError
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.demand import ANY, LEVELS, Demand, Level
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from broker.receipt.verify import Verdict, read_entries, verify
from tests.receiptkit import AT, KEY, SECOND, Scene, fill, new_receipts, outcome, rechained


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def test_a_sealed_receipt(scene: Scene) -> None:
    """A sealed receipt tells its state, its lines, its root, and that nothing is missing."""
    verdict = scene.verify("s1")
    assert verdict == Verdict(
        state="SEALED",
        sid="s1",
        lines=12,
        completeness="KNOWN",
        level="mac",
        reason="complete",
        root=verdict.root,
        last=verdict.last,
    )
    assert re.fullmatch("[0-9a-f]{64}", verdict.root)


def test_an_open_receipt(scene: Scene) -> None:
    """A receipt without a seal is open, and has no root."""
    verdict = scene.verify("s2")
    assert (verdict.state, verdict.lines, verdict.root, verdict.reason) == ("OPEN", 11, "", "")


@pytest.mark.parametrize("reason", ["interrupted", "disk-full", "abandoned"])
def test_an_interrupted_receipt(scene: Scene, reason: str) -> None:
    """A seal for another reason than completion is told apart."""
    scene.receipts.resume("s2", at=AT).seal(reason, at=AT)
    assert (scene.verify("s2").state, scene.verify("s2").reason) == ("INTERRUPTED", reason)


def test_a_torn_receipt(scene: Scene) -> None:
    """A fragment after the acknowledged lines is no loss: completeness stays known."""
    scene.path("s2").write_bytes(scene.content("s2") + b'{"at":"2026')
    verdict = scene.verify("s2")
    assert (verdict.state, verdict.completeness) == ("TORN", "KNOWN")
    assert (verdict.lines, verdict.fragment_bytes) == (11, 11)


def test_without_a_head_completeness_is_unknown(scene: Scene) -> None:
    """Lines alone verify, but cannot show that none is missing; a fragment is a break then."""
    assert scene.verify("s1", head=False).completeness == "UNKNOWN"
    scene.path("s2").write_bytes(scene.content("s2") + b"x")
    assert scene.outcome("s2", head=False) == "torn"


def test_lines_beyond_the_head_are_counted(scene: Scene) -> None:
    """Valid lines after the acknowledged ones verify, and the verdict says how many."""
    lines = [*scene.lines("s2"), *scene.lines("s2")[1:3]]
    scene.put("s2", rechained(lines, "s2", lambda n, fields: None))
    assert (scene.verify("s2").lines, scene.verify("s2").beyond) == (13, 2)


def test_a_torn_head_slot_demands_the_newer_line(scene: Scene) -> None:
    """Spoiling the newer slot does not let the last line be dropped."""
    head = bytearray(scene.head("s2").read_bytes())
    newer = 0 if b'"n":11,' in head[:512] else 1
    head[newer * 512 + 20] ^= 1
    scene.head("s2").write_bytes(head)
    assert scene.outcome("s2") == "OPEN"
    scene.put("s2", scene.lines("s2")[:-1])
    assert scene.outcome("s2") == "truncated"


def test_nothing_to_verify_is_not_success(tmp_path: Path) -> None:
    """A session without a line, and one without any file, give no verdict."""
    scene = Scene(new_receipts(tmp_path))
    fill(scene.receipts, "s1", 0).close()
    scene.path("s1").write_bytes(b"")
    assert scene.outcome("s1", head=False) == "unverifiable.nothing"
    assert scene.outcome("s9") == "unverifiable.missing"
    assert scene.outcome("s9", head=False) == "unverifiable.missing"


def test_a_break_says_where(scene: Scene) -> None:
    """A break names the line, from 0, and the byte where that line begins."""
    lines = scene.lines("s1")
    lines[4] = lines[4].replace(b"main", b"mine")
    scene.put("s1", lines)
    with pytest.raises(Break) as caught:
        scene.verify("s1")
    start = sum(len(line) + 1 for line in lines[:4])
    assert (caught.value.line, caught.value.offset) == (4, start)


def test_a_fork_says_where(scene: Scene) -> None:
    """A line that is signed but not the acknowledged one is named with its own beginning."""
    lines = scene.lines("s2")
    forged = rechained(lines, "s2", lambda n, fields: fields["data"].update(more="x"))
    scene.put("s2", forged)
    with pytest.raises(Break) as caught:
        scene.verify("s2")
    start = sum(len(line) + 1 for line in forged[:10])
    assert (caught.value.reason, caught.value.line, caught.value.offset) == ("fork", 10, start)


def test_the_session_is_named_by_head_or_folder(scene: Scene) -> None:
    """Without a name given, the head's name counts, else the folder's."""
    assert verify(scene.path("s1"), key=KEY, head=scene.head("s1")).sid == "s1"
    assert verify(scene.path("s1"), key=KEY, head=None).sid == "s1"
    with pytest.raises(Break):
        verify(scene.path("s1"), key=KEY, head=scene.head("s2"))


@pytest.mark.parametrize("trick", ["symlink", "hardlink", "mode"])
def test_an_unsafe_head_is_not_believed(scene: Scene, trick: str) -> None:
    """A head that is a link, has two names or can be written by others gives no verdict."""
    head, aside = scene.head("s1"), scene.head("s1").with_name("aside")
    if trick == "symlink":
        os.rename(head, aside)
        head.symlink_to(aside)
    elif trick == "hardlink":
        os.link(head, aside)
    else:
        head.chmod(0o622)
    assert scene.outcome("s1") == f"unverifiable.{trick}"


def test_entries_are_what_was_appended(scene: Scene) -> None:
    """Reading gives each line's number, kind, instant, data, and the hash that the next links."""
    entries = list(read_entries(scene.path("s1"), KEY, scene.head("s1")))
    assert [entry.n for entry in entries] == list(range(12))
    assert [entry.kind for entry in entries] == ["open", *["decision"] * 10, "seal"]
    assert entries[0].data == {"agent": "claude-code", "format": "receipt/1"}
    assert entries[3].at == AT + 2 * SECOND
    assert entries[-1].hash == scene.verify("s1").last
    assert b'"prev":"' + entries[4].hash.encode() in scene.lines("s1")[5]


def test_reading_stops_at_the_break(scene: Scene) -> None:
    """What is authentic is yielded, and then the break is raised; nothing after it is."""
    lines = scene.lines("s1")
    lines[4] = lines[4].replace(b"main", b"mine")
    scene.put("s1", lines)
    seen: list[int] = []
    entries = read_entries(scene.path("s1"), KEY, scene.head("s1"))
    with pytest.raises(Break):
        seen.extend(entry.n for entry in entries)
    assert seen == [0, 1, 2, 3]


def test_reading_notices_what_is_missing_at_the_end(scene: Scene) -> None:
    """A reader of a cut receipt gets the break after the last line that is left."""
    scene.put("s2", scene.lines("s2")[:5])
    entries = read_entries(scene.path("s2"), KEY, scene.head("s2"))
    with pytest.raises(Break, match="11 lines were acknowledged and 5 are left"):
        list(entries)


def test_reading_nothing_is_an_error(scene: Scene) -> None:
    """Reading a receipt that is not there is not an empty list."""
    with pytest.raises(UnverifiableError):
        list(read_entries(scene.path("s9"), KEY, None))


def test_the_size_is_read_once(scene: Scene) -> None:
    """Lines written after the verifier looked are not part of its verdict."""
    entries = read_entries(scene.path("s2"), KEY, scene.head("s2"))
    next(entries)
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT)
    assert len(list(entries)) == 10


def test_a_failing_disk_gives_no_verdict(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt that cannot be read to its end is neither verified nor called tampered."""

    def fail(fd: int, count: int, place: int) -> bytes:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, "pread", fail)
    assert scene.outcome("s1") == "unverifiable.unreadable"
    assert scene.outcome("s1", head=False) == "unverifiable.unreadable"


def test_a_seal_that_was_not_in_sight_is_not_believed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the look ahead for a seal miss one, its unproven root is a break, not a verdict."""
    monkeypatch.setattr(sys.modules["broker.receipt.inspection"], "_SEAL_LINE_BYTES", 10)
    assert scene.outcome("s1") == "after_seal"
    assert scene.outcome("s2") == "OPEN"


def test_a_forged_line_of_the_same_length_is_a_fork(scene: Scene) -> None:
    """The head binds the last line's hash, not only the size of the file."""
    forged = rechained(
        scene.lines("s2"),
        "s2",
        lambda n, fields: fields["data"].update(tool="Bash") if n == 3 else None,
    )
    scene.put("s2", forged)
    assert scene.outcome("s2") == "fork"


# ── levels, and what is asked for ──

SIGNER = SigningKey.of(bytes(range(32)))


def noted(scene: Scene, sid: str, size: int) -> Path:
    """Sign a checkpoint over the first lines of a session, and return its place."""
    tree = Frontier()
    for line in scene.lines(sid)[:size]:
        tree.append(line)
    path = scene.head(sid).with_suffix(".note")
    path.write_bytes(sign_checkpoint(SIGNER, of_receipt(sid), size, tree.root()))
    return path


def promising(scene: Scene, sid: str, level: str, lines: int = 0) -> None:
    """Begin a session that promises a level."""
    receipt = scene.receipts.create(sid, opening={"level": level}, at=AT)
    for i in range(lines):
        receipt.append("note", {"i": i}, at=AT, durable=False)
    receipt.close()


def answer(scene: Scene, sid: str, demand: Demand = ANY, **more: Any) -> str:
    """Return level, tags and completeness, or the reason of the break or error."""
    told = {
        "key": KEY,
        "head": scene.head(sid),
        "checkpoint": scene.head(sid).with_suffix(".note"),
        "vkeys": (SIGNER.public,),
        **more,
    }

    def act() -> str:
        found = verify(scene.path(sid), sid=sid, demand=demand, **told)
        return f"{found.level} {found.tags} {found.completeness}"

    return outcome(act)


def test_everything_that_is_there_counts(scene: Scene) -> None:
    """Without a demand the level is what head, tags and checkpoint come to."""
    assert answer(scene, "s1") == "mac checked KNOWN"
    assert answer(scene, "s1", head=None) == "mac checked UNKNOWN"
    noted(scene, "s1", 12)
    assert answer(scene, "s1") == "signed checked KNOWN"
    assert answer(scene, "s1", head=None) == "signed checked KNOWN"
    verdict = scene_verdict(scene, "s1")
    assert (verdict.signed_lines, verdict.signer) == (12, SIGNER.name)
    assert verdict.head == f"12:{verdict.last}"


def scene_verdict(scene: Scene, sid: str, **more: Any) -> Verdict:
    """Verify a session with its checkpoint."""
    return verify(
        scene.path(sid),
        key=KEY,
        head=scene.head(sid),
        checkpoint=scene.head(sid).with_suffix(".note"),
        vkeys=(SIGNER.public,),
        **more,
    )


def test_a_third_party_needs_no_secret(scene: Scene) -> None:
    """With the public key alone the level is reached, the tags are not; open, the end is open."""
    noted(scene, "s1", 12)
    noted(scene, "s2", 11)
    assert answer(scene, "s1", key=None) == "signed unchecked KNOWN"
    assert answer(scene, "s2", key=None) == "signed unchecked UNKNOWN"


def test_with_nothing_to_verify_with(scene: Scene) -> None:
    """No key is no verdict, unless only the chain is asked for; then nothing else is claimed."""
    assert answer(scene, "s1", key=None, vkeys=()) == "unverifiable.missing"
    for level in LEVELS[1:]:
        assert answer(scene, "s1", Demand(level), key=None, vkeys=()) == "unverifiable.missing"
    assert answer(scene, "s1", Demand("chain"), key=None) == "chain unchecked UNKNOWN"
    verdict = verify(scene.path("s1"), key=None, head=None, sid="s1", demand=Demand("chain"))
    assert "nobody vouches" in verdict.warnings[0]


@pytest.mark.parametrize("level", ["signed", "anchored"])
def test_a_level_that_is_asked_for_and_not_reached(scene: Scene, level: Level) -> None:
    """Less than what was asked for is a break."""
    assert answer(scene, "s1", Demand(level)) == "no_checkpoint"
    assert answer(scene, "s1", Demand(level), key=None) == "no_checkpoint"
    assert answer(scene, "s2", Demand(level)) == "no_checkpoint"
    noted(scene, "s1", 12)
    wanted = "signed checked KNOWN" if level == "signed" else "no_anchor"
    assert answer(scene, "s1", Demand(level)) == wanted


def test_a_promise_is_kept_whatever_is_asked(scene: Scene) -> None:
    """Asking for less than the open line promises changes nothing."""
    promising(scene, "s4", "signed", 64)
    promising(scene, "s5", "anchored", 64)
    for demand in (ANY, Demand("chain"), Demand("mac")):
        assert answer(scene, "s4", demand) == "no_checkpoint"
        assert answer(scene, "s5", demand) == "no_checkpoint"
    noted(scene, "s4", 65)
    noted(scene, "s5", 65)
    assert answer(scene, "s4") == "signed checked KNOWN"
    assert answer(scene, "s5") == "no_anchor"


def test_a_young_session_may_have_no_checkpoint_yet(scene: Scene) -> None:
    """Up to 64 lines a promise of checkpoints may be open; asked for, or sealed, it may not."""
    promising(scene, "s4", "signed", 63)
    assert answer(scene, "s4") == "mac checked KNOWN"
    assert answer(scene, "s4", Demand("signed")) == "no_checkpoint"
    with scene.receipts.resume("s4", at=AT) as receipt:
        receipt.append("note", {}, at=AT)
    assert answer(scene, "s4") == "no_checkpoint"
    promising(scene, "s5", "signed")
    scene.receipts.resume("s5", at=AT).seal("complete", at=AT)
    assert answer(scene, "s5") == "no_checkpoint"


def test_a_promise_that_nobody_vouches_for_is_told(scene: Scene) -> None:
    """At level chain the open line is not authentic, so its promise is a warning only."""
    promising(scene, "s4", "signed")
    verdict = verify(scene.path("s4"), key=None, head=None, sid="s4", demand=Demand("chain"))
    assert "promises level signed" in verdict.warnings[-1]


def test_an_unknown_promise_is_a_break(scene: Scene) -> None:
    """A level of a later version is not taken for one of ours."""
    promising(scene, "s4", "notarised")
    assert answer(scene, "s4") == "level"


def test_lines_after_the_checkpoint_of_an_open_receipt_are_told(scene: Scene) -> None:
    """With the key they verify, and the verdict says how far the checkpoint goes."""
    noted(scene, "s2", 7)
    verdict = scene_verdict(scene, "s2")
    assert (verdict.level, verdict.signed_lines, verdict.lines) == ("signed", 7, 11)
    assert "covers 7 of 11 lines" in verdict.warnings[0]


def test_a_seal_can_be_required(scene: Scene) -> None:
    """With a seal, for whatever reason, the demand is met; without, it is a break at the end."""
    assert answer(scene, "s1", Demand(require_seal=True)) == "mac checked KNOWN"
    with pytest.raises(Break) as caught:
        scene_verdict(scene, "s2", demand=Demand(require_seal=True))
    assert (caught.value.reason, caught.value.line) == ("not_sealed", 11)
    assert caught.value.offset == len(scene.content("s2"))
    scene.receipts.resume("s2", at=AT).seal("abandoned", at=AT)
    assert answer(scene, "s2", Demand(require_seal=True)) == "mac checked KNOWN"


def test_an_expected_head_is_demanded(scene: Scene) -> None:
    """A head that was written down holds a receipt whose own head was rewritten."""
    noted_down = scene.verify("s2").head
    n, _, last = noted_down.partition(":")
    demand = Demand(expect=(int(n), last))
    assert answer(scene, "s2", demand) == "mac checked KNOWN"
    assert answer(scene, "s2", demand, head=None) == "mac checked UNKNOWN"
    scene.put("s2", scene.lines("s2")[:-2])
    assert answer(scene, "s2", demand, head=None) == "truncated"


def test_entries_do_not_ask_for_a_level(scene: Scene) -> None:
    """A session is rebuilt from entries that its key vouches for, whatever it promised."""
    promising(scene, "s4", "signed", 70)
    assert len(list(read_entries(scene.path("s4"), KEY, scene.head("s4")))) == 71
