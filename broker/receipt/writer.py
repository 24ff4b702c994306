"""
One receipt, open for writing: append, flush, seal, close.

Decided here: what is durable when, and safety among threads and forks. Not decided here: the
order of system calls (``journal``) and which sessions there are (``store``).

Rules a maintainer keeps:

- No receipt, no action: a durable ``append`` returns only after the line and the head are on
  disk.
- A forked child shares neither mutex nor lock with its parent, and walks the file afresh.
- An interruption in the middle of an append is mended by walking the file, never by guessing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final
from weakref import WeakSet

from broker.errors import FatalStoreError, InputError, RecordError, StoreError
from broker.limits import MAX_GROUP_LINES, MAX_GROUP_S
from broker.receipt.entry import SEAL_REASONS, Entry, encode_data, format_at
from broker.receipt.form import OPEN, RECEIPT, SEAL
from broker.receipt.journal import Journal
from broker.receipt.merkle import EMPTY_ROOT

_GROUP_NS: Final = int(MAX_GROUP_S * 1_000_000_000)
_live: WeakSet[Receipt] = WeakSet()


class Receipt:
    """
    Appends to one session's receipt. Safe among threads, processes and forks.

    Made by ``Receipts``. After a ``FatalStoreError`` every further append raises it again:
    no receipt, no action. A signal handler must not call in here, since it may have
    interrupted an append: let it raise, and seal where that is caught.
    """

    def __init__(self, journal: Journal) -> None:
        self.sid = journal.sid
        self.path = journal.path
        self.head_path = journal.head_path
        self._journal = journal
        self._mutex = threading.Lock()
        self._waiting_at = 0
        self._closed = False
        # Called without the mutex: after the seal is durable, and when it is closed unsealed.
        self.on_seal: Callable[[Receipt, Entry], None] | None = None
        self.on_close: Callable[[Receipt], None] | None = None
        _live.add(self)

    # ── what callers do ──

    def append(
        self, kind: str, data: Mapping[str, object], *, at: int, durable: bool = True
    ) -> Entry:
        """
        Add one line and return it; when ``durable``, only after it is safe on disk.

        Args:
            kind: one of the kinds that callers write (``RECEIPT.appended``).
            data: what to record; the restricted data model, see ``entry``.
            at: the instant, in nanoseconds.
            durable: False for a record that releases nothing. It is written at once and made
                durable with the next durable line, after ``MAX_GROUP_LINES`` of them or
                ``MAX_GROUP_S``, or by ``flush``.

        Raises:
            RecordError, LimitError: the record cannot be written; nothing was.
            StoreError: sealed, closed, or the file is not ours to write; nothing was.
            FatalStoreError: the state on disk is unknown; the session must end.
        """
        if kind not in RECEIPT.appended:
            raise RecordError(f"`{kind}` is not a kind that callers append")
        return self._append(kind, data, at, durable)

    def seal(self, reason: str, *, at: int) -> Entry:
        """
        Write the last line, over the Merkle root of all lines before. Nothing follows it.

        Raises:
            RecordError: no such reason.
            StoreError, FatalStoreError: as ``append``.
        """
        if reason not in SEAL_REASONS:
            raise RecordError(f"`{reason}` is no reason to seal: {', '.join(SEAL_REASONS)}")
        entry = self._append(SEAL, {}, at, True, reason)
        self._journal.drop_reserve()
        if self.on_seal is not None:
            self.on_seal(self, entry)
        return entry

    def flush(self) -> None:
        """
        Make every line written so far durable and acknowledged.

        Raises:
            FatalStoreError: as ``append``.
        """
        with self._mutex:
            self._flush()

    def close(self) -> None:
        """
        Flush and give the files back. The receipt can be resumed.

        Raises:
            FatalStoreError: the lines that waited could not be made durable.
        """
        with self._mutex:
            last_time = not self._closed
            try:
                self._flush()
            finally:
                self._closed = True
                self._journal.release()
        if last_time and not self.sealed and self.on_close is not None:
            self.on_close(self)

    def _flush(self) -> None:
        journal = self._journal
        if not journal.waiting or journal.fault is not None or self._closed:
            return
        try:
            journal.lock(None)
            journal.check_place()
            journal.acknowledge()
        finally:
            journal.unlock()

    def snapshot(self) -> tuple[int, bytes]:
        """
        Return how many lines are acknowledged, and the Merkle root over them (32 bytes).

        It waits for nothing. Lines that are not durable yet are left out, so whoever signs the
        root never signs a line that a crash can take away.
        """
        safe = self._journal.safe  # replaced whole, never changed
        return (0, EMPTY_ROOT) if safe is None else (safe.size, safe.root())

    @property
    def last(self) -> tuple[int, str]:
        """How many lines this object knows of, and the hash of the last one."""
        with self._mutex:
            chain = self._journal.chain
            return chain.n, chain.last

    @property
    def sealed(self) -> bool:
        """Whether this object has seen the seal."""
        return bool(self._journal.chain.closing)

    def __enter__(self) -> Receipt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ── beginning, for Receipts only ──

    def begin(self, data: Mapping[str, object], at: int) -> None:
        """Hold back space, and write line 0."""
        self._journal.reserve()
        self._append(OPEN, data, at, True)

    def rejoin(self, at: int) -> None:
        """
        Walk the receipt as a verifier does, then mend its end.

        Raises:
            Break: the receipt is not what was signed.
            UnverifiableError: a file is unsafe or missing.
            StoreError: sealed, or it never began.
        """
        journal = self._journal
        with self._mutex:
            try:
                with ExitStack() as undo:
                    undo.callback(journal.release)
                    journal.reload(at)
                    journal.refuse_after_seal()
                    if journal.chain.n == 0:
                        raise StoreError(
                            f"session `{self.sid}` never began: start another",
                            code="store.never_began",
                        )
                    journal.reserve()
                    undo.pop_all()  # they stay open for whoever appends
            finally:
                journal.unlock()

    # ── the critical section ──

    def _append(
        self, kind: str, data: Mapping[str, object], at: int, durable: bool, reason: str = ""
    ) -> Entry:
        text = encode_data(data)
        when = format_at(at)
        journal = self._journal
        with self._mutex:
            if journal.fault is not None:
                raise FatalStoreError(journal.fault.message, code=journal.fault.code)
            if self._closed:
                raise StoreError(f"the receipt of `{self.sid}` is closed", code="store.closed")
            try:
                journal.lock(at)
                chain = journal.chain
                if chain.closing:
                    journal.refuse_after_seal()
                if reason:
                    data = chain.seal_data(reason)
                    text = encode_data(data)
                if not journal.waiting:
                    self._waiting_at = at
                due = (
                    durable
                    or journal.waiting + 1 >= MAX_GROUP_LINES
                    or not 0 <= at - self._waiting_at < _GROUP_NS
                )
                if due:
                    journal.check_place()
                journal.put(kind, text, when, at)
                if due:
                    journal.acknowledge()
                if reason:
                    chain.closing = reason
                return Entry(chain.n - 1, chain.last, kind, at - at % 1_000_000, data)
            except (InputError, StoreError):
                raise  # told by who knows the state on disk
            except BaseException:  # an interruption too; it is marked and goes on, never swallowed
                # Perhaps it came between a write and the note of it: the next append walks the
                # file before it believes its own memory.
                journal.stale = True
                raise
            finally:
                journal.unlock()

    def forget(self) -> None:
        """In a forked child: share neither mutex nor lock with the parent."""
        self._mutex = threading.Lock()
        self._journal.release()
        self._journal.stale = True


def _after_fork() -> None:
    for receipt in list(_live):
        receipt.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
