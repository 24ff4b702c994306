"""
Every single change of a kind: each flipped bit, each cut, each pair of swapped lines.

One sealed receipt of a dozen lines, one open one, their heads, a checkpoint, and the ledger with
its head and its mark. Where every change takes long, `make test` takes an even sample of them,
and `make test-deep` all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path

import pytest

from broker.receipt.audit import audit
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from broker.receipt.verify import verify
from tests.attacks.test_attacks_v1 import key_file, put_key
from tests.receiptkit import KEY, Scene, outcome
from tests.standalone.kit import Files, first, second

SIGNER = SigningKey.of(bytes(range(32)))
STANDS = {"SEALED", "OPEN", "TORN", "INTERRUPTED"}
SAMPLE = 19  # of so many changes, `make test` makes one; odd, so that all bits occur
Change = tuple[str, bytes]

both = pytest.mark.parametrize(
    "step", [SAMPLE, pytest.param(1, marks=[pytest.mark.deep, pytest.mark.timeout(3_600)])]
)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three sessions, and their key."""
    scene = Scene.at(tmp_path)
    put_key(scene)
    return scene


def flips(content: bytes) -> Iterator[Change]:
    """Yield a content with each of its bits flipped."""
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            yield f"bit {bit} of byte {place}", bytes(changed)


def cuts(content: bytes) -> Iterator[Change]:
    """Yield each beginning of a content."""
    for size in range(len(content)):
        yield f"cut to {size}", content[:size]


def swaps(content: bytes) -> Iterator[Change]:
    """Yield a content with each pair of its lines swapped."""
    lines = content.split(b"\n")[:-1]
    for i, j in combinations(range(len(lines)), 2):
        swapped = list(lines)
        swapped[i], swapped[j] = lines[j], lines[i]
        yield f"lines {i} and {j}", b"".join(line + b"\n" for line in swapped)


def survivors(
    path: Path, changes: Iterable[Change], answer: Callable[[], str], step: int = 1
) -> list[tuple[str, str]]:
    """Make changes, one at a time, and return those after which the answer is not a break."""
    before = path.read_bytes()
    good = answer()
    assert good in STANDS
    found = []
    for number, (name, content) in enumerate(changes):
        if number % step:
            continue
        path.write_bytes(content)
        if (said := answer()) in STANDS or said.startswith(("unverifiable", "store")):
            found.append((name, said))
    path.write_bytes(before)
    assert answer() == good
    return found


# ── a receipt ──


@both
def test_every_flipped_bit_of_a_sealed_receipt(step: int, scene: Scene) -> None:
    """C01: each bit of a sealed receipt of a dozen lines."""
    assert len(scene.lines("s1")) == 12
    changes = flips(scene.content("s1"))
    assert survivors(scene.path("s1"), changes, lambda: scene.outcome("s1"), step) == []


def test_every_cut_of_an_open_receipt(scene: Scene) -> None:
    """T01: each point at which an open receipt can be cut off."""
    changes = cuts(scene.content("s2"))
    assert survivors(scene.path("s2"), changes, lambda: scene.outcome("s2")) == []


@both
def test_every_cut_of_a_sealed_receipt(step: int, scene: Scene) -> None:
    """T01: and a sealed one."""
    changes = cuts(scene.content("s1"))
    assert survivors(scene.path("s1"), changes, lambda: scene.outcome("s1"), step) == []


@pytest.mark.parametrize("sid", ["s1", "s2"])
def test_every_pair_of_lines_swapped(sid: str, scene: Scene) -> None:
    """S03: each two lines of a receipt, sealed or open, in each other's place."""
    changes = list(swaps(scene.content(sid)))
    assert len(changes) == {"s1": 66, "s2": 55}[sid]
    assert survivors(scene.path(sid), changes, lambda: scene.outcome(sid)) == []


# ── a head ──


def newer_slot(head: bytes) -> range:
    """Return the bytes of the slot that counts."""
    counts = [json.loads(head[start : start + 512])["n"] for start in (0, 512)]
    start = 512 * counts.index(max(counts))
    return range(start, start + 512)


def spoilt_heads(head: Path, receipt: Path, answer: Callable[[], str]) -> None:
    """
    Flip bits of both slots.

    A spoilt slot that counted is what a crash leaves: the other one then demands a line more,
    so the lines are still demanded, all of them. Any other is a break.
    """
    content, lines = head.read_bytes(), receipt.read_bytes()
    shorter = lines[: lines.rindex(b"\n", 0, -1) + 1]
    counts = newer_slot(content)
    one, other = content[: counts.start], content[counts.stop :]
    slot = content[counts.start : counts.stop]
    older = flips(one or other)
    changes = ((name, changed + slot if one else slot + changed) for name, changed in older)
    assert survivors(head, changes, answer, SAMPLE) == []
    spoilt = [(name, one + changed + other) for name, changed in flips(slot)][::SAMPLE]
    for name, changed in spoilt:
        head.write_bytes(changed)
        assert answer() in STANDS, name
        receipt.write_bytes(shorter)
        assert answer() == "truncated", name
        receipt.write_bytes(lines)
    head.write_bytes(content)


@pytest.mark.parametrize("sid", ["s1", "s2"])
def test_every_flipped_bit_of_a_head(sid: str, scene: Scene) -> None:
    """D07: a spoilt slot is a break, or demands what the head demanded before."""
    spoilt_heads(scene.head(sid), scene.path(sid), lambda: scene.outcome(sid))


def test_every_byte_of_a_head_is_read_alike(scene: Scene) -> None:
    """Both verifiers give one answer to a head with a byte changed."""
    head = scene.head("s2")
    before = head.read_bytes()
    files = Files("s2", scene.path("s2"), head, key=key_file(scene))
    for place in range(0, len(before), 3):
        head.write_bytes(before[:place] + bytes([before[place] ^ 0x21]) + before[place + 1 :])
        assert second(files) == first(files), place


def test_every_cut_of_a_head(scene: Scene) -> None:
    """A head that became shorter is none."""
    changes = cuts(scene.head("s2").read_bytes())
    assert survivors(scene.head("s2"), changes, lambda: scene.outcome("s2")) == []


# ── a checkpoint ──


@pytest.fixture
def note(scene: Scene) -> Path:
    """A checkpoint over the sealed receipt."""
    tree = Frontier()
    lines = scene.lines("s1")
    for line in lines:
        tree.append(line)
    path = scene.receipts.home.state / "note"
    path.write_bytes(sign_checkpoint(SIGNER, of_receipt("s1"), len(lines), tree.root()))
    return path


def with_note(scene: Scene, note: Path, *, key: bool) -> str:
    """Return the answer of a verification with the checkpoint."""
    return outcome(
        lambda: (
            verify(
                scene.path("s1"),
                key=KEY if key else None,
                head=scene.head("s1"),
                sid="s1",
                checkpoint=note,
                vkeys=(SIGNER.public,),
            ).state
        )
    )


@both
@pytest.mark.parametrize("key", [True, False], ids=["with the secret", "without"])
def test_every_change_of_a_checkpoint(key: bool, step: int, scene: Scene, note: Path) -> None:
    """P01, P02: each flipped bit and each cut of a checkpoint, with the secret and without."""
    content = note.read_bytes()
    changes = [*flips(content), *cuts(content)]
    assert survivors(note, changes, lambda: with_note(scene, note, key=key), step) == []


@both
def test_every_flipped_bit_under_a_signature_alone(step: int, scene: Scene, note: Path) -> None:
    """C01: without the secret, each bit of a receipt that a checkpoint covers."""
    changes = flips(scene.content("s1"))
    without = survivors(scene.path("s1"), changes, lambda: with_note(scene, note, key=False), step)
    assert without == []


# ── the ledger ──


def audited(scene: Scene) -> str:
    """Return what auditing a session comes to, which begins with the ledger."""
    return outcome(lambda: audit(scene.receipts, "s1").state)


@both
def test_every_flipped_bit_of_the_ledger(step: int, scene: Scene) -> None:
    """Each bit of the rows."""
    path = scene.receipts.ledger.path
    assert survivors(path, flips(path.read_bytes()), lambda: audited(scene), step) == []


@both
def test_every_cut_of_the_ledger(step: int, scene: Scene) -> None:
    """Each point at which it can be cut off."""
    path = scene.receipts.ledger.path
    assert survivors(path, cuts(path.read_bytes()), lambda: audited(scene), step) == []


def test_every_swap_in_the_ledger(scene: Scene) -> None:
    """Each pair of its rows."""
    path = scene.receipts.ledger.path
    changes = list(swaps(path.read_bytes()))
    assert len(changes) > 20
    assert survivors(path, changes, lambda: audited(scene)) == []


def test_every_flipped_bit_of_the_ledgers_head(scene: Scene) -> None:
    """A spoilt slot of its head is a break, or demands the rows that were demanded before."""
    ledger = scene.receipts.ledger
    spoilt_heads(ledger.head_path, ledger.path, lambda: audited(scene))


def test_every_change_of_the_ledgers_mark(scene: Scene) -> None:
    """Each flipped bit and each cut of the mark that there is a ledger."""
    path = scene.receipts.ledger.mark_path
    changes = [*flips(path.read_bytes()), *list(cuts(path.read_bytes()))[:-1]]
    assert survivors(path, changes, lambda: audited(scene)) == []
