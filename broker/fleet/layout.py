"""
How a mirror is laid out: whole stretches of lines, and the checkpoints over them.

    <target>/<installation>/ledger/…
    <target>/<installation>/sessions/<sid>/0000000000-0000000064.jsonl    lines 0 to 63
    <target>/<installation>/sessions/<sid>/0000000064.checkpoint          signs the first 64 lines

An object store cannot append, so what is added is an object of its own, and none is ever written
twice. The stretches, one behind the other, are the receipt, byte for byte.

Decided here: names, and when the objects of one chain form a whole. Not decided here: what is put
when (``broker.fleet.mirror``), what is verified (``broker.fleet.verifying``).

Rules a maintainer keeps: a name says which lines are in an object, so that a missing one is seen
in a listing; nothing here reads an object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.errors import Break

LEDGER: Final = "ledger"
SESSIONS: Final = "sessions"
_LINES: Final = re.compile(r"([0-9]{10,16})-([0-9]{10,16})\.jsonl", re.ASCII)
_NOTE: Final = re.compile(r"([0-9]{10,16})\.checkpoint", re.ASCII)
INSTALLATION: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stretch:
    """An object that holds the lines from ``first`` on, up to but without ``end``."""

    first: int
    end: int
    size_bytes: int

    @property
    def name(self) -> str:
        """
        The object's name.

        >>> Stretch(0, 64, 9).name
        '0000000000-0000000064.jsonl'
        """
        return f"{self.first:010}-{self.end:010}.jsonl"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """
    The objects of one chain, in order.

    ``noted`` is how many lines the newest checkpoint there covers, 0 without one; ``strange`` names
    objects that are none of ours.
    """

    stretches: tuple[Stretch, ...] = ()
    noted: int = 0
    strange: tuple[str, ...] = ()

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return self.stretches[-1].end if self.stretches else 0

    @property
    def size_bytes(self) -> int:
        """How many bytes these lines have."""
        return sum(each.size_bytes for each in self.stretches)


def note_name(lines: int) -> str:
    """
    Return the name of the checkpoint over the first so many lines.

    >>> note_name(64)
    '0000000064.checkpoint'
    """
    return f"{lines:010}.checkpoint"


def mirrored(objects: Mapping[str, int]) -> Mirrored:
    """
    Return what the objects of one chain come to.

    Args:
        objects: the size in bytes of each, by name.

    Raises:
        Break: an object is gone (``missing``, ``truncated``), or two hold one line (``fork``).

    >>> mirrored({"0000000000-0000000002.jsonl": 9, "0000000002.checkpoint": 9}).lines
    2
    """
    stretches: list[Stretch] = []
    noted, strange = 0, []
    for name, size in sorted(objects.items()):
        if found := _LINES.fullmatch(name):
            stretches.append(Stretch(int(found[1]), int(found[2]), size))
        elif found := _NOTE.fullmatch(name):
            noted = max(noted, int(found[1]))
        else:
            strange.append(name)
    at = 0
    for each in sorted(stretches, key=lambda each: each.first):
        if each.end <= each.first or each.first < at:
            raise Break("fork", f"`{each.name}` holds lines that another object holds too", line=at)
        if each.first > at:
            why = f"the object with the lines {at} to {each.first - 1} is missing"
            raise Break("missing", why, line=at)
        at = each.end
    if noted > at:
        raise Break(
            "truncated", f"a checkpoint there covers {noted} lines and {at} are left", line=at
        )
    return Mirrored(tuple(sorted(stretches, key=lambda each: each.first)), noted, tuple(strange))
