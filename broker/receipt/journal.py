"""
The two files of one receipt, under their lock: what is written when, and what failure means.

Decided here: the order of system calls, recovery, and which state a failure leaves. Not
decided here: threads, forks and grouping (``writer``), what a line is (``chain``), what a
head is (``head``).

One durable append is: lock; see that the file is as we left it, else walk what others wrote;
one write of one whole line; sync the receipt; write a head slot; sync the head. A crash
leaves:

- before the write: nothing.
- within it: a fragment after the last newline. The next writer cuts it, keeps it aside and
  records a ``recover`` line. (A crash in the middle of that leaves the kept file, and at
  worst no line about it; nothing acknowledged is concerned.)
- after it, before the head: a valid line beyond the head. The next writer adopts it.

The lock is on the head, which lies out of an agent's reach. Removing it makes every later
writer refuse, rather than lock another file.

INVARIANT: ``fault`` is set before any error leaves that makes the state on disk unknown, and
nothing is written after that, except for the seal of a full disk. There is no second try
after a failed sync: the kernel may have dropped the pages and report success.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.errors import Break, FatalStoreError, StoreError, UnverifiableError
from broker.limits import MAX_LINE_BYTES, RESERVE_BYTES
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.entry import encode_data, format_at
from broker.receipt.form import RECEIPT, RECOVER, SEAL, Form
from broker.receipt.head import HEAD_BYTES, SLOT_BYTES, Head, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.merkle import Frontier
from broker.receipt.scan import Walk

RESERVE_NAME: Final = "receipt.reserve"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NONE: Final = -1  # no descriptor
_FEW_BYTES: Final = 65_536  # what is not worth learning the shapes of
# Named once: an append takes microseconds, and each look-up along a dot counts.
_lock, _unlock, _lseek, _END = disk.lock, disk.unlock, os.lseek, os.SEEK_END


class Journal:
    """
    Receipt and head of one session. Not safe among threads: ``Receipt`` sees to that.

    Every method but ``lock`` and ``release`` is called with the lock held.
    """

    __slots__ = (
        "_acknowledged",
        "_disk",
        "_form",
        "_head",
        "_head_seen",
        "_key",
        "_log",
        "chain",
        "fault",
        "head_path",
        "path",
        "safe",
        "sid",
        "stale",
        "waiting",
    )

    def __init__(
        self,
        sid: str,
        path: Path,
        head: Path,
        key: Key,
        system: disk.Disk,
        *,
        form: Form = RECEIPT,
    ) -> None:
        self._log = self._head = _NONE
        self.sid = sid
        self.path = path
        self.head_path = head
        self.chain = Chain(sid, key, form=form)
        self.stale = True  # the chain may not be what is on disk: walk it before writing
        self.waiting = 0  # lines written and not yet durable
        self.fault: FatalStoreError | None = None
        self.safe: Frontier | None = None  # the tree over the lines that are acknowledged
        self._key = key
        self._disk = system
        self._form = HeadForm(sid, key, form)
        self._acknowledged = 0
        # No content of a file equals None: an emptied head is checked like any other.
        self._head_seen: tuple[bytes | None, Slots] = (None, Slots(Head(0, "", 0), 0, False))

    # ── the lock ──

    def lock(self, at: int | None) -> None:
        """Take the lock and bring the chain up to what is on disk; mend it when ``at``."""
        try:
            if self.stale:
                self.reload(at)
                return
            _lock(self._head)
            size = _lseek(self._log, 0, _END)
            if size != self.chain.size:
                self._walk(self._read_head(), at, size)
        except (Break, UnverifiableError) as error:
            raise self._poison(f"the receipt was changed: {error}", "store.changed") from error
        except OSError as error:
            raise self._poison(f"the receipt cannot be read: {error}", "store.io") from error

    def reload(self, at: int | None) -> None:
        """Open both files afresh and walk every line: the path of every start."""
        self.release()
        self._head = disk.open_checked(
            self.head_path, "head", flags=os.O_RDWR, forbidden=disk.OTHERS_WRITE
        )
        disk.lock(self._head)
        slots = self._read_head()
        self._log = disk.open_checked(
            self.path, "receipt", flags=os.O_RDWR | os.O_APPEND, forbidden=disk.OTHERS_WRITE
        )
        self.chain = self._begun(slots)
        self._walk(slots, at, os.fstat(self._log).st_size)
        if self.chain.n == self._acknowledged:
            self._mark_safe()
        elif at is not None:
            self.acknowledge()
        self.stale = False

    def _begun(self, slots: Slots) -> Chain:
        """Return the chain to walk on from: a receipt's walk begins at its first line."""
        return Chain(self.sid, self._key, form=self.chain.form)

    def _walk(self, slots: Slots, at: int | None, size: int) -> None:
        """Accept what is on disk beyond the chain, and mend what a crash has left."""
        chain = self.chain
        if size < chain.size:
            raise chain.broken("truncated", "the receipt became shorter")
        walk = Walk(self._log, size, chain, slots)
        if size - chain.size < _FEW_BYTES:
            for _ in walk:
                pass
        else:
            walk.run()
        self._walked(slots)
        # A session that never began has no line to mend.
        if walk.fragment and at is not None and chain.n:
            self._recover(walk.fragment, at)

    def _walked(self, slots: Slots) -> None:
        """Check what can only be seen after the last line; nothing for a key that stays."""

    def _recover(self, fragment: bytes, at: int) -> None:
        """Keep a cut-off line aside, cut it from the receipt, and record that in a line."""
        digest = sha256(fragment).hexdigest()
        kept = f"receipt.torn-{self.chain.size}-{digest[:12]}"
        self._disk.replace(self.path.parent / kept, fragment)
        self._disk.truncate(self._log, self.chain.size)
        self._disk.sync(self._log)
        data = {"bytes": len(fragment), "kept": kept, "sha256": digest}
        self.put(RECOVER, encode_data(data), format_at(at), at)
        self.acknowledge()

    def put(self, kind: str, text: str, when: str, at: int) -> None:
        """Write one whole line in one call, and move the chain past it."""
        line = self.chain.compose(kind, text, when)
        try:
            written = self._disk.write(self._log, line + b"\n")
        except OSError as error:
            if error.errno in _FULL and self.fault is None:
                raise self._close_full(at) from error
            raise self._poison(f"the receipt cannot be written: {error}", "store.io") from error
        if written != len(line) + 1:
            if self.fault is None and self._no_space():
                raise self._close_full(at)
            raise self._poison("a line was written in part", "store.short_write")
        self.chain.push(kind, when, line)
        self.waiting += 1

    def acknowledge(self) -> None:
        """Make the lines durable, then say so in the head, durably."""
        chain = self.chain
        try:
            self._disk.sync(self._log)
            slots = self._read_head()
            head = self._standing()
            if slots.head.n < head.n:
                self._write_head(head, 1 - slots.slot)
            elif slots.head != head:
                raise chain.broken("truncated", "the head is ahead of the receipt")
        except Break as error:
            raise self._poison(f"the head was changed: {error}", "store.changed") from error
        except OSError as error:
            raise self._poison(
                f"a line could not be made durable: {error}", "store.sync"
            ) from error
        self._acknowledged = chain.n
        self._mark_safe()
        self.waiting = 0

    def _mark_safe(self) -> None:
        tree = self.chain.tree
        self.safe = tree.copy() if tree is not None else None

    def _standing(self) -> Head:
        """Return the head over the lines so far, which are durable."""
        chain = self.chain
        return Head(chain.n, chain.last, chain.size)

    def _write_head(self, head: Head, number: int) -> None:
        slot = self._form.slot(head)
        start = number * SLOT_BYTES
        if self._disk.pwrite(self._head, slot, start) != SLOT_BYTES:
            raise self._poison("the head was written in part", "store.short_write")
        self._disk.sync(self._head)
        before = self._head_seen[0] or b""
        content = before[:start] + slot + before[start + SLOT_BYTES :]
        self._head_seen = (content, Slots(head, number, False))

    def _read_head(self) -> Slots:
        """Return what the head says; it is read each time, and checked when it has changed."""
        content = os.pread(self._head, HEAD_BYTES + 1, 0)
        if content != self._head_seen[0]:
            self._head_seen = (content, self._form.read(content))
        slots = self._head_seen[1]
        if slots.head.n < self._acknowledged:
            raise Break("head_mac", "the head went back to an older state", line=slots.head.n)
        self._acknowledged = slots.head.n
        return slots

    def reserve(self) -> None:
        """Hold back space, so that a full disk still takes the seal."""
        path = self.path.parent / RESERVE_NAME
        if path.exists():
            return
        fd = os.open(path, os.O_WRONLY | disk.CREATE, 0o600)
        try:
            # Not zeros: a file system that compresses would keep nothing back for them.
            self._disk.write_all(fd, os.urandom(RESERVE_BYTES))
            self._disk.sync(fd)
        finally:
            os.close(fd)

    def drop_reserve(self) -> None:
        """Give the held-back space away; what stays does no harm."""
        with suppress(OSError):
            (self.path.parent / RESERVE_NAME).unlink()

    # ── failures ──

    def refuse_after_seal(self) -> None:
        """
        Refuse to write after the seal.

        Raises:
            StoreError: there is one.
        """
        if self.chain.closing:
            raise StoreError(
                f"session `{self.sid}` is sealed ({self.chain.closing}): nothing can follow",
                code="store.sealed",
            )

    def check_place(self) -> None:
        """Refuse to release anything by a file that is no longer the one at its path."""
        for fd, path, what in self._places():
            try:
                status = os.fstat(fd)
                disk.check_file(status, path, what, disk.OTHERS_WRITE)
                named = os.stat(path, follow_symlinks=False)
            except (OSError, UnverifiableError) as error:
                raise self._poison(
                    f"the {what} is not in its place: {error}", "store.replaced"
                ) from error
            if not os.path.samestat(status, named):
                raise self._poison(
                    f"another file took the place of the {what} `{path}`", "store.replaced"
                )

    def _places(self) -> tuple[tuple[int, Path, str], ...]:
        """Return every file that is open, where it must be, and what it is."""
        return ((self._log, self.path, "receipt"), (self._head, self.head_path, "head"))

    def _close_full(self, at: int) -> FatalStoreError:
        """Seal with the space that was held back; the state on disk is known after that."""
        fault = self._poison("the disk is full: no further action is released", "store.disk_full")
        chain = self.chain
        if chain.n == 0:
            return fault  # it never began: nothing was released, and a seal needs an open line
        # If even that fails, the receipt verifies as torn or open, and the next start mends it.
        with suppress(OSError, StoreError):
            self.drop_reserve()
            fragment = os.pread(self._log, MAX_LINE_BYTES + 1, chain.size)
            if fragment:
                self._recover(fragment, at)
            self.put(SEAL, encode_data(chain.seal_data("disk-full")), format_at(at), at)
            self.acknowledge()
            chain.closing = "disk-full"
        return fault

    def _no_space(self) -> bool:
        status = os.fstatvfs(self._log)
        return status.f_bavail * status.f_frsize < RESERVE_BYTES

    def _poison(self, message: str, code: str) -> FatalStoreError:
        """Remember the first fault; nothing is written after it."""
        if self.fault is None:
            self.fault = FatalStoreError(f"session `{self.sid}`: {message}", code=code)
        return self.fault

    # ── descriptors ──

    def unlock(self) -> None:
        """Give the lock back, if it is held; a lock that stays must not pass for a free one."""
        if self._head != _NONE:
            try:
                _unlock(self._head)
            except OSError as error:
                raise self._poison(f"the lock cannot be given back: {error}", "store.io") from error

    def release(self) -> None:
        """Close both files."""
        for fd in (self._log, self._head):
            if fd != _NONE:
                os.close(fd)
        self._log = self._head = _NONE

    def __del__(self) -> None:
        """Give the files of a receipt back that was dropped without being closed."""
        self.release()
