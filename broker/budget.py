"""
How many calls each ticket has made: one count per link, debited atomically.

Decided here: how counts are kept so that neither threads, processes, forks nor crashes make a
call count for less than one. Not decided here: whether a count is too high (``authorize``), or
who shares a count (every ticket debits the whole of its line, see ``broker.guard``).

``MemoryBudget`` serves one process. ``FileBudget`` serves all processes that open one file: a
header line, then one line per debit, ``COST ID [ID…]``, appended under an exclusive lock. What
several machines share is in ``broker.budgets``.

Rules a maintainer keeps: judging and debiting are one step for all who share the counts, before the
call starts; a refusal costs nothing; counts that cannot be told, or a debit that cannot be written,
refuse. A count is never guessed and a file is never repaired here: the receipt is the record that
counts can be rebuilt from.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from broker.calls import Decision, Refusal
from broker.errors import StoreError

Counts = tuple[int, ...] | None
Judge = Callable[[Counts], Decision]
Witness = Callable[[Decision], Decision]
Limits = tuple[int | None, ...]

_HEADER: Final = b"budget/1\n"
_DEBIT: Final = re.compile(rb"([1-9][0-9]{0,9})((?: [0-9a-f]{16})+)\n")
UNTOLD: Final = Decision(
    Refusal(
        "calls",
        "?",
        "whether the budget allows this call could not be decided, so it is refused; do not work "
        "around this; ask the person to start a new session",
    )
)


def unwitnessed(decision: Decision) -> Decision:
    """Return a decision as it is: nobody writes it down."""
    return decision


class Budget(Protocol):
    """
    Counts of allowed calls, one for each link of each ticket.

    ``shared`` says that others may spend and revoke here, so that each call must be settled, also
    under a ticket that sets no number. ``debit`` is the number that they know the call by which is
    being witnessed.
    """

    shared: bool
    debit: int | None

    def begin(self, root: str) -> None:
        """
        Count under a root ticket that was minted just now; ``root`` is its id.

        Raises:
            StoreError: its counts cannot be kept.
        """
        ...

    def settle(
        self,
        line: tuple[str, ...],
        cost: int,
        judge: Judge,
        *,
        limits: Limits = (),
        witness: Witness = unwitnessed,
    ) -> Decision:
        """
        Judge a call with the counts of its ticket's line, and debit it when it is allowed.

        Both happen as one step for every other user of this budget.

        Args:
            line: the ids of the ticket's links, root first.
            cost: how many calls it counts for, at least one.
            judge: is given one count per link, or None when they cannot be told; it only looks,
                and may be asked more than once.
            limits: the number of calls of each link, or None; what ``judge`` goes by as well.
            witness: is shown the decision once, before anything is debited for good, and may
                return a refusal in its place.
        """
        ...

    def spent(self, line: tuple[str, ...]) -> Counts:
        """Return the counts of a line, or None when they cannot be told."""
        ...


class MemoryBudget:
    """
    Counts for the threads of one process.

    A forked process gets no counts from it, since two copies would each allow the whole.

    >>> MemoryBudget({"0" * 16: 3}).spent(("0" * 16,))
    (3,)
    """

    shared = False
    debit: int | None = None

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts = dict(counts or {})
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def begin(self, root: str) -> None:
        """Nothing is kept of a root that made no call."""

    def settle(
        self,
        line: tuple[str, ...],
        cost: int,
        judge: Judge,
        *,
        limits: Limits = (),
        witness: Witness = unwitnessed,
    ) -> Decision:
        """Judge and debit as one step; see ``Budget``."""
        if os.getpid() != self._pid:
            return witness(_refused(judge(None)))
        with self._lock:
            counts = self._counts
            decision = witness(judge(tuple([counts.get(i, 0) for i in line])))
            if decision.refusal is None:
                for link in line:
                    counts[link] = counts.get(link, 0) + cost
            return decision

    def spent(self, line: tuple[str, ...]) -> Counts:
        """Return the counts of a line; None in a forked process."""
        if os.getpid() != self._pid:
            return None
        with self._lock:
            return tuple(self._counts.get(i, 0) for i in line)


class FileBudget:
    """
    Counts for every process that opens the same file; they survive each of them.

    The file must exist (``FileBudget.create``), be a plain file of this user and closed to
    others. Whatever else is found there means that nobody knows the counts: refuse.
    """

    shared = False
    debit: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: dict[str, int] = {}
        self._read_bytes = 0
        self._file: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @classmethod
    def create(cls, path: Path) -> FileBudget:
        """
        Make the file, empty of debits, for this user only.

        Raises:
            StoreError: it exists already, or cannot be made.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600)
            try:
                _write(fd, _HEADER)
            finally:
                os.close(fd)
        except OSError as error:
            raise StoreError(f"the budget `{path}` cannot be made: {error.strerror}") from error
        return cls(path)

    def begin(self, root: str) -> None:
        """Nothing is kept of a root that made no call."""

    def settle(
        self,
        line: tuple[str, ...],
        cost: int,
        judge: Judge,
        *,
        limits: Limits = (),
        witness: Witness = unwitnessed,
    ) -> Decision:
        """Judge and debit as one step; see ``Budget``."""
        with self._mutex():
            try:
                fd = self._open()
            except OSError:
                return witness(_refused(judge(None)))
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                counts = self._counts(fd, line)
                decision = witness(judge(counts) if counts is not None else _refused(judge(None)))
                if counts is None:
                    return decision
                if decision.refusal is None:
                    debit = f"{cost} {' '.join(line)}\n".encode()
                    _write(fd, debit)
                    self._add(_debits(debit) or {}, len(debit))
            except OSError:
                return UNTOLD
            else:
                return decision
            finally:
                _release(fd)

    def spent(self, line: tuple[str, ...]) -> Counts:
        """Return the counts of a line, or None when they cannot be told."""
        with self._mutex():
            try:
                fd = self._open()
            except OSError:
                return None
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
                return self._counts(fd, line)
            except OSError:
                return None
            finally:
                _release(fd)

    def _mutex(self) -> threading.Lock:
        # A lock that another thread held when this process was forked is never released here.
        if os.getpid() != self._pid:
            self._lock = threading.Lock()
            self._pid = os.getpid()
        return self._lock

    def _open(self) -> int:
        # Opened anew each time: a lock belongs to the open file, and forks would share it.
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self.path, flags)
        found = os.fstat(fd)
        if (
            not stat.S_ISREG(found.st_mode)
            or found.st_mode & 0o077
            or found.st_uid != os.geteuid()
            or found.st_nlink != 1
        ):
            os.close(fd)
            raise PermissionError("not a private plain file")
        return fd

    def _counts(self, fd: int, line: tuple[str, ...]) -> Counts:
        """Return the counts of a line. What was read before is not read again."""
        found = os.fstat(fd)
        if self._file is None:
            self._file = (found.st_dev, found.st_ino)
        if self._file != (found.st_dev, found.st_ino) or found.st_size < self._read_bytes:
            return None
        text = _read(fd, self._read_bytes, found.st_size)
        added = _debits(text[len(_HEADER) :]) if self._read_bytes == 0 else _debits(text)
        if added is None or (self._read_bytes == 0 and not text.startswith(_HEADER)):
            return None
        self._add(added, found.st_size - self._read_bytes)
        return tuple(self._seen.get(i, 0) for i in line)

    def _add(self, added: Mapping[str, int], size: int) -> None:
        for link, count in added.items():
            self._seen[link] = self._seen.get(link, 0) + count
        self._read_bytes += size


def rebuilt(debits: Iterable[tuple[tuple[str, ...], int]]) -> dict[str, int]:
    """
    Return the counts that a sequence of (line, cost) adds up to.

    >>> rebuilt([(("a", "b"), 1), (("a",), 2)])
    {'a': 3, 'b': 1}
    """
    counts: dict[str, int] = {}
    for line, cost in debits:
        for link in line:
            counts[link] = counts.get(link, 0) + cost
    return counts


def _refused(decision: Decision) -> Decision:
    return UNTOLD if decision.refusal is None else decision


def _debits(text: bytes) -> dict[str, int] | None:
    """Return what each link is debited in these lines, or None if they are not debits."""
    added: dict[str, int] = {}
    end = 0
    for found in _DEBIT.finditer(text):
        if found.start() != end:
            return None
        end = found.end()
        for link in found[2].decode().split():
            added[link] = added.get(link, 0) + int(found[1])
    return added if end == len(text) else None


def _read(fd: int, start: int, stop: int) -> bytes:
    parts = []
    while start < stop:
        part = os.pread(fd, stop - start, start)
        if not part:
            raise OSError("the file is shorter than it says")
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _release(fd: int) -> None:
    # Unlocked first: a process forked meanwhile has this open file too, and would keep the lock.
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _write(fd: int, text: bytes) -> None:
    """Append whole or not at all."""
    before = os.fstat(fd).st_size
    if os.write(fd, text) != len(text):
        os.ftruncate(fd, before)
        raise OSError("short write")
