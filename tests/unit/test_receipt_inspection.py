"""One inspection: what vouches for the lines is met, and nothing unauthenticated is handed out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from broker.errors import Break
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import Inspection, Mark, Pace, inspecting
from broker.receipt.merkle import EMPTY_ROOT, Frontier
from broker.receipt.signing import SigningKey
from broker.receipt.since import Since
from tests.receiptkit import AT, KEY, Scene, new_receipts, outcome, rechained

SIGNER = SigningKey.of(bytes(range(32)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path / "home")


def root_of(lines: list[bytes]) -> bytes:
    """Return the Merkle root of some lines."""
    tree = Frontier()
    for line in lines:
        tree.append(line)
    return tree.root()


def signed(scene: Scene, sid: str, size: int, root: bytes | None = None) -> Path:
    """Sign a checkpoint over the first lines of a session."""
    path = scene.head(sid).with_suffix(".note")
    found = root_of(scene.lines(sid)[:size]) if root is None else root
    path.write_bytes(sign_checkpoint(SIGNER, of_receipt(sid), size, found))
    return path


def evidence(scene: Scene, sid: str, *, key: bool = True, checkpoint: bool = True) -> Evidence:
    """Return what belongs to a session."""
    path = scene.head(sid).with_suffix(".note") if checkpoint else None
    secret = KEY if key else None
    return Evidence(scene.path(sid), sid, secret, scene.head(sid), path, (SIGNER.public,))


def ran(what: Evidence, expect: tuple[int, str] | None = None) -> str:
    """Return the level reached, or what went wrong."""

    def act() -> str:
        marks = () if expect is None else (Mark(expect[0], "somebody", last=expect[1]),)
        with inspecting(what, marks) as found:
            found.run()
            assert found.done
            return found.level

    return outcome(act)


@pytest.mark.parametrize("size", range(1, 12))
def test_a_checkpoint_anywhere_in_an_open_receipt(scene: Scene, size: int) -> None:
    """Wherever the checkpoint stands, the root of the lines before it is met there."""
    signed(scene, "s2", size)
    assert ran(evidence(scene, "s2")) == "signed"
    signed(scene, "s2", size, bytes(range(32)))
    assert ran(evidence(scene, "s2")) == "checkpoint_root"


def test_a_checkpoint_over_more_lines_than_there_are(scene: Scene) -> None:
    """Lines that the checkpoint covers and that are gone are a loss, even when the head agrees."""
    signed(scene, "s2", 12, bytes(32))
    assert ran(evidence(scene, "s2")) == "truncated"


def test_a_checkpoint_over_nothing_reaches_no_level(scene: Scene) -> None:
    """A checkpoint of no line vouches for none."""
    signed(scene, "s2", 0, EMPTY_ROOT)
    assert ran(evidence(scene, "s2")) == "mac"


def test_a_sealed_receipt_under_an_older_checkpoint(scene: Scene) -> None:
    """After the seal the checkpoint must cover every line."""
    signed(scene, "s1", 11)
    assert ran(evidence(scene, "s1")) == "checkpoint_old"
    signed(scene, "s1", 12)
    assert ran(evidence(scene, "s1")) == "signed"


def test_without_the_key_every_line_must_be_covered(scene: Scene) -> None:
    """A line after the checkpoint is vouched for by nobody when its tag cannot be checked."""
    signed(scene, "s2", 10)
    assert ran(evidence(scene, "s2", key=False)) == "unsigned"
    signed(scene, "s2", 11)
    assert ran(evidence(scene, "s2", key=False)) == "signed"
    assert ran(evidence(scene, "s2", key=False, checkpoint=False)) == "chain"


def test_a_head_that_somebody_wrote_down(scene: Scene) -> None:
    """The expected line must be there, and be that line; what follows it is free."""
    lines = scene.lines("s2")
    for n in (1, 5, 11):
        last = sha256(lines[n - 1]).hexdigest()
        assert ran(evidence(scene, "s2"), (n, last)) == "mac"
        assert ran(evidence(scene, "s2"), (n, "0" * 64)) == "fork"
        assert ran(evidence(scene, "s2"), (n + 11, last)) == "truncated"
    scene.path("s2").write_bytes(b"")
    assert ran(evidence(scene, "s2", key=True), (1, "0" * 64)) == "truncated"


def test_checkpoint_and_expected_head_at_one_line(scene: Scene) -> None:
    """Two vouchers for the same line are both asked."""
    signed(scene, "s2", 5)
    last = sha256(scene.lines("s2")[4]).hexdigest()
    assert ran(evidence(scene, "s2"), (5, last)) == "signed"
    signed(scene, "s2", 5, bytes(32))
    assert ran(evidence(scene, "s2"), (5, last)) == "checkpoint_root"


def test_the_promise_is_read(scene: Scene) -> None:
    """What the open line promises is known after the reading."""
    lines = rechained(
        scene.lines("s2"),
        "s2",
        lambda n, fields: fields["data"].update(level="signed") if n == 0 else None,
    )
    scene.put("s2", lines)
    with inspecting(Evidence(scene.path("s2"), "s2", KEY)) as found:
        found.run()
        assert found.promise == "signed"


# ── entries ──


def numbers(found: Inspection) -> Iterator[int]:
    """Yield the numbers of the entries."""
    for entry in found.entries():
        yield entry.n


def test_entries_without_the_key_come_after_the_root_was_met(scene: Scene) -> None:
    """With a forged line anywhere, not one entry is handed out; with none, all are."""
    signed(scene, "s1", 12)
    with inspecting(evidence(scene, "s1", key=False)) as found:
        assert list(numbers(found)) == list(range(12))
    lines = scene.lines("s1")
    forged = rechained(lines[:11], "s1", lambda n, fields: fields["data"].update(tool="Bash"))
    scene.put("s1", [*forged, lines[11]])
    seen: list[int] = []
    with inspecting(evidence(scene, "s1", key=False)) as found:
        assert outcome(lambda: seen.extend(numbers(found))) in {"checkpoint_root", "prev", "seal"}
    assert seen == []


def test_entries_without_the_key_are_the_bytes_that_were_verified(scene: Scene) -> None:
    """Bytes that are changed in place after the check never reach a reader."""
    signed(scene, "s1", 12)
    with inspecting(evidence(scene, "s1", key=False)) as found:
        entries = found.entries()
        first = next(entries)
        content = scene.content("s1").replace(b"call-8", b"call-x")
        with open(scene.path("s1"), "r+b") as file:
            file.write(content)
        rest = list(entries)
    assert [first.n, *(entry.n for entry in rest)] == list(range(12))
    assert "call-x" not in str(rest)


def test_entries_that_nothing_authenticates_are_not_handed_out(scene: Scene) -> None:
    """Neither key nor checkpoint: no entry."""
    with inspecting(evidence(scene, "s1", key=False, checkpoint=False)) as found:
        assert outcome(lambda: list(numbers(found))) == "unverifiable.unauthenticated"


def test_an_empty_receipt_is_nothing(scene: Scene) -> None:
    """With and without the key, no line is nothing to verify."""
    scene.path("s2").write_bytes(b"")
    for key in (True, False):
        what = Evidence(scene.path("s2"), "s2", KEY if key else None)
        assert ran(what) == "unverifiable.nothing"


def test_a_disk_that_fails_is_told_apart(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever read fails, the answer is that nothing can be said."""
    signed(scene, "s1", 12)
    what = evidence(scene, "s1", key=False)
    real = os.pread
    for failing in range(6):
        calls = 0

        def pread(fd: int, count: int, place: int, failing: int = failing) -> bytes:
            nonlocal calls
            calls += 1
            if calls > failing:
                raise OSError(5, "input/output error")
            return real(fd, count, place)

        monkeypatch.setattr(os, "pread", pread)

        def read() -> str:
            with inspecting(what) as found:
                list(found.entries())
            return "read"

        answer = outcome(read)
        monkeypatch.undo()
        assert answer in {"unverifiable.unreadable", "read"}
        assert (answer == "read") == (calls <= failing)


# ── from where a verification ended before ──


def kept(scene: Scene, sid: str, *, checkpoint: bool = True) -> Since:
    """Verify all of a session, and keep where that came to."""
    with inspecting(evidence(scene, sid, checkpoint=checkpoint), keeps=True) as found:
        found.run()
        return found.since(AT)


def since(scene: Scene, sid: str, state: Since, *marks: Mark, checkpoint: bool = True) -> str:
    """Return how many lines were trusted, or what went wrong."""

    def act() -> str:
        with inspecting(evidence(scene, sid, checkpoint=checkpoint), marks, state) as found:
            found.run()
            return str(found.trusted.state.n if found.trusted else 0)

    return outcome(act)


def append(scene: Scene, sid: str, lines: int) -> None:
    """Write more lines."""
    with scene.receipts.resume(sid, at=AT) as receipt:
        for i in range(lines):
            receipt.append("note", {"i": i}, at=AT)


def test_only_what_is_new_is_verified(scene: Scene) -> None:
    """An edit before the state is trusted away; one behind it, and a cut, are not."""
    state = kept(scene, "s2")
    append(scene, "s2", 5)
    assert since(scene, "s2", state) == "11"
    lines = scene.lines("s2")
    scene.put("s2", [*lines[:3], spoiled(lines[3]), *lines[4:]])
    assert since(scene, "s2", state) == "11"
    assert ran(evidence(scene, "s2")) == "mac"
    scene.put("s2", [*lines[:13], spoiled(lines[13]), *lines[14:]])
    assert since(scene, "s2", state) == "mac"
    scene.put("s2", lines[:15])
    assert since(scene, "s2", state) == "truncated"


def spoiled(line: bytes) -> bytes:
    """Return a line with one bit of its instant flipped."""
    return line[:20] + bytes([line[20] ^ 1]) + line[21:]


def test_what_a_state_knows_is_demanded_of_a_whole_pass(scene: Scene, tmp_path: Path) -> None:
    """A shorter or another history than the one that was verified is a break, head or not."""
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "home", copy)
    older = Scene(new_receipts(copy))
    append(scene, "s2", 2)
    state = kept(scene, "s2")
    assert since(older, "s2", state) == "truncated"
    with older.receipts.resume("s2", at=AT) as receipt:
        for text in ("other", "lines", "here"):
            receipt.append("note", {"text": text}, at=AT)
    assert older.outcome("s2") == "OPEN"
    assert since(older, "s2", state) == "fork"


def test_a_sealed_receipt_since(scene: Scene) -> None:
    """Nothing is new after a seal; the seal of new lines is proven over the old ones too."""
    assert since(scene, "s1", kept(scene, "s1", checkpoint=False), checkpoint=False) == "12"
    state = kept(scene, "s2", checkpoint=False)
    scene.receipts.resume("s2", at=AT).seal("complete", at=AT)
    assert since(scene, "s2", state, checkpoint=False) == "11"
    lines = scene.lines("s2")
    scene.put("s2", [*lines, b"x"])
    assert since(scene, "s2", state, checkpoint=False) == "after_seal"


def test_a_checkpoint_behind_the_state_is_met(scene: Scene) -> None:
    """The tree goes on from the state, so a newer checkpoint is verified without the old lines."""
    signed(scene, "s2", 7)
    state = kept(scene, "s2")
    assert state.covered[0] == 7
    append(scene, "s2", 5)
    assert since(scene, "s2", state) == "11"
    for size in (11, 12, 16):
        signed(scene, "s2", size)
        assert since(scene, "s2", state) == "11"
        signed(scene, "s2", size, bytes(range(32)))
        assert since(scene, "s2", state) == "checkpoint_root"


def test_another_checkpoint_before_the_state_takes_a_whole_pass(scene: Scene) -> None:
    """What the state cannot answer is read again, from the first line."""
    signed(scene, "s2", 7)
    state = kept(scene, "s2")
    signed(scene, "s2", 5)
    assert since(scene, "s2", state) == "0"
    signed(scene, "s2", 5, bytes(range(32)))
    assert since(scene, "s2", state) == "checkpoint_root"
    last = sha256(scene.lines("s2")[2]).hexdigest()
    assert since(scene, "s2", state, Mark(3, "somebody", last=last), checkpoint=False) == "0"
    assert since(scene, "s2", state, Mark(3, "somebody", last="0" * 64)) == "fork"


def test_an_older_checkpoint_over_a_seal_says_where_its_lines_end(scene: Scene) -> None:
    """The place of the break is the same, read from the first line or not."""
    signed(scene, "s2", 7)
    state = kept(scene, "s2")
    scene.receipts.resume("s2", at=AT).seal("complete", at=AT)
    places = set()
    for begin in (None, state):
        with inspecting(evidence(scene, "s2"), since=begin) as found:
            with pytest.raises(Break) as caught:
                found.run()
            places.add((caught.value.reason, caught.value.line, caught.value.offset))
    assert places == {("checkpoint_old", 7, sum(len(x) + 1 for x in scene.lines("s2")[:7]))}


@pytest.mark.parametrize("pace", [Pace(jobs=4), Pace(quick=True), Pace(jobs=4, quick=True)])
def test_the_pace_changes_nothing(scene: Scene, pace: Pace) -> None:
    """In haste or by many, the level and the breaks are the same."""

    def answer(how: Pace) -> str:
        def act() -> str:
            with inspecting(evidence(scene, "s1")) as found:
                found.run(how)
                return f"{found.level} {found.chain.n} {found.chain.closing}"

        return outcome(act)

    assert answer(pace) == answer(Pace()) == "mac 12 complete"
    signed(scene, "s1", 12)
    assert answer(pace) == answer(Pace()) == "signed 12 complete"
    signed(scene, "s1", 12, bytes(range(32)))
    assert answer(pace) == answer(Pace()) == "checkpoint_root"
    lines = scene.lines("s1")
    scene.put("s1", [*lines[:6], spoiled(lines[6]), *lines[7:]])
    assert answer(pace) == answer(Pace()) == "mac"


def test_without_the_key_there_is_no_haste(scene: Scene) -> None:
    """What is not authenticated is always read in full."""
    signed(scene, "s1", 12)
    with inspecting(evidence(scene, "s1", key=False)) as found:
        found.run(Pace(jobs=4, quick=True))
        assert (found.quick, found.level) == (False, "signed")


def test_progress_is_told(scene: Scene) -> None:
    """Whoever asks is told how many bytes are verified, entry by entry as well."""
    with scene.receipts.resume("s2", at=AT) as receipt:
        for i in range(1_500):
            receipt.append("note", {"i": i, "text": "x" * 200}, at=AT, durable=False)
    size = len(scene.content("s2"))
    for read in (
        lambda found, tell: found.run(Pace(progress=tell)),
        lambda found, tell: list(found.entries(tell)),
    ):
        done: list[int] = []
        with inspecting(evidence(scene, "s2", checkpoint=False)) as found:
            read(found, done.append)
        assert done == sorted(done)
        assert 0 < done[0] <= done[-1] <= size
