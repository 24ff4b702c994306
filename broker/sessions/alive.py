"""
Whether the broker of a session still runs.

Decided here: that a living session holds a lock on a file in its folder, and that a file nobody
holds means an abandoned session. A process number would not do: numbers are used again, and
mean nothing in another namespace. The kernel gives a lock back however its holder ends.

Rules a maintainer keeps: the lock is taken before the receipt begins and given back after it is
sealed, so that no living session is ever taken for an abandoned one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.errors import StoreError
from broker.receipt import disk

LOCK_NAME: Final = "alive"


class Alive:
    """The lock of one living session; made by ``hold``."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def hold(cls, folder: Path, *, create: bool = True) -> Alive:
        """
        Take the lock of the session in ``folder``.

        Args:
            folder: the session's folder.
            create: make the file where there is none.

        Raises:
            StoreError: another process holds it (`store.alive`), or it cannot be opened.
        """
        path = folder / LOCK_NAME
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(f"`{path}` cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            message = f"session `{folder.name}` is running in another process"
            raise StoreError(message, code="store.alive") from error
        return cls(path, fd)

    @classmethod
    def begin(cls, folder: Path) -> Alive:
        """
        Make the folder of a new session, for its owner alone, and take its lock.

        Raises:
            StoreError: it cannot be made, or is there already.
        """
        try:
            disk.make_private_folder(folder.parent)
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise StoreError(f"`{folder}` cannot be made: {disk.said(error)}") from error
        return cls.hold(folder)

    def release(self) -> None:
        """Say that this session is over: remove the file and give the lock back."""
        if self._fd >= 0:
            self._path.unlink(missing_ok=True)
            self.drop()

    def drop(self) -> None:
        """Give the lock back and leave the file: the session was not brought to an end."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def abandoned(sessions: Path) -> Iterator[tuple[str, Alive]]:
    """
    Yield each session in the folder that was never ended and that nobody runs, with its lock.
    """
    try:
        names = sorted(os.listdir(sessions))
    except OSError:
        return
    for name in names:
        if os.path.lexists(sessions / name / LOCK_NAME):
            try:
                lock = Alive.hold(sessions / name, create=False)
            except StoreError:
                continue
            yield name, lock


def running(sessions: Path) -> list[str]:
    """Return the names of the sessions in the folder that some process runs now."""
    found = []
    for path in sorted(sessions.glob(f"*/{LOCK_NAME}")):
        try:
            lock = Alive.hold(path.parent, create=False)
        except StoreError as error:
            if error.code == "store.alive":
                found.append(path.parent.name)
        else:
            lock.drop()
    return found
