"""What is opened, in which order, and what it means when something is not there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.evidence import Evidence, opened
from broker.receipt.ratchetfile import ratchet_path
from broker.receipt.signing import SigningKey
from tests.receiptkit import KEY, Scene, fill, outcome

SIGNER = SigningKey.of(bytes(range(32)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


def evidence(scene: Scene, sid: str = "s1", **more: Any) -> Evidence:
    """Return all that belongs to a session, but for what is given otherwise."""
    found = Evidence(
        scene.path(sid),
        sid,
        KEY,
        scene.head(sid),
        scene.head(sid).with_suffix(".note"),
        (SIGNER.public,),
    )
    return replace(found, **more)


def answer(what: Evidence) -> str:
    """Return `open` or what keeps it from being opened."""

    def act() -> str:
        with opened(what):
            return "open"

    return outcome(act)


def note(scene: Scene, sid: str = "s1", of: str | None = None) -> Path:
    """Write a checkpoint beside the head."""
    path = scene.head(sid).with_suffix(".note")
    path.write_bytes(sign_checkpoint(SIGNER, of_receipt(of or sid), 12, bytes(range(32))))
    return path


def test_everything_is_there(scene: Scene) -> None:
    """Size, head and checkpoint are what the files say."""
    note(scene)
    with opened(evidence(scene)) as files:
        assert files.size == len(scene.content("s1"))
        assert files.slots is not None
        assert files.slots.head.n == 12
        assert files.checkpoint is not None
        assert (files.checkpoint.size, files.checkpoint.root) == (12, bytes(range(32)))


def test_no_checkpoint_is_no_fault_here(scene: Scene) -> None:
    """Whether one must be there is for the verdict; its file may be missing."""
    for what in (evidence(scene), evidence(scene, checkpoint=None)):
        with opened(what) as files:
            assert files.checkpoint is None


def test_a_head_is_only_read_with_a_secret(scene: Scene) -> None:
    """Without the secret a head says nothing, so it is not even asked for."""
    scene.head("s1").unlink()
    assert answer(evidence(scene)) == "no_head"
    assert answer(evidence(scene, key=None)) == "open"


def test_a_checkpoint_that_is_there_must_be_right(scene: Scene) -> None:
    """Of another session, signed by another key, spoiled, unsafe, or no key to check it with."""
    path = note(scene)
    other = SigningKey.of(bytes(range(1, 33))).public
    assert answer(evidence(scene, vkeys=(other,))) == "checkpoint_sig"
    assert answer(evidence(scene, vkeys=())) == "unverifiable.no_vkey"
    assert answer(evidence(scene, vkeys=(other, SIGNER.public))) == "open"
    note(scene, of="s2")
    assert answer(evidence(scene)) == "checkpoint_origin"
    path.write_bytes(path.read_bytes()[:-3])
    assert answer(evidence(scene)) == "checkpoint_format"
    note(scene).chmod(0o622)
    assert answer(evidence(scene)) == "unverifiable.mode"
    path.unlink()
    path.symlink_to(scene.path("s1"))
    assert answer(evidence(scene)) == "unverifiable.symlink"


def test_a_receipt_that_is_gone_is_missed_by_whoever_knew_it(scene: Scene) -> None:
    """Gone with a head or a checkpoint left is a loss; with nothing left, nothing to verify."""
    note(scene)
    scene.path("s1").unlink()
    assert answer(evidence(scene)) == "missing"
    assert answer(evidence(scene, head=None)) == "missing"
    assert answer(evidence(scene, head=None, checkpoint=None)) == "unverifiable.missing"
    assert answer(evidence(scene, key=None)) == "missing"


def test_the_vouchers_are_read_before_the_receipt(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ratchet, head, checkpoint, receipt: a line written meanwhile is never missed in the last."""
    note(scene)
    order = []
    real = os.open

    def spied(path: os.PathLike[str], *more: int) -> int:
        order.append(Path(path))
        return real(path, *more)

    monkeypatch.setattr(os, "open", spied)
    what = evidence(scene)
    with opened(what):
        pass
    assert order == [ratchet_path(what.head), what.head, what.checkpoint, what.path]


def test_nothing_stays_open(scene: Scene) -> None:
    """Whether it ends well or in a break, every descriptor is given back."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    if not before:
        pytest.skip("the kernel shows no open files here")
    note(scene)
    answer(evidence(scene))
    scene.head("s1").unlink()
    answer(evidence(scene))
    fill(scene.receipts, "s4", 1).close()
    assert len(os.listdir("/proc/self/fd")) == before
