"""
The receipts of one installation: begin one, resume one, find one.

Decided here: where receipt and head lie, how a session comes to be, and what of it is told to
the ledger. Not decided here: how lines are written (``writer``) and verified (``verify``), and
which rows there are (``ledger``).

    state/sessions/<sid>/receipt.jsonl   the receipt
    state/sessions/<sid>/receipt.torn-*  cut-off lines that were kept aside
    state/heads/<sid>                    its head, which is also the writers' lock
    state/heads/<sid>.ratchet            the key of the next line, if it is forward-secure

A session begins with its head, covering no line, then the empty receipt, then line 0, then its
row in the ledger. So a crash in between leaves nothing that looks like a loss. Each further row
follows what it speaks of: how far an open session came when it was closed or resumed, and its end
after the seal and the checkpoint over it. ``resume`` writes the rows that a crash prevented.

Rule a maintainer keeps: no session begins and none goes on where the ledger is not in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import BrokerError, InputError, StoreError, UnverifiableError
from broker.home import Home
from broker.receipt import disk
from broker.receipt.audit import audit
from broker.receipt.book import Book, Listed
from broker.receipt.entry import Entry, check_sid, parse_at
from broker.receipt.form import RECEIPT
from broker.receipt.forward import FORWARD, begin_forward, is_forward
from broker.receipt.forwardjournal import ForwardJournal
from broker.receipt.head import HeadForm
from broker.receipt.journal import Journal
from broker.receipt.keys import Key
from broker.receipt.ledger import Ledger
from broker.receipt.pages import Archived
from broker.receipt.ratchet import Ratchet
from broker.receipt.ratchetfile import BLANK, ratchet_path
from broker.receipt.sealing import AuditorKey
from broker.receipt.verify import Verdict
from broker.receipt.writer import Receipt

RECEIPT_NAME: Final = "receipt.jsonl"
_SHOWN: Final = 64  # characters of a typed name in a message


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """
    What the folders say about a session, unverified.

    ``changed_at`` is when receipt or head last changed, in nanoseconds. ``has_receipt`` and
    ``has_head`` are both true for every session that nothing was taken from.
    """

    sid: str
    changed_at: int
    has_receipt: bool
    has_head: bool


class _ListedReceipt(Receipt):
    """A receipt that tells the ledger how far it came, and how it ended."""

    def __init__(self, journal: Journal, kid: str, ledger: Ledger) -> None:
        super().__init__(journal)
        self._kid = kid
        self._ledger = ledger
        self._told = 1  # lines that the ledger knows of

    def tell_begun(self, opening: Mapping[str, object], at: int) -> None:
        """Tell that line 0 is durable; it is the only one."""
        self._ledger.begin(
            self.sid,
            kid=self._kid,
            first=self._journal.chain.last,
            level=str(opening.get("level", "mac")),
            forward="forward" in opening,
            at=at,
        )

    def tell_reached(self) -> None:
        """Tell how far it has come, unless that is known."""
        chain = self._journal.chain
        if chain.n > self._told:
            self._ledger.head(self.sid, n=chain.n, last=chain.last, at=parse_at(chain.at))
            self._told = chain.n

    def tell_late(self, listed: Listed | None) -> None:
        """Tell what a crash kept from the ledger; the receipt has just been walked to its end."""
        chain = self._journal.chain
        if listed is None:
            if chain.n != 1:
                raise StoreError(f"another process writes session `{self.sid}`", code="store.alive")
            self.tell_begun(json.loads(chain.text), parse_at(chain.at))
            return
        self._told = listed.n
        if not chain.closing:
            self.tell_reached()
        elif listed.end is None:
            self._tell_end()

    def _tell_end(self) -> None:
        chain = self._journal.chain
        self._ledger.end(
            self.sid,
            n=chain.n,
            last=chain.last,
            root=chain.root,
            reason=chain.closing,
            at=parse_at(chain.at),
        )

    def seal(self, reason: str, *, at: int) -> Entry:
        """
        Seal, and tell the ledger. Where that fails, the seal stands; the next start tells.

        Between the two ``on_seal`` signs the seal. Where it cannot, the ledger is not told.

        Raises:
            RecordError, StoreError, FatalStoreError: as ``Receipt.seal``.
        """
        entry = super().seal(reason, at=at)
        root = str(entry.data["root"])
        self._ledger.end(self.sid, n=entry.n + 1, last=entry.hash, root=root, reason=reason, at=at)
        return entry

    def close(self) -> None:
        """
        Close, and tell the ledger how far an open session has come.

        Raises:
            StoreError, FatalStoreError: as ``Receipt.close``, or the ledger cannot be written.
        """
        journal = self._journal
        tells = not (self._closed or journal.stale or journal.fault or journal.chain.closing)
        super().close()
        if tells:
            self.tell_reached()


class Receipts:
    """
    All receipts under one home, signed with one key, and the ledger of them.

    Args:
        home: where they lie.
        key: signs them; see ``load_or_create_key``.
        system: the system calls; a test passes a disk that fails.
        archived: returns a key that was in use before; see ``Ledger``.
    """

    def __init__(
        self,
        home: Home,
        key: Key,
        *,
        system: disk.Disk = disk.DISK,
        archived: Archived | None = None,
    ) -> None:
        self.key = key
        self.ledger = Ledger(home, key, system=system, archived=archived)
        self.home = home
        self._disk = system

    def path(self, sid: str) -> Path:
        """Return where the receipt of ``sid`` lies."""
        return self.home.sessions / check_sid(sid) / RECEIPT_NAME

    def head_path(self, sid: str) -> Path:
        """Return where the head of ``sid`` lies."""
        return self.home.heads / check_sid(sid)

    def create(
        self,
        sid: str,
        *,
        opening: Mapping[str, object],
        at: int,
        auditor: AuditorKey | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
    ) -> Receipt:
        """
        Begin a session: its head, its receipt and the open line, durable on return.

        Args:
            sid: made by us, never by the agent.
            opening: what the open line records beside the format's name.
            at: the instant, in nanoseconds.
            auditor: makes the session forward-secure; its start key is sealed to this key.
            randomness: where a start key comes from.

        Raises:
            InputError: ``sid`` cannot name a session, ``opening`` names what is ours to say, or
                nothing can be sealed to the auditor's key.
            StoreError: such a session is there already, the disk refuses, or the ledger is not in
                order.
        """
        disk.require_posix()
        path, head = self.path(sid), self.head_path(sid)
        for ours in ("format", FORWARD):
            if ours in opening:
                raise InputError(f"the open line's `{ours}` is not for the caller to choose")
        start = None
        if auditor is not None:
            start, sealed = begin_forward(auditor, sid, randomness)
            opening = {**opening, FORWARD: sealed.data()}
        for taken in (path, head):
            if os.path.lexists(taken):
                raise StoreError(f"`{taken}` is there already", code="store.exists")
        self.ledger.ready(at)
        try:
            for folder in (path.parent, head.parent):
                disk.make_private_folder(folder)
            if start is not None:
                self._disk.replace(ratchet_path(head), BLANK)
            self._disk.replace(
                head, HeadForm(sid, self.key).first("" if start is None else start.aggregate)
            )
            os.close(os.open(path, os.O_WRONLY | disk.CREATE, 0o600))
            self._disk.sync_folder(path.parent)
            self._disk.sync_folder(path.parent.parent)
            receipt = self._receipt(sid, start)
            receipt.begin({"format": RECEIPT.name, **opening}, at)
            receipt.tell_begun(opening, at)
        except FileExistsError as error:
            raise StoreError(f"`{path}` is there already", code="store.exists") from error
        except OSError as error:
            raise StoreError(
                f"session `{sid}` cannot begin: {disk.said(error)}", code="store.io"
            ) from error
        return receipt

    def resume(self, sid: str, *, at: int, book: Book | None = None) -> Receipt:
        """
        Open a receipt that has no seal yet, after auditing all of it.

        A line cut off by a crash is kept aside and recorded; lines that a crash left beyond
        the head are adopted; rows that a crash kept from the ledger are written.

        Args:
            sid: the session.
            at: the instant, in nanoseconds.
            book: what the ledger says, where it was read since nobody else runs the session.

        Raises:
            Break: the receipt is not what was signed, or not what the ledger says; nothing was
                written.
            UnverifiableError: a file is missing or unsafe.
            StoreError: it is sealed, it never began, or the disk refuses.
        """
        disk.require_posix()
        said = self.ledger.read() if book is None else book
        listed = said.sessions.get(sid)
        verdict = None
        try:
            verdict = audit(self, sid, book=said)
        except UnverifiableError as error:
            if error.code != "unverifiable.nothing":  # it never began, and is told so below
                raise
        receipt = self._receipt(sid)
        try:
            receipt.rejoin(at)
        except StoreError as error:
            if error.code == "store.sealed" and verdict is not None and _covered(verdict, listed):
                receipt.tell_late(listed)
            raise
        except OSError as error:
            raise StoreError(
                f"session `{sid}` cannot resume: {disk.said(error)}", code="store.io"
            ) from error
        receipt.tell_late(listed)
        return receipt

    def sessions(self) -> list[SessionInfo]:
        """Return every session that has a receipt or a head, the latest first."""
        found = {*self._names(self.home.sessions), *self._names(self.home.heads)}
        infos = [info for sid in found if (info := self._info(sid)) is not None]
        return sorted(infos, key=lambda info: (info.changed_at, info.sid), reverse=True)

    def find(self, prefix: str | None = None) -> str:
        """
        Return the one session whose name starts with ``prefix``; by default the latest.

        Raises:
            InputError: none does, or more than one.
        """
        sessions = self.sessions()
        if prefix is None:
            if not sessions:
                raise InputError("there is no session yet", code="receipt.sid")
            return sessions[0].sid
        if not prefix:
            raise InputError("give the beginning of a session's name", code="receipt.sid")
        names = sorted(info.sid for info in sessions if info.sid.startswith(prefix))
        if not names:  # nothing is left of it, perhaps, but its row
            with suppress(BrokerError):
                rows = self.ledger.read().sessions
                names = sorted(sid for sid in rows if sid.startswith(prefix))
        if prefix in names:
            return prefix
        if not names:
            raise InputError(
                f"no session's name starts with `{_spelled(prefix)}`: see `broker sessions`",
                code="receipt.sid",
            )
        if len(names) > 1:
            shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            raise InputError(
                f"`{_spelled(prefix)}` names more than one session: {shown}", code="receipt.sid"
            )
        return names[0]

    def checkpoint_path(self, sid: str) -> Path:
        """Return where the latest checkpoint of ``sid`` lies, if it has one."""
        return self.home.checkpoints / check_sid(sid)

    def has_receipt(self, sid: str) -> bool:
        """Whether anything lies in the place of the receipt of ``sid``."""
        return os.path.lexists(self.path(sid))

    def _receipt(self, sid: str, start: Ratchet | None = None) -> _ListedReceipt:
        path, head = self.path(sid), self.head_path(sid)
        journal = Journal(sid, path, head, self.key, self._disk)
        if start is not None or is_forward(head, sid, self.key):
            journal = ForwardJournal(sid, path, head, self.key, self._disk, start=start)
        return _ListedReceipt(journal, self.key.kid, self.ledger)

    @staticmethod
    def _names(folder: Path) -> Iterator[str]:
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return
        for name in names:
            try:
                yield check_sid(name)
            except InputError:
                continue

    def _info(self, sid: str) -> SessionInfo | None:
        receipt, head = _changed_at(self.path(sid)), _changed_at(self.head_path(sid))
        if receipt is None and head is None:
            return None
        latest = max(receipt or 0, head or 0)
        return SessionInfo(sid, latest, receipt is not None, head is not None)


def _covered(verdict: Verdict, listed: Listed | None) -> bool:
    """Whether nothing is left to sign of a sealed session, so that its end may be told."""
    if verdict.signed_lines:
        return verdict.signed_lines == verdict.lines
    return listed is None or listed.level == "mac"


def _spelled(prefix: str) -> str:
    """Return what was typed in ASCII, cut to what a name may be."""
    text = ascii(prefix)[1:-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _changed_at(path: Path) -> int | None:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return None
