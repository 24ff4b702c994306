"""
Forward-secure sessions: how one begins, and how its lines are verified with and without a key.

Decided here: what the open line says of the sealed start key, and the two chains that a verifier
walks. Not decided here: the keys themselves (``ratchet``), the sealing (``sealing``), the files
(``ratchetfile``, ``head``), the writing (``forwardjournal``), the verdict (``verify``).

The open line holds ``forward``:

    {"auditor":"<16 hex>","sealed":"<160 hex>","suite":"hpke-base-x25519-…"}

Whoever holds the auditor's private key walks an ``AuditorChain``: every tag is checked, and
the aggregate of the head against the lines it covers. The host walks a ``Rejoined`` one: the
keys of past lines are gone, so their tags are taken as they stand, and the lines are vouched
for by what was signed with the installation's key over the last of them: the head, and the kept
ratchet. From the kept ratchet on, tags are checked on the host too.

Rules a maintainer keeps:

- That a session is forward-secure is read from its head (or the ledger), never from the receipt
  alone: else a rewritten receipt would choose how it is verified.
- A line that neither the head nor a key vouches for is a break.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import Break, UnverifiableError
from broker.limits import MAX_LINE_BYTES, MAX_RECORD_DEPTH
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.entry import strict_object
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keys import KEY_BYTES, Key
from broker.receipt.ratchet import Ratchet
from broker.receipt.ratchetfile import RATCHET_BYTES, KeptRatchet, RatchetForm, ratchet_path
from broker.receipt.sealing import SEALED_BYTES, SUITE, Auditor, AuditorKey
from broker.receipt.untagged import Untagged, stated_kid

FORWARD: Final = "forward"
_NAME: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_SEALED: Final = re.compile(rf"[0-9a-f]{{{2 * SEALED_BYTES}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What the open line says: the auditor's name, and the start key sealed to that auditor."""

    auditor: str
    sealed: bytes

    def data(self) -> dict[str, object]:
        """Return it as the open line has it."""
        return {"auditor": self.auditor, "sealed": self.sealed.hex(), "suite": SUITE}

    @classmethod
    def read(cls, found: object) -> Forwarded:
        """
        Read it from the data of an open line.

        Raises:
            Break: it is not there (``downgrade``), or not of this form (``schema``).
        """
        if found is None:
            raise Break("downgrade", "the open line names no auditor: it is not forward-secure")
        if not isinstance(found, dict) or set(found) != {"auditor", "sealed", "suite"}:
            raise Break("schema", "the open line's `forward` is not of this version's form")
        auditor, sealed, suite = found["auditor"], found["sealed"], found["suite"]
        if (
            suite != SUITE
            or not (isinstance(auditor, str) and _NAME.fullmatch(auditor))
            or not (isinstance(sealed, str) and _SEALED.fullmatch(sealed))
        ):
            raise Break("schema", "the open line's `forward` is not of this version's form")
        return cls(auditor, bytes.fromhex(sealed))


def begin_forward(
    auditor: AuditorKey, sid: str, randomness: Callable[[int], bytes]
) -> tuple[Ratchet, Forwarded]:
    """
    Choose a start key, and return its ratchet and what the open line says of it.

    The start key is in the ratchet alone, and gone from there after line 0.

    Raises:
        InputError: the auditor's key cannot be sealed to.
    """
    start = Key.of(randomness(KEY_BYTES))
    return Ratchet.start(start, sid), Forwarded(auditor.name, auditor.seal(start.secret, sid))


def read_opening(fd: int) -> Forwarded:
    """
    Return what line 0 of an open file says of its start key; nothing of it is authentic yet.

    Raises:
        Break: it says nothing that can be read as such.
        OSError: the file cannot be read.
    """
    line, _, _ = os.pread(fd, MAX_LINE_BYTES + 1, 0).partition(b"\n")
    try:
        data = strict_object(str(line, "utf-8"), MAX_RECORD_DEPTH + 1).get("data")
    except UnicodeDecodeError:
        raise Break("encoding", "the first line is not UTF-8") from None
    return Forwarded.read(data.get(FORWARD) if isinstance(data, dict) else None)


def is_forward(head: Path, sid: str, key: Key) -> bool:
    """
    Whether a session's head says that it is forward-secure.

    A head that cannot be believed says nothing; whoever reads it next says what is wrong.
    """
    try:
        fd = disk.open_checked(head, "head", forbidden=disk.OTHERS_WRITE)
    except UnverifiableError:
        return False
    try:
        return bool(HeadForm(sid, key).read(os.pread(fd, HEAD_BYTES + 1, 0)).head.aggregate)
    except (Break, OSError):
        return False
    finally:
        os.close(fd)


def read_kept(head: Path, sid: str, key: Key) -> KeptRatchet | None:
    """
    Read the kept ratchet beside a head; None when there is none to believe.

    A verifier reads it before the head, and the head before the receipt: a writer at work adds
    to them in the other order.

    Raises:
        UnverifiableError: the file is unsafe.
    """
    path = ratchet_path(head)
    try:
        fd = disk.open_checked(path, "ratchet", forbidden=disk.BEYOND_OWNER)
    except UnverifiableError as error:
        if error.code == "unverifiable.missing":
            return None
        raise
    try:
        return RatchetForm(sid, key).read(os.pread(fd, RATCHET_BYTES + 1, 0))
    except OSError as error:
        raise UnverifiableError(
            f"the ratchet `{path}` cannot be read", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)


# ── without the auditor ──


class Rejoined(Untagged):
    """
    A chain that believes the tags of past lines, and checks those from the kept ratchet on.

    Args:
        sid: the session's name.
        kid: the name of its start key.
        kept: the ratchet that was kept; None when there is none.
        tree: as for ``Chain``.
    """

    __slots__ = ("_kept", "ratchet")

    def __init__(self, sid: str, kid: str, kept: KeptRatchet | None, *, tree: bool = True) -> None:
        self._kept = kept
        self.ratchet: Ratchet | None = None
        super().__init__(sid, kid, tree=tree)

    def accept(self, line: bytes) -> None:
        """
        Check the next line, its tag only where the key is at hand, and move past it.

        Raises:
            Break: it is not the next line; or it ends the lines that were kept otherwise.
        """
        super().accept(line)
        kept = self._kept
        if kept is not None and kept.position.n == self.n:
            if (kept.last, kept.size) != (self.last, self.size):
                raise self.broken("fork", "the lines are not those that the ratchet was kept for")
            self.ratchet = kept.ratchet(self.sid)
            self.turn(self.ratchet)
            self._kept = None  # its key is an old one from the next line on

    def check_vouched(self, acknowledged: int) -> None:
        """
        Check, after the last line, that something vouches for all of them.

        Args:
            acknowledged: how many the head covers.

        Raises:
            Break: lines were cut that the ratchet covers, or there are lines that nothing covers.
            UnverifiableError: a crash came before line 0 was acknowledged.
        """
        kept = self._kept
        if kept is not None:
            raise self.broken(
                "truncated", f"the ratchet was kept for {kept.position.n} lines, {self.n} are left"
            )
        if self.ratchet is None and not acknowledged:
            raise UnverifiableError(
                f"session `{self.sid}` never began: there is nothing to verify",
                code="unverifiable.nothing",
            )
        if self.ratchet is None and self.n > acknowledged:
            raise self.broken(
                "ratchet",
                "lines follow the acknowledged ones, and the ratchet to check them is gone",
            )


# ── with the auditor ──


class AuditorRatchet(Ratchet):
    """
    The auditor's ratchet, which also compares the aggregate that a head gives.

    Args:
        start: the start key.
        sid: the session.
        head: the head; None when there is none.
    """

    __slots__ = ("_head", "_proven")

    def __init__(self, start: Key, sid: str, head: Head | None) -> None:
        first = Ratchet.start(start, sid)
        super().__init__(start.kid, sid, first.position)
        self._head = head
        self._proven = head is None or (head.n == 0 and head.aggregate == first.aggregate)

    def step(self) -> None:
        """Move past a line, and compare where the head's lines end."""
        super().step()
        head = self._head
        if head is not None and head.n == self.n:
            self._proven = head.aggregate == self.aggregate

    def check_aggregate(self) -> None:
        """
        Check, after the last line, that the head's aggregate is that of the lines it covers.

        Raises:
            Break: it is not (``aggregate``): the lines that follow were cut off, or never were.
        """
        if not self._proven and self._head is not None:
            raise Break(
                "aggregate",
                f"the head's aggregate is not that of the first {self._head.n} lines: lines were "
                "cut off, and the head was made to fit",
                line=self._head.n,
                offset=self._head.size,
            )


class AuditorChain(Chain):
    """A chain whose tags and aggregate the auditor's key checks."""

    __slots__ = ("ratchet",)

    def __init__(self, sid: str, ratchet: AuditorRatchet, *, tree: bool = True) -> None:
        self.ratchet = ratchet
        super().__init__(sid, ratchet, tree=tree)


def auditor_chain(
    opening: Forwarded, sid: str, auditor: Auditor, head: Head | None, *, tree: bool = True
) -> AuditorChain:
    """
    Return the chain that an auditor walks.

    Raises:
        UnverifiableError: the start key was sealed to another auditor.
        Break: the session is not forward-secure (``downgrade``), or its start key does not open
            (``start_key``).
    """
    if head is not None and not head.aggregate:
        raise Break(
            "downgrade", "the head has no aggregate: the session is not, or no more, forward-secure"
        )
    if opening.auditor != auditor.public.name:
        raise UnverifiableError(
            f"the start key was sealed to auditor `{opening.auditor}`, and the key given is "
            f"`{auditor.public.name}`",
            code="unverifiable.auditor",
        )
    try:
        start = Key.of(auditor.open(opening.sealed, sid))
    except UnverifiableError:
        raise Break("start_key", "what was sealed is no start key") from None
    return AuditorChain(sid, AuditorRatchet(start, sid, head), tree=tree)


# ── which of them ──


def forward_chain(
    fd: int,
    sid: str,
    head: Head | None,
    kept: KeptRatchet | None,
    auditor: Auditor | None,
    *,
    tree: bool,
) -> Chain:
    """
    Return the chain to walk over a forward-secure session's open file.

    Raises:
        Break, UnverifiableError: as ``auditor_chain``.
        OSError: the file cannot be read.
    """
    if b"\n" not in os.pread(fd, MAX_LINE_BYTES + 1, 0):
        return Untagged(sid, "", tree=tree)  # of no line: what that means is seen at the end
    if auditor is None:
        return Rejoined(sid, stated_kid(fd), kept, tree=tree)
    return auditor_chain(read_opening(fd), sid, auditor, head, tree=tree)


def check_end(chain: Chain, head: Head | None) -> None:
    """
    Check what can only be seen after the last line of a forward-secure session.

    Raises:
        Break: as ``check_vouched`` and ``check_aggregate``.
        UnverifiableError: it never began.
    """
    if isinstance(chain, Rejoined):
        chain.check_vouched(head.n if head is not None else 0)
    elif isinstance(chain, AuditorChain):
        chain.ratchet.check_aggregate()
