"""
A receipt without its secret: the chain is checked, the tags are not.

Decided here: how lines are taken when nothing can tell whether their tags hold, and what a
file says of itself. Not decided here: who vouches for the lines then (``verify`` asks a
checkpoint, or calls the level ``chain``).

Rules a maintainer keeps:

- Everything else that ``Chain.accept`` checks is checked here as well; only the tag is taken
  as it stands, and must still be 64 hex digits.
- What a file says of itself names it, and authenticates nothing.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import Break, InputError, UnverifiableError
from broker.limits import MAX_LINE_BYTES, MAX_RECORD_DEPTH
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.entry import HEX64, check_sid, strict_object
from broker.receipt.form import RECEIPT, Form

_KID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stated:
    """Session and key as the first line of a file names them, unverified."""

    sid: str
    kid: str


class _Given:
    """Takes for the tag of a line the one that it carries."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.text = ""

    def tag(self, body: bytes) -> str:
        return self.text

    def step(self) -> None:
        """Nothing moves."""


class Untagged(Chain):
    """
    A chain that believes every tag of the right form.

    Args:
        sid: the session's name.
        kid: the name of the key that the lines must give.
        tree: as for ``Chain``.
        form: as for ``Chain``.
    """

    __slots__ = ("_given",)

    def __init__(self, sid: str, kid: str, *, tree: bool = True, form: Form = RECEIPT) -> None:
        self._given = _Given(kid)
        super().__init__(sid, self._given, tree=tree, form=form)

    def accept(self, line: bytes) -> None:
        """
        Check all of the next line but its tag, and move past it.

        Raises:
            Break: it is not the next line; nothing has moved.
        """
        tag = str(line[-66:-2], "latin-1")
        self._given.text = tag if HEX64.fullmatch(tag) else ""
        super().accept(line)


def stated(fd: int) -> Stated:
    """
    Return what the first line of an open file says of itself.

    Raises:
        Break: there is no such line, or it does not say so properly.
        UnverifiableError: the file is empty.
        OSError: it cannot be read.
    """
    line, newline, _ = os.pread(fd, MAX_LINE_BYTES + 1, 0).partition(b"\n")
    if not line and not newline:
        raise UnverifiableError(
            "the receipt is empty: there is nothing to verify", code="unverifiable.nothing"
        )
    if not newline:
        raise Break("format", "the first line is not a whole line of a receipt")
    try:
        fields = strict_object(str(line, "utf-8"), MAX_RECORD_DEPTH + 1)
    except UnicodeDecodeError:
        raise Break("encoding", "the first line is not UTF-8") from None
    sid, kid = fields.get("sid"), fields.get("kid")
    if not isinstance(kid, str) or not _KID.fullmatch(kid) or not isinstance(sid, str):
        raise Break("schema", "the first line names no session and key")
    try:
        return Stated(check_sid(sid), kid)
    except InputError as error:
        raise Break("sid", error.message) from None


def stated_sid(path: Path) -> str:
    """
    Return the session that a receipt's file says it is of.

    Raises:
        Break: its first line does not say so properly.
        UnverifiableError: the file is missing, unsafe or empty.
        OSError: it cannot be read.
    """
    fd = disk.open_checked(path, "receipt", forbidden=disk.OTHERS_WRITE)
    try:
        return stated(fd).sid
    finally:
        os.close(fd)
