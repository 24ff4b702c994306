"""
The Merkle tree of RFC 6962 over the lines of a receipt, in constant memory.

Decided here: how leaves and nodes are hashed, the root of the lines so far, and how a stretch of
lines that another process has hashed is joined on. Not decided here: what a leaf is (a line's
bytes without the newline) and who signs a root.

Rules a maintainer keeps: a leaf is hashed behind ``0x00`` and a node behind ``0x01``, so that
no node can be presented as a leaf; only the roots of complete subtrees are kept, at most one
for each bit of the size.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

EMPTY_ROOT = sha256(b"").digest()
_ROW: Final = 64  # leaves that wait to be folded in together


class Frontier:
    """
    The right edge of a growing tree: enough to append a leaf and to tell the root.

    With a ``start``, it is the edge of a stretch of the tree that begins there; then ``fringe``
    holds the complete subtrees on the left whose sibling lies before the stretch, and a frontier
    that ends at ``start`` can take the stretch in by ``join``.

    >>> edge = Frontier()
    >>> edge.append(b"a line")
    >>> edge.size, edge.root() == sha256(b"\\0a line").digest()
    (1, True)
    """

    __slots__ = ("_folded", "_row", "edge", "fringe")

    def __init__(self, start: int = 0) -> None:
        self._folded = start  # leaves that edge and fringe cover; the others are in the row
        self._row: list[bytes] = []
        self.edge: dict[int, bytes] = {}  # level: the root of a complete subtree of 2**level leaves
        self.fringe: list[tuple[int, bytes]] = []

    @property
    def size(self) -> int:
        """The number of the next leaf."""
        return self._folded + len(self._row)

    def append(self, leaf: bytes) -> None:
        """Add one leaf, in about two hashes on average."""
        row = self._row
        row.append(sha256(b"\0" + leaf).digest())
        if len(row) >= _ROW:
            self.fold()

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaves in one go: the loop over many costs a third less than calls for each."""
        row = self._row
        row += [sha256(b"\0" + leaf).digest() for leaf in leaves]
        if len(row) >= _ROW:
            self.fold()

    def fold(self) -> None:
        """Bring the leaves that wait into the edge, level by level."""
        row, self._row = self._row, []
        place, self._folded = self._folded, self._folded + len(row)
        level = 0
        while row:
            if place & 1:  # the first of the row is a right child
                left = self.edge.pop(level, None)
                if left is not None:
                    row.insert(0, left)
                    place -= 1
                else:
                    self.fringe.append((level, row.pop(0)))
                    place += 1
            if len(row) & 1:  # the last of the row is a left child, and waits for its sibling
                self.edge[level] = row.pop()
            pairs = iter(row)
            row = [sha256(b"\1" + a + b).digest() for a, b in zip(pairs, pairs, strict=True)]
            place >>= 1
            level += 1

    def join(self, stretch: Frontier) -> None:
        """
        Take in the stretch that begins where this frontier ends.

        The subtrees of a stretch are complete and stand in the tree's own places, so from left
        to right each is appended as if its leaves had been.
        """
        self.fold()
        stretch.fold()
        edge = self.edge
        for level, node in (*stretch.fringe, *sorted(stretch.edge.items(), reverse=True)):
            self._folded += 1 << level
            while (left := edge.pop(level, None)) is not None:
                node = sha256(b"\1" + left + node).digest()  # noqa: PLW2901  climbs the tree
                level += 1  # noqa: PLW2901
            edge[level] = node

    def copy(self) -> Frontier:
        """Return the frontier as it is now; it does not grow with this one."""
        self.fold()
        same = Frontier(self._folded)
        same.edge = self.edge.copy()
        same.fringe = self.fringe.copy()
        return same

    def root(self) -> bytes:
        """Return the tree hash of all leaves so far (32 bytes)."""
        self.fold()
        nodes = [node for _, node in sorted(self.edge.items())]
        if not nodes:
            return EMPTY_ROOT
        root = nodes[0]
        for left in nodes[1:]:
            root = sha256(b"\1" + left + root).digest()
        return root
