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
from pathlib import Path
from typing import Final

from broker.errors import Break, InputError, UnverifiableError
from broker.limits import MAX_LINE_BYTES, MAX_RECORD_DEPTH
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.entry import HEX64, check_sid, strict_object
from broker.receipt.form import RECEIPT, Form

_KID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_NO_KID: Final = "0" * 16  # of the right form, so that a line that names none is told from it
# A slot of a head, or the first line of a checkpoint.
_BESIDE: Final = re.compile(
    rb'"sid":"([a-z0-9][a-z0-9-]{0,63})"|\A[^\n]*/receipt/([a-z0-9][a-z0-9-]{0,63})\n'
)
_BESIDE_BYTES: Final = 2_048


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
        kid: the name of the key that the lines must give; empty where line 0 names none.
        tree: as for ``Chain``.
        form: as for ``Chain``.
    """

    __slots__ = ("_given", "_named")

    def __init__(self, sid: str, kid: str, *, tree: bool = True, form: Form = RECEIPT) -> None:
        self._named = bool(kid)
        self._given = _Given(kid or _NO_KID)
        super().__init__(sid, self._given, tree=tree, form=form)

    def renamed(self, kid: str) -> None:
        """From the next line on, the lines must give another key's name."""
        self._given = _Given(kid)
        self.turn(self._given)

    def accept(self, line: bytes) -> None:
        """
        Check all of the next line but its tag, and move past it.

        Raises:
            Break: it is not the next line; nothing has moved.
        """
        tag = str(line[-66:-2], "latin-1")
        self._given.text = tag if HEX64.fullmatch(tag) else ""
        try:
            super().accept(line)
        except Break as error:
            if self._named or error.reason not in ("sid", "kid"):
                raise
            raise self.broken("schema", "the first line names no key") from error


def stated_kid(fd: int) -> str:
    """
    Return the key that the first line of an open file names.

    Empty where there is no whole line or it names none: who walks the lines says what is wrong.

    Raises:
        OSError: it cannot be read.
    """
    line, newline, _ = os.pread(fd, MAX_LINE_BYTES + 1, 0).partition(b"\n")
    try:
        kid = strict_object(str(line, "utf-8"), MAX_RECORD_DEPTH + 1).get("kid") if newline else ""
    except (UnicodeDecodeError, Break):
        return ""
    return kid if isinstance(kid, str) and _KID.fullmatch(kid) else ""


def stated_sid(path: Path, *beside: Path | None) -> str:
    """
    Return the session that a receipt's file says it is of.

    Args:
        path: the receipt.
        beside: its head and its checkpoint, which name it where no line of it is left.

    Raises:
        Break: its first line does not say so properly; or a fragment is all there is (``torn``).
        UnverifiableError: a file is missing or unsafe, or the receipt is empty and nothing else
            names it.
        OSError: it cannot be read.
    """
    fd = disk.open_checked(path, "receipt", forbidden=disk.OTHERS_WRITE)
    try:
        line, newline, _ = os.pread(fd, MAX_LINE_BYTES + 1, 0).partition(b"\n")
    finally:
        os.close(fd)
    if newline:
        return _named_in(line)
    for other in beside:
        sid = _named_beside(other) if other is not None else ""
        if sid:
            return sid
    if line:
        raise Break("torn", "the first line is cut off, and nothing says whether it counts")
    raise UnverifiableError(
        "the receipt is empty: there is nothing to verify", code="unverifiable.nothing"
    )


def _named_in(line: bytes) -> str:
    try:
        fields = strict_object(str(line, "utf-8"), MAX_RECORD_DEPTH + 1)
    except UnicodeDecodeError:
        raise Break("encoding", "the first line is not UTF-8") from None
    sid, kid = fields.get("sid"), fields.get("kid")
    if not isinstance(kid, str) or not _KID.fullmatch(kid) or not isinstance(sid, str):
        raise Break("schema", "the first line names no session and key")
    try:
        return check_sid(sid)
    except InputError as error:
        raise Break("sid", error.message) from None


def _named_beside(path: Path) -> str:
    """Return the session that a head or a checkpoint names; whoever verifies it sees if it may."""
    fd = disk.open_checked(path, "file beside the receipt", forbidden=disk.OTHERS_WRITE)
    try:
        found = _BESIDE.search(os.pread(fd, _BESIDE_BYTES, 0))
    finally:
        os.close(fd)
    return (found[1] or found[2]).decode() if found is not None else ""
