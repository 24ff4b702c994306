"""
The ledger: a receipt of receipts, which says of every session that it began and how it ended.

Decided here: where the ledger lies, how it comes to be, and how a row is written. Not decided
here: how rows are read (``pages``), what they amount to (``book``), and whether the receipts keep
what they say (``audit``).

    state/ledger/receipt.jsonl   the rows
    state/ledger/head            its head, which is also the writers' lock
    data/keys/ledger             the hash of its first row: the mark that there is a ledger

A row is one durable append, and follows what it speaks of. So a crash leaves, in the order in
which a session lives:

- Before the session's line 0 is durable: at most a head that covers nothing, an empty file, or
  a fragment. Nothing was released; it is no loss.
- After line 0, before ``begin``: an authentic receipt of one line that no row names. Nothing was
  released, since ``create`` has not returned. The next start writes the row, then seals.
- After ``begin``: the row demands what is durable already.
- After ``close``, before ``head``: the ledger demands fewer lines than there are. It demands
  them at the next ``head`` or ``end``.
- After the seal, before ``end``: a sealed receipt without its row. The next start writes it.
- Within a row: a fragment, or a row beyond the head, which the next writer mends as in any
  receipt (``journal``).

A receipt of more than one line that no row names is never left by a crash.

The ledger itself is made before the first session: its head, the empty file, its first row, the
mark. So where there is neither mark nor session, what is left of a ledger is left by a crash,
and is made anew. Where there is either, a missing ledger is a loss and no session begins.

Rules a maintainer keeps:

- No row before its lines are durable; no session without its row.
- A writer believes the head, which is signed, and the last row that it names; it walks only what
  stands beyond. Reading all rows is for who needs to know them. A row that was changed further up
  stays changed, and ``read`` finds it.
- Nothing is kept open between two rows, so threads and forks share nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from broker.errors import Break, FatalStoreError, StoreError, UnverifiableError
from broker.home import Home
from broker.receipt import disk
from broker.receipt.book import Book
from broker.receipt.entry import encode_data, format_at
from broker.receipt.form import LEDGER, OPEN
from broker.receipt.handover import agreement
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keyring import archived_key, line_key_path
from broker.receipt.keys import Key, load_key
from broker.receipt.pages import LEDGER_SID, Archived, read_book
from broker.receipt.rows import Rows

LEDGER_NAME: Final = "receipt.jsonl"
HEAD_NAME: Final = "head"
MARK_NAME: Final = "ledger"
CHECKPOINT_NAME: Final = "checkpoint"
_MARK_BYTES: Final = 128
MEND: Final = (
    "see `broker receipt --verify --all`; to go on with what is left, "
    "`broker receipt adopt --ledger --reason TEXT`"
)


class Ledger:
    """
    The ledger of one installation. Safe among threads, processes and forks.

    Args:
        home: where it lies.
        key: the key this installation has now.
        system: the system calls; a test passes a disk that fails.
        archived: returns a key that was in use before; by default from ``keys/archive``.
    """

    def __init__(
        self,
        home: Home,
        key: Key,
        *,
        system: disk.Disk = disk.DISK,
        archived: Archived | None = None,
    ) -> None:
        self.path = home.ledger / LEDGER_NAME
        self.head_path = home.ledger / HEAD_NAME
        self.mark_path = home.keys / MARK_NAME
        self._home = home
        self._key = key
        self._disk = system
        self._archived = archived or partial(archived_key, home)

    # ── reading ──

    def read(self) -> Book:
        """
        Verify every row and return what they say.

        Raises:
            Break: the ledger is not what was signed; ``no_ledger`` where it is gone.
            UnverifiableError: a file is unsafe, or there was never a ledger nor a session.
        """
        disk.require_posix()
        try:
            book = read_book(self.path, self.head_path, self._key, self._archived)
        except Break as error:
            if error.reason == "no_ledger" and not self.expected():
                raise UnverifiableError(
                    "there is no ledger and no session yet: there is nothing to verify",
                    code="unverifiable.nothing",
                ) from error
            raise
        mark = self.mark()
        if mark is not None and mark != book.first:
            raise Break("no_ledger", "another ledger stands in the place of this installation's")
        return book

    def expected(self) -> bool:
        """Whether a ledger must be here: there is its mark, or a session."""
        return os.path.lexists(self.mark_path) or any(self._traces())

    def mark(self) -> str | None:
        """
        Return the hash of the first row as the mark has it; None where there is no mark.

        An emptied mark is a mark, and of no ledger.

        Raises:
            UnverifiableError: the mark is not a file that is safe to believe.
        """
        if not os.path.lexists(self.mark_path):
            return None
        fd = disk.open_checked(self.mark_path, "ledger's mark", forbidden=disk.OTHERS_WRITE)
        try:
            return os.read(fd, _MARK_BYTES).decode("ascii", "replace").removesuffix("\n")
        finally:
            os.close(fd)

    def key_named(self, kid: str) -> Key | None:
        """Return the key of that name, in use or archived."""
        return self._key if kid == self._key.kid else self._archived(kid)

    def _traces(self) -> Iterator[Path]:
        """Yield what sessions leave; a session's folder alone comes before its ledger."""
        with suppress(OSError):
            yield from self._home.heads.iterdir()
        yield from self._home.sessions.glob(f"*/{LEDGER_NAME}")

    # ── coming to be ──

    def ready(self, at: int) -> None:
        """
        See that a row could be written; make the ledger where there was none.

        Raises:
            StoreError: it is missing where it must be, or is not what was signed
                (``store.ledger``): no session may begin.
        """
        with self._told():
            disk.require_posix()
            if not self._stands(at):
                self._begin_with(at)

    def _stands(self, at: int, *, alone_here: bool = False) -> bool:
        """
        Whether there is a ledger with a row and its mark; else it is being made, or was left so.

        Only who keeps the other makers out puts the mark: two at once would trip each other up.
        """
        if not (os.path.lexists(self.path) and os.path.lexists(self.head_path)):
            return False
        with self._rows(at) as rows:
            alone = rows.chain.n == 1
            first = rows.chain.last
            stands = rows.chain.n > 0
        if alone and not os.path.lexists(self.mark_path):
            if not alone_here:
                return False
            self._put_mark(first)  # a crash came between the first row and the mark
        return stands

    def _begin_with(self, at: int) -> None:
        with self._alone():
            if self._stands(at, alone_here=True):
                return
            if self.expected():
                raise Break("no_ledger", f"`{self.path}` is gone, and what it told of is not")
            self.create({}, at)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other makers of a ledger out, by a lock on the folder."""
        disk.make_private_folder(self._home.ledger)
        held = os.open(self._home.ledger, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            disk.lock(held)
            yield
        finally:
            os.close(held)

    def begin_anew(self, opening: Mapping[str, object], at: int) -> None:
        """
        Keep what is left of the ledger aside, and begin another that says why.

        A crash in between leaves no ledger, which is a loss, and can be done again.

        Raises:
            StoreError: it cannot be written.
        """
        with self._told(), self._alone():
            for path in (self.path, self.head_path, self.path.with_name(CHECKPOINT_NAME)):
                if os.path.lexists(path):
                    os.rename(path, path.with_name(f"{path.name}.before-{at // 1_000_000}"))
            self._disk.sync_folder(self.path.parent)
            self.create(opening, at)

    def create(self, opening: Mapping[str, object], at: int) -> None:
        """Write a ledger of one row, and the mark that there is one."""
        self.path.unlink(missing_ok=True)
        self._disk.replace(self.head_path, HeadForm(LEDGER_SID, self._key, LEDGER).first())
        os.close(os.open(self.path, os.O_WRONLY | disk.CREATE, 0o600))
        self._disk.sync_folder(self.path.parent)
        self._disk.sync_folder(self.path.parent.parent)
        with self._rows(at) as rows:
            text = encode_data({"format": LEDGER.name, **opening})
            rows.put(OPEN, text, format_at(at), at)
            rows.acknowledge()
            first = rows.chain.last
        self._put_mark(first)

    def _put_mark(self, first: str) -> None:
        try:
            disk.make_private_folder(self.mark_path.parent)
            self._disk.replace(self.mark_path, f"{first}\n".encode())
        except OSError as error:
            # Where the folder of keys may not be written, the sessions alone tell of the ledger.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise

    # ── rows ──

    def begin(self, sid: str, *, kid: str, first: str, level: str, forward: bool, at: int) -> None:
        """
        Say that a session began; its line 0 is durable.

        Args:
            sid: its name.
            kid: the name of the key of its lines.
            first: the hash of line 0.
            level: what the session promises.
            forward: whether its line key moves on, and was sealed to an auditor.
            at: the instant.

        Raises:
            StoreError: the row is not durable.
        """
        data = {"sid": sid, "kid": kid, "first": first, "level": level, "forward": forward}
        self._append("begin", data, at)

    def head(self, sid: str, *, n: int, last: str, at: int) -> None:
        """Say how far an open session has come. Raises as ``begin``."""
        self._append("head", {"sid": sid, "n": n, "last": last}, at)

    def end(self, sid: str, *, n: int, last: str, root: str, reason: str, at: int) -> None:
        """Say that a session was sealed. Raises as ``begin``."""
        data = {"sid": sid, "n": n, "last": last, "root": root, "reason": reason}
        self._append("end", data, at)

    def adopt(self, data: Mapping[str, object], *, at: int) -> None:
        """Say that a person accepts a session as it is now; see ``repair``."""
        self._append("adopt", data, at)

    def retire(self, sid: str, *, reason: str, found: str, at: int) -> None:
        """Say that a person took a session away; see ``repair``."""
        self._append("retire", {"sid": sid, "reason": reason, "found": found}, at)

    def rotate(self, incoming: Key, *, vkey_from: str, vkey_to: str, at: int) -> None:
        """
        Say, signed with the outgoing key and agreed to by the incoming one, that it takes over.

        The head is signed with the incoming key before this returns. A crash before that leaves
        the outgoing key's head over the rotation; the next writer with the new key mends it.

        Raises:
            StoreError: the row is not durable.
        """
        kids = {"kid_from": self._key.kid, "kid_to": incoming.kid}
        data = {**kids, "vkey_from": vkey_from, "vkey_to": vkey_to}
        with self._told(), self._rows(at) as rows:
            text = encode_data({**data, "agreed": agreement(incoming, data, rows.chain.last)})
            rows.put("rotate", text, format_at(at), at)
            rows.acknowledge()
            self._put_head(incoming, Head(rows.chain.n, rows.chain.last, rows.chain.size))

    def _append(self, kind: str, data: Mapping[str, object], at: int) -> None:
        text, when = encode_data(data), format_at(at)
        with self._told(), self._rows(at) as rows:
            if rows.chain.n == 0:
                raise Break("no_ledger", f"`{self.path}` has no row")
            if kind == "begin" and not data["forward"] and data["kid"] != rows.kid:
                raise StoreError(
                    f"key `{data['kid']}` was rotated away while this ran: start again",
                    code="store.rotated",
                )
            rows.put(kind, text, when, at)
            rows.acknowledge()

    @contextmanager
    def _rows(self, at: int) -> Iterator[Rows]:
        """Hold the lock over rows that are walked to their end and mended."""
        rows = self._files(self._key)
        try:
            try:
                rows.reload(at)
            except Break as error:
                rows.release()
                if error.reason != "head_mac":
                    raise
                rows = self._files(self._rotated())
                rows.reload(at)
            rows.check_place()
            yield rows
        finally:
            rows.unlock()
            rows.release()

    def _files(self, key: Key) -> Rows:
        return Rows(self.path, self.head_path, key, self._archived, self._disk)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what goes wrong into one error that says how to go on."""
        try:
            yield
        except (Break, UnverifiableError) as error:
            raise StoreError(
                f"the ledger of sessions is not as it was left: {error}; {MEND}",
                code="store.ledger",
            ) from error
        except FatalStoreError as error:
            raise StoreError(f"the ledger: {error}", code=error.code) from error
        except OSError as error:
            raise StoreError(
                f"the ledger `{self.path}` cannot be written: {disk.said(error)}", code="store.io"
            ) from error

    # ── after a rotation ──

    def _rotated(self) -> Key:
        """
        Return the key in use where the head was not signed with the one we hold.

        Either another process rotated it away while we ran: the file has the new one. Or the
        rotation to ours was cut off before its head was signed: sign it.

        Raises:
            Break: neither.
        """
        path = line_key_path(self._home)
        current = load_key(path) if os.path.lexists(path) else self._key
        if current.kid != self._key.kid:
            return current
        held = disk.open_checked(self.head_path, "ledger's head", forbidden=disk.OTHERS_WRITE)
        try:
            disk.lock(held)  # a rotation that is at work is waited for
            book = self.read()
            if book.rotating:
                self._put_head(current, Head(book.n, book.last, book.size))
        finally:
            os.close(held)
        return current

    def _put_head(self, key: Key, head: Head) -> None:
        form = HeadForm(LEDGER_SID, key, LEDGER)
        self._disk.replace(self.head_path, form.slot(head).ljust(HEAD_BYTES, b"\0"))
