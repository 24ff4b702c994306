"""
Verifying a receipt: the head first, then the file, in constant memory.

Decided here: the order of reading, what a head demands of the file, and the verdict. Not
decided here: what one line must be (``chain``).

A ``Break`` names the first place that is not what was signed. Its reasons:

- of a line: ``size format mac encoding json depth dupkey number canon schema sid kid seq prev
  kind seal after_seal``
- of the whole: ``truncated fork torn missing no_head head_mac``

Rules a maintainer keeps:

- The head is read before the file, so a writer at work is never mistaken for a thief.
- Nothing to verify is not success: an empty receipt is an error, never a verdict.
- Only bytes that ``chain`` accepted leave this module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from broker.errors import Break, UnverifiableError
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.entry import Entry, parse_at
from broker.receipt.head import HEAD_BYTES, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.scan import Walk

State = Literal["SEALED", "OPEN", "INTERRUPTED", "TORN"]
_SEAL_IN_SIGHT: Final = b'","kind":"seal","n":'
_SEAL_LINE_BYTES: Final = 1_024  # more than any authentic seal line


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What a verified receipt is.

    ``state`` is SEALED (complete), INTERRUPTED (sealed for another ``reason``), OPEN (no seal
    yet) or TORN (open, and a write was cut off after the acknowledged lines; nothing
    acknowledged is missing). ``completeness`` is KNOWN when a head said how many lines there
    must be. ``beyond`` counts lines that verify but that the head does not cover yet.
    """

    state: State
    sid: str
    lines: int
    completeness: Literal["KNOWN", "UNKNOWN"]
    level: Literal["mac"] = "mac"
    reason: str = ""
    root: str = ""
    last: str = ""
    beyond: int = 0
    fragment_bytes: int = 0
    warnings: tuple[str, ...] = ()


def read_head(path: Path, sid: str, key: Key) -> Slots:
    """
    Read a head file that must be there.

    Raises:
        Break: it is missing (``no_head``) or not signed for this session (``head_mac``).
        UnverifiableError: the file is unsafe.
    """
    try:
        fd = disk.open_checked(path, "head", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        if error.code == "unverifiable.missing":
            raise Break("no_head", f"the head `{path}` is missing") from error
        raise
    try:
        return HeadForm(sid, key).read(os.pread(fd, HEAD_BYTES + 1, 0))
    except OSError as error:
        raise UnverifiableError(
            f"the head `{path}` cannot be read: {error}", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)


@contextmanager
def _reading(path: Path, key: Key, head: Path | None, sid: str) -> Iterator[tuple[Walk, Chain]]:
    """Open head and receipt in that order; the receipt's size is read once."""
    disk.require_posix()
    slots: Slots | None = None
    headless: Break | None = None
    if head is not None:
        try:
            slots = read_head(head, sid, key)
        except Break as error:
            if error.reason != "no_head":
                raise
            headless = error
    try:
        fd = disk.open_checked(path, "receipt", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError as error:
        begun = slots is not None and slots.head.n + slots.torn > 0
        if error.code == "unverifiable.missing" and begun:
            raise Break("missing", f"the receipt `{path}` is gone and its head is not") from error
        raise
    try:
        if headless is not None:
            raise headless
        size = os.fstat(fd).st_size
        ending = os.pread(fd, _SEAL_LINE_BYTES, max(0, size - _SEAL_LINE_BYTES))
        chain = Chain(sid, key, tree=_SEAL_IN_SIGHT in ending)
        yield Walk(fd, size, chain, slots), chain
    except OSError as error:
        raise UnverifiableError(
            f"the receipt `{path}` cannot be read: {error}", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)


def _name(path: Path, head: Path | None, sid: str | None) -> str:
    if sid is not None:
        return sid
    return head.name if head is not None else path.parent.name


def verify(
    path: Path, *, key: Key, head: Path | None, sid: str | None = None, now: int | None = None
) -> Verdict:
    """
    Verify a receipt from its first line to its last.

    Args:
        path: the receipt.
        key: the secret it must be signed with.
        head: its head; None verifies the lines alone, and completeness stays UNKNOWN.
        sid: the session; by default the head's name, else the receipt's folder.
        now: when given, lines dated after it are warned of.

    Raises:
        Break: tampering, loss or a break; says where.
        UnverifiableError: an unsafe or missing file, or nothing to verify.
    """
    name = _name(path, head, sid)
    with _reading(path, key, head, name) as (walk, chain):
        walk.run()
        return _judge(walk, chain, now)


def _judge(walk: Walk, chain: Chain, now: int | None) -> Verdict:
    if chain.n == 0:
        raise UnverifiableError(
            f"session `{chain.sid}` has no line: there is nothing to verify",
            code="unverifiable.nothing",
        )
    state: State = "TORN" if walk.fragment else "OPEN"
    if chain.closing:
        state = "SEALED" if chain.closing == "complete" else "INTERRUPTED"
    warnings = []
    if chain.went_back:
        warnings.append(f"the clock went back before {chain.went_back} of the lines")
    if now is not None and parse_at(chain.at) > now:
        warnings.append("the last line is dated in the future")
    slots = walk.slots
    return Verdict(
        state=state,
        sid=chain.sid,
        lines=chain.n,
        completeness="UNKNOWN" if slots is None else "KNOWN",
        reason=chain.closing,
        root=chain.root,
        last=chain.last,
        beyond=0 if slots is None else chain.n - slots.head.n,
        fragment_bytes=len(walk.fragment),
        warnings=tuple(warnings),
    )


def read_entries(
    path: Path, key: Key, head: Path | None, *, sid: str | None = None
) -> Iterator[Entry]:
    """
    Yield the entries of a receipt, each only after it has been verified.

    A break further on is raised when the walk gets there; what came before it was authentic.

    Raises:
        Break, UnverifiableError: as ``verify``.
    """
    with _reading(path, key, head, _name(path, head, sid)) as (walk, chain):
        for _ in walk:
            yield Entry(
                chain.n - 1, chain.last, chain.kind, parse_at(chain.at), json.loads(chain.text)
            )
        _judge(walk, chain, None)
