"""
The Merkle tree of RFC 6962 over the lines of a receipt, in constant memory.

Decided here: how leaves and nodes are hashed, and the root of the lines so far. Not decided
here: what a leaf is (a line's bytes without the newline) and who signs a root.

Rules a maintainer keeps: a leaf is hashed behind ``0x00`` and a node behind ``0x01``, so that
no node can be presented as a leaf; only the roots of complete subtrees are kept, at most one
for each bit of the size.
"""

from __future__ import annotations

from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()


class Frontier:
    """
    The right edge of a growing tree: enough to append a leaf and to tell the root.

    >>> edge = Frontier()
    >>> edge.append(b"a line")
    >>> edge.size, edge.root() == sha256(b"\\0a line").digest()
    (1, True)
    """

    __slots__ = ("_edge", "size")

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add one leaf, in about two hashes on average."""
        node = sha256(b"\0" + leaf).digest()
        edge = self._edge
        size = self.size
        self.size = size + 1
        while size & 1:
            node = sha256(b"\1" + edge.pop() + node).digest()
            size >>= 1
        edge.append(node)

    def root(self) -> bytes:
        """Return the tree hash of all leaves so far (32 bytes)."""
        if not self._edge:
            return EMPTY_ROOT
        node = self._edge[-1]
        for left in reversed(self._edge[:-1]):
            node = sha256(b"\1" + left + node).digest()
        return node
