"""
Whether an Agent Audit Trail that was exported still is whole, for a reader without the receipt.

Decided here: what a trail says about itself (its links, its line numbers, its seal) and how that
is held against a checkpoint that somebody has signed. With the receipt at hand, ``compare`` sees
more: every field of every record.

Rule a maintainer keeps: without a checkpoint nothing here proves anything to somebody who does
not trust the file, since whoever can write it can link it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from broker.errors import Break
from broker.receipt.entry import HEX64, canonical

_POINTER: Final = {"leaf", "line", "sha256"}


class LeafTree:
    """
    An RFC 6962 tree that grows by leaf hashes, where the lines themselves are not at hand.

    >>> tree = LeafTree()
    >>> tree.add(sha256(b"\\0a line").digest())
    >>> tree.size, tree.root() == sha256(b"\\0a line").digest()
    (1, True)
    """

    __slots__ = ("_edge", "size")

    def __init__(self) -> None:
        self._edge: list[tuple[int, bytes]] = []
        self.size = 0

    def add(self, leaf: bytes) -> None:
        """Append a leaf, given by its hash."""
        height, node = 1, leaf
        while self._edge and self._edge[-1][0] == height:
            node = sha256(b"\1" + self._edge.pop()[1] + node).digest()
            height *= 2
        self._edge.append((height, node))
        self.size += 1

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self._edge:
            return sha256(b"").digest()
        node = self._edge[-1][1]
        for _, left in reversed(self._edge[:-1]):
            node = sha256(b"\1" + left + node).digest()
        return node


@dataclass(frozen=True, slots=True)
class Promise:
    """What somebody has signed: the first ``size`` lines have the root ``root``."""

    size: int
    root: bytes


def check_trail(lines: Iterable[bytes], promise: Promise | None = None) -> int:
    """
    Check that no record of a trail was left out, added or put elsewhere; return their number.

    Args:
        lines: the records, each with its newline.
        promise: a checkpoint of the receipt, once its signature was checked.

    Raises:
        Break: where it is not whole (``export``).
    """
    tree = LeafTree()
    before: dict[str, Any] | None = None
    offset = 0
    met = promise is None or promise.size == 0
    for n, line in enumerate(lines):
        try:
            record = _read(line, n, before)
            _check_seal(record, tree)
            tree.add(bytes.fromhex(record["action_detail"]["receipt"]["leaf"]))
            if promise is not None and tree.size == promise.size:
                _check_root(tree, promise)
                met = True
        except Break as flaw:
            raise Break("export", flaw.message, line=n, offset=offset) from flaw
        before = {**record, "hash": sha256(line.removesuffix(b"\n")).hexdigest()}
        offset += len(line)
    if not tree.size:
        raise Break("export", "the trail has no record")
    if promise is not None and not met:
        raise Break(
            "export",
            f"{promise.size} lines were signed for, and the trail has {tree.size} records",
            line=tree.size,
            offset=offset,
        )
    return tree.size


def _read(line: bytes, n: int, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return a record that follows the one before it."""
    try:
        text = line.decode().removesuffix("\n")
        record = json.loads(text)
        if canonical(record) != text:
            raise Break("export", "the record is not in canonical form")
        pointer = record["action_detail"]["receipt"]
        well = set(pointer) == _POINTER and HEX64.fullmatch(pointer["leaf"]) is not None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Break("export", "this is no record of a trail that was exported") from error
    if not well or type(pointer["line"]) is not int or pointer["line"] != n:
        raise Break("export", f"the record stands for another line than {n}")
    links = (before["record_id"], before["hash"]) if before else (None, None)
    if before and before["action_detail"].get("event") == "session_end":
        raise Break("export", "something follows the end of the session")
    if (record.get("parent_record_id"), record.get("prev_hash")) != links:
        raise Break("export", "the record does not continue the one before it")
    return record  # type: ignore[no-any-return]  # what JSON holds was looked at above


def _check_seal(record: dict[str, Any], tree: LeafTree) -> None:
    detail = record["action_detail"]
    if detail.get("event") != "session_end":
        return
    seal = detail.get("seal")
    told = (seal.get("n"), seal.get("root")) if isinstance(seal, dict) else None
    if told != (tree.size, tree.root().hex()):
        raise Break("export", "the count or the root differs from what the seal says")


def _check_root(tree: LeafTree, promise: Promise) -> None:
    if tree.root() != promise.root:
        raise Break("export", f"the first {promise.size} records are not the lines signed for")
