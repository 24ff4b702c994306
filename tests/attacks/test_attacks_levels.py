"""
Attacks that only a signature or somebody's memory can see, and those on the verifier itself.

The attacker of the first group holds the secret of the installation: every tag and the head are
right. ``SIGNED`` holds what a checkpoint's file itself can suffer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.demand import ANY, Demand
from broker.receipt.head import Head, HeadForm
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from broker.receipt.verify import verify
from tests.receiptkit import AT, KEY, SECOND, Scene, new_receipts, outcome, rechained

SIGNER = SigningKey.of(bytes(range(32)))
OTHER = SigningKey.of(bytes(range(1, 33)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions, each under a checkpoint over all its lines."""
    scene = Scene.at(tmp_path / "home")
    for sid in ("s1", "s2", "s3"):
        sign(scene, sid)
    return scene


def note(scene: Scene, sid: str) -> Path:
    """Return where the checkpoint of a session lies."""
    return scene.head(sid).with_suffix(".note")


def sign(scene: Scene, sid: str, key: SigningKey = SIGNER) -> None:
    """Sign a checkpoint over the lines that a session has now."""
    tree = Frontier()
    lines = scene.lines(sid)
    for line in lines:
        tree.append(line)
    note(scene, sid).write_bytes(sign_checkpoint(key, of_receipt(sid), len(lines), tree.root()))


def answer(scene: Scene, sid: str, demand: Demand = ANY, *, key: bool = True) -> str:
    """Return the state, or what was found, with everything that belongs to the session."""
    return outcome(
        lambda: (
            verify(
                scene.path(sid),
                key=KEY if key else None,
                head=scene.head(sid),
                sid=sid,
                checkpoint=note(scene, sid),
                vkeys=(SIGNER.public,),
                demand=demand,
            ).state
        )
    )


def put_with_head(scene: Scene, sid: str, lines: list[bytes]) -> None:
    """Write a receipt and the head that fits it, as only a holder of the secret can."""
    from hashlib import sha256

    scene.put(sid, lines)
    size = sum(len(line) + 1 for line in lines)
    form = HeadForm(sid, KEY)
    slot = form.slot(Head(len(lines), sha256(lines[-1]).hexdigest(), size))
    scene.head(sid).write_bytes(slot + bytes(512))


def forged(scene: Scene, sid: str) -> list[bytes]:
    """Return another history of a session, every tag of it right."""
    return rechained(scene.lines(sid), sid, _lie)


def _lie(n: int, fields: dict[str, object]) -> None:
    data = fields["data"]
    if isinstance(data, dict) and data.get("decision") == "refuse":
        data["decision"] = "allow"


# ── by a holder of the secret ──


def test_c11_history_and_head_rewritten(scene: Scene) -> None:
    """C11: a forged history under a forged head passes the secret, and fails the signature."""
    put_with_head(scene, "s2", forged(scene, "s2"))
    assert scene.outcome("s2") == "OPEN"
    assert answer(scene, "s2") == "checkpoint_root"
    assert answer(scene, "s2", key=False) == "checkpoint_root"


def test_k14_a_verifier_who_holds_the_secret_forges(scene: Scene) -> None:
    """K14: who was given the secret to verify can make lines, and no checkpoint over them."""
    put_with_head(scene, "s2", forged(scene, "s2"))
    sign(scene, "s2", OTHER)
    assert answer(scene, "s2") == "checkpoint_sig"


def test_t09_the_end_cut_and_the_head_rewritten(scene: Scene) -> None:
    """T09: lines that the checkpoint covers are missed, whatever the head says."""
    put_with_head(scene, "s2", scene.lines("s2")[:-3])
    assert scene.outcome("s2") == "OPEN"
    assert answer(scene, "s2") == "truncated"


def test_r02_receipt_and_head_from_an_older_copy(scene: Scene, tmp_path: Path) -> None:
    """R02: a rollback of both is seen by a checkpoint, or a head written down, that was not."""
    old = tmp_path / "old"
    old.mkdir()
    for path in (scene.path("s2"), scene.head("s2"), note(scene, "s2")):
        shutil.copy(path, old / path.name)
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT + 20 * SECOND)
    sign(scene, "s2")
    known = scene.verify("s2").head.split(":")
    for path in (scene.path("s2"), scene.head("s2")):
        shutil.copy(old / path.name, path)
    assert scene.outcome("s2") == "OPEN"
    assert answer(scene, "s2") == "truncated"
    # With the checkpoint rolled back as well, only what lies elsewhere can know.
    shutil.copy(old / note(scene, "s2").name, note(scene, "s2"))
    assert answer(scene, "s2") == "OPEN"
    assert answer(scene, "s2", Demand(expect=(int(known[0]), known[1]))) == "truncated"


def test_r07_two_histories_of_one_session(scene: Scene, tmp_path: Path) -> None:
    """R07: of two signed continuations, a checkpoint of the one is a break in the other."""
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    left, right = scene, Scene(new_receipts(tmp_path / "copy"))
    for each, word in ((left, "left"), (right, "right")):
        with each.receipts.resume("s2", at=AT) as receipt:
            receipt.append("note", {"text": word}, at=AT + 20 * SECOND)
        sign(each, "s2")
        assert answer(each, "s2") == "OPEN"
    n, _, last = left.verify("s2").head.partition(":")
    assert answer(left, "s2", Demand(expect=(int(n), last))) == "OPEN"
    assert answer(right, "s2", Demand(expect=(int(n), last))) == "fork"
    shutil.copy(note(left, "s2"), note(right, "s2"))
    assert answer(right, "s2") == "checkpoint_root"


def test_p13_an_older_checkpoint_put_back(scene: Scene) -> None:
    """P13: an older genuine checkpoint is told in an open session, and a break in a sealed one."""
    before = note(scene, "s2").read_bytes()
    with scene.receipts.resume("s2", at=AT) as receipt:
        receipt.append("note", {}, at=AT + 20 * SECOND)
        sign(scene, "s2")
        note(scene, "s2").write_bytes(before)
        assert answer(scene, "s2") == "OPEN"
        assert answer(scene, "s2", key=False) == "unsigned"
        receipt.seal("complete", at=AT + 30 * SECOND)
    assert answer(scene, "s2") == "checkpoint_old"


def test_n09_a_promise_cannot_be_taken_back(scene: Scene) -> None:
    """N09: what the open line promises is demanded although its file was taken away."""
    for level, missing in (("signed", "no_checkpoint"), ("anchored", "no_checkpoint")):
        receipt = scene.receipts.create(f"x-{level}", opening={"level": level}, at=AT)
        receipt.seal("complete", at=AT)
        receipt.close()
        assert answer(scene, f"x-{level}") == missing
        assert answer(scene, f"x-{level}", Demand("mac")) == missing
        sign(scene, f"x-{level}")
    assert answer(scene, "x-signed") == "SEALED"
    assert answer(scene, "x-anchored") == "no_anchor"


# ── on the checkpoint itself ──

Change = Callable[[bytes], bytes]


def edited(line: int, change: Change) -> Change:
    """Return a change of one line of a note."""

    def act(content: bytes) -> bytes:
        lines = content.split(b"\n")
        lines[line] = change(lines[line])
        return b"\n".join(lines)

    return act


def flipped(text: bytes) -> bytes:
    """Return a text with another character in its middle."""
    place = len(text) // 2
    return text[:place] + (b"A" if text[place : place + 1] != b"A" else b"B") + text[place + 1 :]


SIGNED: dict[str, tuple[Change, str]] = {
    "P01": (edited(1, lambda size: b"11"), "checkpoint_sig"),
    "P02": (edited(2, flipped), "checkpoint_sig"),
    "P03": (lambda content: content[: content.index(b"\n\n") + 2], "checkpoint_sig"),
    "P07": (edited(1, lambda size: b"0" + size), "checkpoint_sig"),
    "of another session": (edited(0, lambda origin: origin[:-1] + b"2"), "checkpoint_sig"),
    "emptied": (lambda content: b"", "checkpoint_format"),
    "P06 line ends": (lambda content: content.replace(b"\n", b"\r\n"), "checkpoint_format"),
    "P06 last newline": (lambda content: content[:-1], "checkpoint_format"),
}


@pytest.mark.parametrize("key", [True, False], ids=["with the secret", "without"])
@pytest.mark.parametrize("name", SIGNED)
def test_p01_p07_a_checkpoint_changed(name: str, key: bool, scene: Scene) -> None:
    """P01, P02, P03, P06, P07: whatever is changed in a checkpoint, it vouches for nothing."""
    change, wanted = SIGNED[name]
    note(scene, "s1").write_bytes(change(note(scene, "s1").read_bytes()))
    assert answer(scene, "s1", key=key) == wanted


def test_p04_the_attackers_own_key(scene: Scene) -> None:
    """P04: a checkpoint by another key does not pass, whatever name it goes by."""
    sign(scene, "s1", OTHER)
    assert answer(scene, "s1") == "checkpoint_sig"


def test_p05_a_signature_of_a_stranger_is_ignored(scene: Scene) -> None:
    """P05: one more signature by an unknown key changes nothing."""
    ours = note(scene, "s1").read_bytes()
    sign(scene, "s1", OTHER)
    theirs = note(scene, "s1").read_bytes()
    note(scene, "s1").write_bytes(ours + theirs[theirs.index(b"\n\n") + 2 :])
    assert answer(scene, "s1") == "SEALED"


def test_r06_checkpoints_swapped(scene: Scene) -> None:
    """R06: a checkpoint of another session is of another chain, though its key is ours."""
    shutil.copy(note(scene, "s2"), note(scene, "s1"))
    assert answer(scene, "s1") == "checkpoint_origin"


def test_every_flipped_bit_of_a_checkpoint_is_found(scene: Scene) -> None:
    """No single bit of a checkpoint can be changed unseen."""
    content = note(scene, "s1").read_bytes()
    survivors = []
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            note(scene, "s1").write_bytes(changed)
            if answer(scene, "s1", key=False) not in {
                "checkpoint_sig",
                "checkpoint_format",
                "checkpoint_origin",
            }:
                survivors.append((place, bit))
    assert survivors == []


# ── with no secret at hand ──


def test_without_the_secret_no_change_survives(tmp_path: Path) -> None:
    """Every single flipped bit and every cut of a signed receipt is seen by the public key."""
    receipts = Scene.at(tmp_path).receipts
    scene = Scene(receipts)
    with receipts.create("small", opening={}, at=AT) as receipt:
        receipt.seal("complete", at=AT)
    sign(scene, "small")
    content = scene.content("small")
    survivors = []
    for cut in range(len(content)):
        scene.path("small").write_bytes(content[:cut])
        if answer(scene, "small", key=False) == "SEALED":
            survivors.append(cut)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        scene.path("small").write_bytes(changed)
        if answer(scene, "small", key=False) == "SEALED":
            survivors.append(place)
    assert survivors == []
