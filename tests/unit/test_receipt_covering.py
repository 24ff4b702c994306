"""Checkpoints by somebody else than who wrote the lines: they cover up nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, UnverifiableError
from broker.limits import MAX_LINE_BYTES
from broker.receipt import covering
from broker.receipt.checkpoint import OF_LEDGER, Checkpoint, CheckpointFile, of_receipt
from broker.receipt.covering import FollowedTree, cover
from broker.receipt.signing import SigningKey
from tests.receiptkit import Scene, tampered_tag
from tests.unit.test_receipt_merkle import tree_hash

KEY = SigningKey.of(bytes(range(32)))


class Rows:
    """A file of rows and the file that its writers lock."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self.path, self.lock = place / "rows", place / "head"
        self.lock.write_bytes(b"")
        self.put([])

    def put(self, rows: list[bytes], fragment: bytes = b"") -> None:
        """Write the file anew."""
        self.path.write_bytes(b"".join(row + b"\n" for row in rows) + fragment)

    def tree(self, before: Checkpoint | None = None) -> FollowedTree:
        """Return the tree of the file."""
        return FollowedTree(self.path, self.lock, before)


def signed(rows: list[bytes]) -> Checkpoint:
    """Return what a checkpoint over rows says."""
    return Checkpoint(f"{KEY.name}/{OF_LEDGER}", len(rows), tree_hash(rows))


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(1, 7))
def test_the_tree_is_followed_from_row_to_row(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], chunk: int
) -> None:
    """However rows arrive and are read, the root is that of the rows so far."""
    rows = Rows(tmp_path_factory.mktemp("rows"))
    tree, there = rows.tree(), list[bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covering, "_CHUNK_BYTES", chunk)
        for step in steps:
            there += [b"row %d" % (len(there) + n) for n in range(step)]
            rows.put(there, b"cut")
            assert tree.snapshot() == (len(there), tree_hash(there))


def test_a_rewritten_file_is_not_followed(tmp_path: Path) -> None:
    """Where the rows that were signed are changed or gone, there is nothing to sign."""
    rows = Rows(tmp_path)
    rows.put([b"a", b"b", b"c"])
    assert rows.tree(signed([b"a", b"b"])).snapshot()[0] == 3
    for before, reason in (
        ([b"a", b"x"], "checkpoint_root"),
        ([b"a", b"b", b"c", b"d"], "truncated"),
    ):
        with pytest.raises(Break) as caught:
            rows.tree(signed(before)).snapshot()
        assert caught.value.reason == reason
    tree = rows.tree()
    tree.snapshot()
    rows.put([b"a"])
    with pytest.raises(Break) as caught:
        tree.snapshot()
    assert caught.value.reason == "truncated"


def test_unsafe_rows_are_not_read(tmp_path: Path) -> None:
    """A missing file, a link, a missing lock or an endless row is refused."""
    rows = Rows(tmp_path)
    rows.put([], b"x" * (2 * MAX_LINE_BYTES))
    with pytest.raises(Break):
        rows.tree().snapshot()
    rows.lock.unlink()
    with pytest.raises(UnverifiableError):
        rows.tree().snapshot()
    rows.path.unlink()
    rows.path.symlink_to(rows.lock)
    with pytest.raises(UnverifiableError):
        rows.tree().snapshot()


def test_a_lock_is_waited_for_and_given_back(tmp_path: Path) -> None:
    """Reading waits for a writer, and a writer can go on afterwards, also after a fork."""
    import fcntl

    rows = Rows(tmp_path)
    rows.tree().snapshot()
    with rows.lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        child = os.fork()
        if child == 0:
            rows.tree().snapshot()  # waits for ever: the lock is held
            os._exit(0)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.at(tmp_path)


def note(scene: Scene) -> CheckpointFile:
    """Return the checkpoint file of the sealed session."""
    return CheckpointFile(scene.path("s1").parents[2] / "checkpoints/s1", KEY, of_receipt("s1"))


def covered(scene: Scene, sid: str = "s1") -> bool:
    """Cover a session, as a start does."""
    return cover(scene.path(sid), scene.head(sid), sid, scene.key, note(scene))


def test_a_sealed_receipt_is_covered(scene: Scene) -> None:
    """A sealed receipt without a checkpoint gets one over all of its lines, once."""
    assert covered(scene)
    found = note(scene).read()
    assert found is not None
    assert (found.size, found.root) == (12, tree_hash(scene.lines("s1")))
    before = note(scene).path.stat().st_ino
    assert covered(scene)
    assert note(scene).path.stat().st_ino == before


def test_an_open_receipt_is_left_to_its_broker(scene: Scene) -> None:
    """A receipt without a seal gets no checkpoint here."""
    assert not covered(scene, "s2")
    assert note(scene).read() is None


def test_what_does_not_verify_is_not_covered(scene: Scene) -> None:
    """A receipt that was changed or cut gets no checkpoint."""
    lines = scene.lines("s1")
    for left in (lines[:-1], [*lines[:4], tampered_tag(lines[4]), *lines[5:]], [*lines, lines[0]]):
        scene.put("s1", left)
        with pytest.raises(Break):
            covered(scene)
    assert note(scene).read() is None


def test_a_fork_is_not_covered_up(scene: Scene) -> None:
    """Where an earlier checkpoint speaks of other lines, no further one is signed."""
    note(scene).put(5, tree_hash([b"other"] * 5))
    with pytest.raises(Break) as caught:
        covered(scene)
    assert (caught.value.reason, caught.value.line) == ("checkpoint_root", 5)
    kept = note(scene).read()
    assert kept is not None
    assert kept.size == 5
