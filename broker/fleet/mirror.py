"""
Putting receipts elsewhere: what is signed here and not there yet.

Decided here: what is put and in which order, how a pass goes on where an earlier one was cut off,
and what is remembered here of what is there. Not decided here: when a pass is made
(``broker.fleet.background``), how a store is asked (``broker.fleet.target``).

A chain is mirrored up to its checkpoint, so that whatever lies there can be verified by who holds
no secret. The ledger's checkpoint is read first and the ledger put last, and only once every line
that its rows name is there: so a mirror never lacks what its own ledger tells of.

    state/mirror/<16 hex of the address>/<sid>     how many lines of a session are there
    state/mirror/<16 hex of the address>/_ledger   the same of the ledger

Rules a maintainer keeps: nothing that decides a call runs here or waits for what does; what is
remembered is only for telling, and before a chain is gone on with the store is asked what it has;
one process of an installation puts at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

from broker.errors import BrokerError, InputError, StoreError, UnverifiableError
from broker.fleet.layout import LEDGER, SESSIONS, Stretch, mirrored, note_name
from broker.fleet.target import Target
from broker.home import Home
from broker.receipt import disk
from broker.receipt.checkpoint import Checkpoint, read_checkpoint
from broker.receipt.entry import check_sid
from broker.receipt.ledger import CHECKPOINT_NAME, LEDGER_NAME
from broker.receipt.store import RECEIPT_NAME

MAX_STRETCH_BYTES: Final = 8 * 2**20  # of one object, but for a line that is longer
_NAMING: Final = frozenset(("begin", "head", "end", "adopt"))  # rows that name lines of a session


@dataclass(frozen=True, slots=True)
class Put:
    """What became of one chain: how many lines are there, and what was wrong, if anything was."""

    of: str
    lines: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Noted:
    """A chain that has a checkpoint: where its lines lie, and what is signed of them."""

    of: str
    path: Path
    place: tuple[str, ...]
    note: bytes
    lines: int


class Mirror:
    """
    The receipts of one installation at one store.

    Args:
        home: whose receipts.
        target: where they go.
    """

    def __init__(self, home: Home, target: Target) -> None:
        self._home, self._target = home, target
        self._memory = memory_folder(home, target.url)
        self._stamps: dict[str, int] = {}  # of checkpoints that were gone on with, by this object

    def push(self) -> Iterator[Put]:
        """
        Put what is not there yet; yield what became of each chain that was gone on with.

        Raises:
            UnverifiableError: there is no ledger to name this installation by, or it is unsafe.
            StoreError: another process puts at this moment, or nothing can be remembered.
        """
        with self._alone():
            installation = installation_name(self._home)
            ledger = self._noted(LEDGER, installation)
            for sid in _sessions(self._home):
                stamp = _stamp(self._home.checkpoints / sid)
                if self._stamps.get(sid) == stamp:
                    continue  # most sessions are over, and a pass is made every few seconds
                noted = self._noted(sid, installation)
                put = None
                if noted is not None and noted.lines > self.remembered(sid):
                    put = self._put(noted)
                    yield put
                if put is None or not put.fault:
                    self._stamps[sid] = stamp
            if ledger is None or ledger.lines <= self.remembered(LEDGER):
                return
            waits = self._waits_for(ledger)
            if waits:
                yield Put(LEDGER, self.remembered(LEDGER), f"it waits for session `{waits}`")
            else:
                yield self._put(ledger)

    def remembered(self, of: str) -> int:
        """Return how many lines of a session, or of the ledger, were put there."""
        return _remembered(self._memory, of)

    def left(self) -> Iterator[tuple[str, int, int]]:
        """
        Yield each chain of which signed lines are not there yet: its name, lines there, and lines.

        Raises:
            UnverifiableError: a file is unsafe.
        """
        for of in (*_sessions(self._home), LEDGER):
            noted = self._noted(of, "")
            if noted is not None and noted.lines > self.remembered(of):
                yield of, self.remembered(of), noted.lines

    # ── one chain ──

    def _noted(self, of: str, installation: str) -> _Noted | None:
        if of == LEDGER:
            path, note = self._home.ledger / LEDGER_NAME, self._home.ledger / CHECKPOINT_NAME
            place: tuple[str, ...] = (installation, LEDGER)
        else:
            path, note = self._home.sessions / of / RECEIPT_NAME, self._home.checkpoints / of
            place = (installation, SESSIONS, of)
        try:
            content = read_checkpoint(note)
        except UnverifiableError as error:
            if error.code == "unverifiable.missing":
                return None
            raise
        # Unverified here: whoever verifies the mirror does it with a key that they hold.
        text = content.decode("utf-8", "replace").rpartition("\n\n")[0] + "\n"
        return _Noted(of, path, place, content, Checkpoint.parse(text).size)

    def _put(self, noted: _Noted) -> Put:
        at = self.remembered(noted.of)
        try:
            there = mirrored(
                {n: s for n, s in self._target.folder(*noted.place).items() if s is not None}
            )
            at = there.lines
            if at < noted.lines:
                for stretch, content in stretches(noted.path, there.size_bytes, at, noted.lines):
                    self._target.put(content, *noted.place, stretch.name)
                    at = stretch.end
            if at == noted.lines:
                self._target.put(noted.note, *noted.place, note_name(noted.lines))
            self._remember(noted.of, at)
        except BrokerError as error:
            return Put(noted.of, at, error.message)
        return Put(noted.of, at)

    def _waits_for(self, ledger: _Noted) -> str:
        """Return a session of which the ledger's new rows name lines that are not there yet."""
        known = self.remembered(LEDGER)  # what these rows name was looked at before
        with open(ledger.path, "rb") as rows:
            for row in islice(rows, known, ledger.lines):
                found = json.loads(row)
                data = found["data"]
                if found["kind"] in _NAMING and "sid" in data:
                    sid = check_sid(data["sid"])
                    if int(data.get("n", 1)) > self.remembered(sid) and not self._gone(sid):
                        return sid
        return ""

    def _gone(self, sid: str) -> bool:
        """Whether a session was taken away here, so that no more of it can ever be put."""
        return not os.path.lexists(self._home.sessions / sid / RECEIPT_NAME)

    # ── what is remembered ──

    def _remember(self, of: str, lines: int) -> None:
        try:
            disk.DISK.replace(self._memory / _memory_name(of), f"{lines}\n".encode())
        except OSError as error:
            raise StoreError(f"`{self._memory}` cannot be written: {disk.said(error)}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            disk.make_private_folder(self._memory)
            held = os.open(self._memory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"`{self._memory}` cannot be made: {disk.said(error)}") from error
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreError(
                    "another process mirrors at this moment", code="store.mirroring"
                ) from error
            yield
        finally:
            os.close(held)


def memory_folder(home: Home, url: str) -> Path:
    """Return where it is remembered what lies at an address."""
    return home.state / "mirror" / sha256(url.encode()).hexdigest()[:16]


def unmirrored(home: Home, url: str, sid: str, lines: int) -> str:
    """
    Return what to say of a session of which not every line is elsewhere; empty where each is.

    Args:
        home: where it lies.
        url: where it is mirrored to.
        sid: its name.
        lines: how many lines it has here.
    """
    there = _remembered(memory_folder(home, url), sid)
    return f"{there} of {lines} lines are mirrored at {url} so far" if there < lines else ""


def installation_name(home: Home) -> str:
    """
    Return what an installation is called in a mirror: the beginning of its first row's hash.

    Raises:
        UnverifiableError: there is no ledger, or it is unsafe.
    """
    path = home.ledger / LEDGER_NAME
    with open(disk.open_checked(path, "ledger", forbidden=disk.OTHERS_WRITE), "rb") as rows:
        first = rows.readline()
    if not first.endswith(b"\n"):
        raise UnverifiableError(f"the ledger `{path}` has no row", code="unverifiable.nothing")
    return sha256(first[:-1]).hexdigest()[:16]


def stretches(path: Path, offset: int, first: int, end: int) -> Iterator[tuple[Stretch, bytes]]:
    """
    Yield the lines of a file from ``first`` up to ``end``, in stretches.

    Args:
        path: the file.
        offset: where line ``first`` begins, in bytes.
        first, end: numbers of lines, from 0.

    Raises:
        StoreError: the file has fewer lines, or line ``first`` does not begin there.
        UnverifiableError: it is missing or unsafe.
    """
    fd = disk.open_checked(path, "receipt", forbidden=disk.OTHERS_WRITE)
    with open(fd, "rb") as lines:
        if offset:
            lines.seek(offset - 1)
            if lines.read(1) != b"\n":
                raise StoreError(f"`{path}` is another file than the one that lies in the mirror")
        held, size, start = [], 0, first
        for number in range(first, end):
            line = lines.readline()
            if not line.endswith(b"\n"):
                raise StoreError(f"`{path}` has fewer lines than its checkpoint covers")
            held.append(line)
            size += len(line)
            if size >= MAX_STRETCH_BYTES or number == end - 1:
                yield Stretch(start, number + 1, size), b"".join(held)
                held, size, start = [], 0, number + 1


def _sessions(home: Home) -> list[str]:
    """Return the sessions that have a checkpoint."""
    found = []
    for path in sorted(home.checkpoints.iterdir()) if home.checkpoints.is_dir() else ():
        try:
            found.append(check_sid(path.name))
        except InputError:
            continue
    return found


def _stamp(path: Path) -> int:
    """Return when a checkpoint was put in its place; 0 where it is gone."""
    try:
        return path.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _memory_name(of: str) -> str:
    return "_ledger" if of == LEDGER else of


def _remembered(folder: Path, of: str) -> int:
    try:
        text = (folder / _memory_name(of)).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.strip().isdecimal() and len(text) < 20 else 0
