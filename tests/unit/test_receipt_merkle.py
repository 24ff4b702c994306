"""The Merkle tree over lines, against the definition and published roots."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.receipt.merkle import EMPTY_ROOT, Frontier


def tree_hash(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    n = len(leaves)
    if n == 0:
        return sha256(b"").digest()
    if n == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < n:
        k *= 2
    return sha256(b"\x01" + tree_hash(leaves[:k]) + tree_hash(leaves[k:])).digest()


def roots(leaves: list[bytes]) -> list[bytes]:
    """Return the root before the first leaf and after each."""
    edge = Frontier()
    found = [edge.root()]
    for leaf in leaves:
        edge.append(leaf)
        found.append(edge.root())
    return found


def test_published_roots(shared: Path) -> None:
    """The roots of the classic eight leaves are the published ones, for every size."""
    known = json.loads((shared / "vectors" / "rfc6962-merkle" / "known_answers.json").read_text())
    leaves = [bytes.fromhex(leaf) for leaf in known["leaf_inputs_hex"]]
    assert [root.hex() for root in roots(leaves)] == known["roots_by_size"]
    assert known["empty_root"] == EMPTY_ROOT.hex()


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_the_growing_root_is_the_defined_root(leaves: list[bytes]) -> None:
    """Growing leaf by leaf gives, at every size, the root of the definition."""
    assert roots(leaves) == [tree_hash(leaves[:n]) for n in range(len(leaves) + 1)]


def test_the_state_stays_small() -> None:
    """After n leaves, one root is kept for each set bit of n, and no more."""
    edge = Frontier()
    for n in range(1, 2_000):
        edge.append(b"x")
        edge.fold()
        assert (edge.size, len(edge.edge)) == (n, n.bit_count())


@given(st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_leaves_in_one_go(counts: list[int]) -> None:
    """Leaves added in stretches of any length give the root of adding them one by one."""
    leaves = [str(n).encode() for n in range(sum(counts))]
    edge, start = Frontier(), 0
    for count in counts:
        edge.extend(leaves[start : start + count])
        start += count
        assert (edge.size, edge.copy().root()) == (start, edge.root())
    assert edge.root() == tree_hash(leaves)


@given(st.lists(st.integers(0, 70), min_size=1, max_size=6))
def test_stretches_are_joined(counts: list[int]) -> None:
    """Stretches of lines hashed apart, wherever they begin, join to the root of all."""
    leaves = [str(n).encode() for n in range(sum(counts))]
    whole, start = Frontier(), 0
    for count in counts:
        stretch = Frontier(start)
        for leaf in leaves[start : start + count]:
            stretch.append(leaf)
        start += count
        assert stretch.size == start
        whole.join(stretch)
        assert (whole.size, whole.root()) == (start, tree_hash(leaves[:start]))


def test_a_copy_stays_behind() -> None:
    """A copy keeps the root of its own moment."""
    edge = Frontier()
    edge.append(b"a")
    before = edge.copy()
    edge.extend([b"b", b"c"])
    assert (before.size, before.root()) == (1, tree_hash([b"a"]))
    assert edge.root() == tree_hash([b"a", b"b", b"c"])


def test_a_node_is_no_leaf() -> None:
    """An inner node presented as a leaf gives another root."""
    node = sha256(b"\x00a").digest() + sha256(b"\x00b").digest()
    assert roots([node])[-1] != roots([b"a", b"b"])[-1]
