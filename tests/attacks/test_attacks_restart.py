"""
What the next start does with a receipt that was attacked: nothing that would cover it up.

A start resumes sessions that were abandoned and seals them. If it believed less carefully than
the verifier, a receipt that does not verify would verify afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from broker.errors import BrokerError
from broker.home import Home
from broker.receipt.store import Receipts
from tests.attacks.test_attacks_v1 import CASES, put_key
from tests.receiptkit import AT, SECOND, Scene

NO_BREAK = ("SEALED", "OPEN", "TORN")
BROKEN = sorted(
    n for n, (expected, on, _) in CASES.items() if on != "key" and expected not in NO_BREAK
)


def restart(scene: Scene, sid: str) -> bool:
    """Resume and seal as a start does; return whether anything was written."""
    home = Home.find({"BROKER_HOME": str(scene.path(sid).parents[3])})
    with suppress(BrokerError):
        receipt = Receipts(home, scene.key).resume(sid, at=AT + 90 * SECOND)
        try:
            receipt.seal("abandoned", at=AT + 91 * SECOND)
        finally:
            receipt.close()
        return True
    return False


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_a_start_covers_up_no_attack(name: str, scene: Scene) -> None:
    """What the verifier refuses is neither resumed nor sealed, and is refused the same after."""
    expected, on, act = CASES[name]
    put_key(scene)
    act(scene)
    assert not restart(scene, on)
    assert scene.outcome(on) == expected


def _swapped(head: bytes) -> bytes:
    return head[512:] + head[:512][::-1]


HEADS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda head: b"",
    "one byte": lambda head: b"\n",
    "zeros": lambda head: bytes(1024),
    "blanks": lambda head: b" " * 1023 + b"\n",
    "half": lambda head: head[:512],
    "one too many": lambda head: head + b"\n",
    "reversed": lambda head: head[::-1],
    "halves changed": _swapped,
}


@pytest.mark.parametrize("change", sorted(HEADS))
@pytest.mark.parametrize("left", [11, 5, 1])
def test_a_spoilt_head_is_never_believed(change: str, left: int, scene: Scene) -> None:
    """Lines cut from the end stay a loss at the next start, whatever is put in the head's place."""
    scene.put("s2", scene.lines("s2")[:left])
    head = scene.head("s2")
    head.write_bytes(HEADS[change](head.read_bytes()))
    before = scene.outcome("s2")
    assert before in ("head_mac", "truncated")
    assert not restart(scene, "s2")
    assert scene.outcome("s2") == before
    assert len(scene.lines("s2")) == left
