"""Paths in the Merkle tree: published ones, and the definition beside the fast code."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, InputError
from broker.limits import MAX_LINE_BYTES
from broker.receipt import paths
from broker.receipt.checkpoint import Checkpoint
from broker.receipt.note import open_note
from broker.receipt.paths import (
    check_consistency,
    check_inclusion,
    consistency_path,
    inclusion_path,
    leaf_hash,
    lines_of,
    root_of_inclusion,
)
from tests.unit.test_receipt_checkpoint import public_entries
from tests.unit.test_receipt_merkle import tree_hash

LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=40)


def power_below(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def path_of(m: int, leaves: list[bytes]) -> list[bytes]:
    """RFC 6962, section 2.1.1, word for word."""
    if len(leaves) == 1:
        return []
    k = power_below(len(leaves))
    if m < k:
        return [*path_of(m, leaves[:k]), tree_hash(leaves[k:])]
    return [*path_of(m - k, leaves[k:]), tree_hash(leaves[:k])]


def proof_of(m: int, leaves: list[bytes], known: bool = True) -> list[bytes]:
    """RFC 6962, section 2.1.2, word for word."""
    if m == len(leaves):
        return [] if known else [tree_hash(leaves)]
    k = power_below(len(leaves))
    if m <= k:
        return [*proof_of(m, leaves[:k], known), tree_hash(leaves[k:])]
    return [*proof_of(m - k, leaves[k:], False), tree_hash(leaves[:k])]


def published(folder: Path) -> Iterator[tuple[str, dict[str, Any], list[bytes]]]:
    """Yield the cases of a folder: where each stands, what it says, and its path."""
    files = sorted(folder.rglob("*.json"))
    assert len(files) == 98
    for file in files:
        case = json.loads(file.read_text())
        yield str(file), case, [b64decode(each) for each in case["proof"] or ()]


def test_published_inclusion_paths(shared: Path) -> None:
    """All 98 published paths of leaves are accepted or refused as published."""
    for name, case, path in published(shared / "vectors/rfc6962-merkle/inclusion"):
        leaf, root = b64decode(case["leafHash"]), b64decode(case["root"])
        try:
            check_inclusion(case["leafIdx"], case["treeSize"], leaf, path, root)
        except Break as error:
            assert (error.reason, case["wantErr"]) == ("proof", True), name
        else:
            assert not case["wantErr"], name


def test_published_consistency_paths(shared: Path) -> None:
    """All 98 published paths between trees are accepted or refused as published."""
    for name, case, path in published(shared / "vectors/rfc6962-merkle/consistency"):
        root1, root2 = b64decode(case["root1"] or ""), b64decode(case["root2"] or "")
        try:
            check_consistency(case["size1"], case["size2"], root1, root2, path)
        except Break as error:
            assert (error.reason, case["wantErr"]) == ("proof", True), name
        else:
            assert not case["wantErr"], name


def test_paths_of_a_public_log(shared: Path) -> None:
    """Two entries of a public log, one among four million, are shown to be in it."""
    for log, entry in public_entries(shared):
        proof = entry["inclusionProof"]
        note = open_note(proof["checkpoint"]["envelope"].encode(), [log])
        found = Checkpoint.parse(note.text)
        leaf = leaf_hash(b64decode(entry["canonicalizedBody"]))
        path = [b64decode(each) for each in proof["hashes"]]
        check_inclusion(int(proof["logIndex"]), found.size, leaf, path, found.root)


@given(LEAVES, st.data())
def test_a_path_is_the_defined_one(leaves: list[bytes], data: st.DataObject) -> None:
    """The path made in one pass is that of the definition, and leads to the root."""
    index = data.draw(st.integers(0, len(leaves) - 1))
    line, path = inclusion_path(iter(leaves), index, len(leaves))
    assert (line, path) == (leaves[index], path_of(index, leaves))
    check_inclusion(index, len(leaves), leaf_hash(line), path, tree_hash(leaves))


@given(LEAVES, st.data())
def test_a_path_between_trees_is_the_defined_one(leaves: list[bytes], data: st.DataObject) -> None:
    """The same for the way from a shorter tree to a longer one."""
    size = data.draw(st.integers(1, len(leaves)))
    path = consistency_path(iter(leaves), size, len(leaves))
    assert path == proof_of(size, leaves)
    check_consistency(size, len(leaves), tree_hash(leaves[:size]), tree_hash(leaves), path)


@given(LEAVES, st.data())
def test_nothing_else_leads_to_the_root(leaves: list[bytes], data: st.DataObject) -> None:
    """Another leaf, place, size, hash or length of the path is refused."""
    n = len(leaves)
    index = data.draw(st.integers(0, n - 1))
    root = tree_hash(leaves)
    line, path = inclusion_path(leaves, index, n)
    leaf = leaf_hash(line)
    place = data.draw(st.integers(0, len(path)))
    wrong: list[tuple[int, int, bytes, list[bytes]]] = [
        (index, n, leaf_hash(line + b"x"), path),
        (index, n, leaf, [*path[:place], bytes(32), *path[place:]]),
        (-1, n, leaf, path),
        (n, n, leaf, path),
        (index, 0, leaf, path),
    ]
    if path:
        at = min(place, len(path) - 1)
        turned = bytes((path[at][0] ^ 1, *path[at][1:]))
        wrong += [
            (index, n, leaf, [*path[:at], *path[at + 1 :]]),
            (index, n, leaf, [*path[:at], turned, *path[at + 1 :]]),
        ]
    wrong += [
        (i, n, leaf, path)
        for i in range(n)
        if i != index and len(path_of(i, leaves)) == len(path) and leaves.count(line) == 1
    ]
    for case in wrong:
        with pytest.raises(Break) as caught:
            check_inclusion(*case, root)
        assert caught.value.reason == "proof"


def test_an_inner_node_is_no_leaf() -> None:
    """Two hashes side by side, presented as a leaf of a smaller tree, do not lead to the root."""
    leaves = [b"a", b"b", b"c", b"d"]
    node = leaf_hash(b"a") + leaf_hash(b"b")
    with pytest.raises(Break):
        check_inclusion(0, 2, leaf_hash(node), [tree_hash(leaves[2:])], tree_hash(leaves))


def test_a_repeated_last_leaf_is_another_tree() -> None:
    """Three leaves, and four of which the last two are equal, have different roots."""
    three, four = [b"a", b"b", b"c"], [b"a", b"b", b"c", b"c"]
    path = inclusion_path(three, 2, 3)[1]
    assert root_of_inclusion(2, 3, leaf_hash(b"c"), path) == tree_hash(three) != tree_hash(four)


def test_making_a_path_keeps_little() -> None:
    """Over a hundred thousand lines, only one right edge and a row of leaves are held."""
    most = 0

    class Watched(paths.Frontier):
        def append(self, leaf: bytes) -> None:
            nonlocal most
            super().append(leaf)
            most = max(most, len(self.edge) + len(self._row))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "Frontier", Watched)
        _, path = inclusion_path((b"%d" % n for n in range(100_000)), 77_777, 100_000)
    assert len(path) == 17
    assert most <= 17 + 64  # the edge, and the row of leaves that waits to be folded in


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0), (2, 9), (8, 9), (9, 9)])
def test_a_line_that_is_not_there(index: int, size: int) -> None:
    """A place outside the tree, or a file with too few lines, is told."""
    with pytest.raises(InputError, match="no line"):
        inclusion_path([b"a", b"b", b"c"], index, size)


@pytest.mark.parametrize(("size1", "size2"), [(0, 3), (3, 2), (2, 4)])
def test_trees_that_are_not_there(size1: int, size2: int) -> None:
    """Nothing leads from an empty tree, backwards, or to lines that are missing."""
    with pytest.raises(InputError):
        consistency_path([b"a", b"b", b"c"], size1, size2)


@given(st.lists(st.binary(max_size=6).filter(lambda line: b"\n" not in line), max_size=9))
def test_lines_are_split_on_one_byte(lines: list[bytes]) -> None:
    """A file's lines come back whatever the chunk; a last one without its newline does not."""
    import os
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(b"".join(line + b"\n" for line in lines) + b"cut off")
        file.flush()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paths, "_CHUNK_BYTES", 3)
            assert list(lines_of(file.fileno())) == lines
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    """A file that is one endless line is not read into memory."""
    path = tmp_path / "r"
    path.write_bytes(b"ok\n" + b"x" * (2 * MAX_LINE_BYTES))
    with path.open("rb") as file, pytest.raises(Break) as caught:
        list(lines_of(file.fileno()))
    assert (caught.value.reason, caught.value.line, caught.value.offset) == ("size", 1, 3)
