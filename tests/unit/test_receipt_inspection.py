"""One inspection: what vouches for the lines is met, and nothing unauthenticated is handed out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import Inspection, Mark, inspecting
from broker.receipt.merkle import EMPTY_ROOT, Frontier
from broker.receipt.signing import SigningKey
from tests.receiptkit import KEY, Scene, outcome, rechained

SIGNER = SigningKey.of(bytes(range(32)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


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
