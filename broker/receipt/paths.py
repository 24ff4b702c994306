"""
Paths in the Merkle tree: from a line to the root, and from a shorter tree to a longer one.

Decided here: how a path is checked, and how it is made in one pass over the lines that keeps
none of them. Not decided here: the tree (``merkle``), the file that carries a path (``proof``).

The checks are those of RFC 9162, sections 2.1.3.2 and 2.1.4.2. A ``Break`` has the reason
``proof``: the hashes do not lead where they should.

Rule a maintainer keeps: a path has exactly the hashes that its place calls for, no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from os import pread
from typing import Final

from broker.errors import Break, InputError
from broker.limits import MAX_LINE_BYTES
from broker.receipt.merkle import Frontier

Range = tuple[int, int]  # of leaves: the first, and the one after the last
HASH_BYTES: Final = 32
_CHUNK_BYTES: Final = 262_144


# ── checking ──


def leaf_hash(line: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\0" + line).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


def root_of_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes:
    """
    Return the root that a path leads to from a leaf's hash.

    Raises:
        Break: no tree of ``size`` leaves has such a path for its leaf ``index`` (``proof``).
    """
    if not 0 <= index < size:
        raise unproven(f"a tree of {size} lines has no line {index}")
    _check_hashes(leaf, *path)
    place, last, found = index, size - 1, leaf
    for each in path:
        if last == 0:
            raise unproven("the path is too long")
        if place & 1 or place == last:
            found = _node(each, found)
            while place and not place & 1:
                place >>= 1
                last >>= 1
        else:
            found = _node(found, each)
        place >>= 1
        last >>= 1
    if last:
        raise unproven("the path is too short")
    return found


def check_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes], root: bytes) -> None:
    """
    Check that the leaf with this hash is leaf ``index`` of the tree with this root.

    Raises:
        Break: it is not (``proof``).
    """
    if root_of_inclusion(index, size, leaf, path) != root:
        raise unproven("the path does not lead from the line to the root")


def check_consistency(
    size1: int, size2: int, root1: bytes, root2: bytes, path: Sequence[bytes]
) -> None:
    """
    Check that the first ``size1`` leaves of the second tree are the first tree.

    Raises:
        Break: they are not (``proof``); of an empty first tree nothing can be shown.
    """
    if not 0 < size1 <= size2:
        raise unproven(f"nothing leads from {size1} lines to {size2}")
    _check_hashes(*path)
    if size1 == size2:
        if path or root1 != root2:
            raise unproven("trees of one size have one root, and need no path")
        return
    place, last = size1 - 1, size2 - 1
    while place & 1:
        place >>= 1
        last >>= 1
    hashes = list(path)
    # A first tree that is complete is itself the first node of the path.
    if size1 & (size1 - 1) == 0:
        hashes.insert(0, root1)
    if not hashes:
        raise unproven("the path is too short")
    old = new = hashes[0]
    for each in hashes[1:]:
        if last == 0:
            raise unproven("the path is too long")
        if place & 1 or place == last:
            old, new = _node(each, old), _node(each, new)
            while place and not place & 1:
                place >>= 1
                last >>= 1
        else:
            new = _node(new, each)
        place >>= 1
        last >>= 1
    if last or old != root1 or new != root2:
        raise unproven("the path does not lead from one root to the other")


def _check_hashes(*hashes: bytes) -> None:
    if any(len(each) != HASH_BYTES for each in hashes):
        raise unproven(f"a hash has not {HASH_BYTES} bytes")


def unproven(why: str) -> Break:
    """Return the ``Break`` of a path that leads nowhere."""
    return Break("proof", f"not proven: {why}")


# ── making ──


def _split(size: int) -> int:
    """Return how many leaves stand on the left: the largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_ranges(index: int, start: int, stop: int) -> list[Range]:
    """
    Return the subtrees whose hashes are the path of a leaf, from its side to the root's.

    >>> inclusion_ranges(2, 0, 5)
    [(3, 4), (0, 2), (4, 5)]
    """
    if stop - start == 1:
        return []
    middle = start + _split(stop - start)
    if index < middle:
        return [*inclusion_ranges(index, start, middle), (middle, stop)]
    return [*inclusion_ranges(index, middle, stop), (start, middle)]


def consistency_ranges(size1: int, start: int, stop: int, *, known: bool = True) -> list[Range]:
    """
    Return the subtrees whose hashes lead from the first ``size1`` leaves to all.

    >>> consistency_ranges(3, 0, 5)
    [(2, 3), (3, 4), (0, 2), (4, 5)]
    """
    if size1 == stop:
        return [] if known else [(start, stop)]
    middle = start + _split(stop - start)
    if size1 <= middle:
        return [*consistency_ranges(size1, start, middle, known=known), (middle, stop)]
    return [*consistency_ranges(size1, middle, stop, known=False), (start, middle)]


def hashes_of(lines: Iterable[bytes], ranges: Sequence[Range]) -> list[bytes]:
    """
    Return the tree hash of each range of lines, in one pass that keeps no line.

    Args:
        lines: all lines, from the first.
        ranges: none of them overlap; in any order.

    Raises:
        InputError: there are fewer lines than the ranges ask for.
    """
    found: dict[Range, bytes] = {}
    waiting = iter(sorted(ranges))
    wanted = next(waiting, None)
    edge = Frontier()
    for n, line in enumerate(lines):
        if wanted is None:
            break
        if n >= wanted[0]:
            edge.append(line)
        if n + 1 == wanted[1]:
            found[wanted] = edge.root()
            wanted, edge = next(waiting, None), Frontier()
    if wanted is not None:
        raise InputError(f"there is no line {wanted[1] - 1}", code="receipt.line")
    return [found[each] for each in ranges]


def inclusion_path(lines: Iterable[bytes], index: int, size: int) -> tuple[bytes, list[bytes]]:
    """
    Return line ``index`` and its path in the tree of the first ``size`` lines, in one pass.

    Raises:
        InputError: there is no such line.
    """
    if not 0 <= index < size:
        raise InputError(f"there is no line {index} among {size}", code="receipt.line")
    kept: list[bytes] = []

    def passing() -> Iterator[bytes]:
        for n, line in enumerate(lines):
            if n == index:
                kept.append(line)
            yield line

    # A line behind the last of these subtrees is the next one that is read.
    path = hashes_of(passing(), inclusion_ranges(index, 0, size))
    if not kept:
        raise InputError(f"there is no line {index}", code="receipt.line")
    return kept[0], path


def consistency_path(lines: Iterable[bytes], size1: int, size2: int) -> list[bytes]:
    """
    Return what leads from the tree of ``size1`` lines to that of ``size2``, in one pass.

    Raises:
        InputError: there are not as many lines, or nothing leads there.
    """
    if not 0 < size1 <= size2:
        raise InputError(f"nothing leads from {size1} lines to {size2}", code="receipt.line")
    return hashes_of(lines, consistency_ranges(size1, 0, size2))


def lines_of(fd: int) -> Iterator[bytes]:
    """
    Yield the lines of an open file, without their newlines; a last one without is left out.

    Raises:
        Break: one is longer than any line can be (``size``).
    """
    rest, at, n = b"", 0, 0
    while chunk := pread(fd, _CHUNK_BYTES, at):
        at += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        n += len(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise Break(
                "size",
                f"a line is longer than {MAX_LINE_BYTES} bytes",
                line=n,
                offset=at - len(rest),
            )
