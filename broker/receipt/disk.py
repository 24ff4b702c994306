"""
The few system calls a receipt needs, and the checks before a file is trusted.

Decided here: what makes a file or folder safe to believe, and which calls are durable. Not
decided here: what is in the files.

Rules a maintainer keeps:

- Every file of a receipt is opened through ``open_checked``: no link is followed, no device
  or pipe is waited for, and the checks look at the open file, never at its name alone.
- Whoever needs a failing disk in a test passes another ``Disk``; nothing is patched.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import StoreError, UnverifiableError

if sys.platform != "win32":
    import fcntl

OTHERS_WRITE = 0o022
BEYOND_OWNER = 0o177  # anything but reading and writing by the owner


def require_posix() -> None:
    """
    Refuse to go on where files cannot be locked and checked the way receipts need.

    Raises:
        StoreError: the system is not POSIX (``store.platform``).
    """
    if sys.platform == "win32":
        raise StoreError(
            "receipts need file locks and owners of a POSIX system; on Windows use WSL",
            code="store.platform",
        )


def sync(fd: int) -> None:
    """Return once the data of ``fd`` has reached the disk, not only the drive's cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif sys.platform != "win32":
        os.fdatasync(fd)


def lock(fd: int, *, shared: bool = False) -> None:
    """Wait for the lock on ``fd``, alone or shared; the kernel frees it when its holder dies."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def unlock(fd: int) -> None:
    """Give the lock back."""
    if sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_UN)


def pwrite(fd: int, content: bytes, place: int) -> int:
    """Write at a place; named here so that importing works where the system has no such call."""
    return os.pwrite(fd, content, place)


@dataclass(frozen=True, slots=True)
class Disk:
    """The calls that can fail on a full or broken disk; a test passes its own."""

    write: Callable[[int, bytes], int] = os.write
    pwrite: Callable[[int, bytes, int], int] = pwrite
    truncate: Callable[[int, int], None] = os.ftruncate
    sync: Callable[[int], None] = sync

    def write_all(self, fd: int, content: bytes) -> None:
        """Write ``content`` in as many calls as it takes. Not for lines: those take one."""
        view = content
        while view:
            view = view[self.write(fd, view) :]

    def sync_folder(self, folder: Path) -> None:
        """Make the names in ``folder`` durable."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def replace(self, path: Path, content: bytes) -> None:
        """Put ``content`` at ``path`` whole or not at all, mode 0600 from the first byte."""
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | CREATE, 0o600)
        try:
            self.write_all(fd, content)
            self.sync(fd)
        finally:
            os.close(fd)
        os.rename(fresh, path)
        self.sync_folder(path.parent)


DISK = Disk()
_REPLACED: Final = 5  # times that a file may be replaced while it is opened
SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
CREATE = os.O_CREAT | os.O_EXCL | SAFELY


def make_private_folder(folder: Path) -> None:
    """Create ``folder`` and those of its parents that are missing, for the owner alone."""
    # `parents=True` would make the parents with whatever the umask leaves open.
    for place in reversed((folder, *folder.parents)):
        if not place.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)


def open_checked(path: Path, what: str, *, flags: int = os.O_RDONLY, forbidden: int) -> int:
    """
    Open a file that must be safe to believe, and return its descriptor.

    Args:
        path: the file.
        what: what it is, for messages: ``receipt``, ``head``, ``key``.
        flags: how to open it; never creates.
        forbidden: mode bits that must not be set.

    Raises:
        UnverifiableError: missing, a link, not a regular file, more than one name, another
            owner, or a mode that lets others in.
    """
    for left in reversed(range(_REPLACED)):
        try:
            fd = os.open(path, flags | SAFELY)
        except OSError as error:
            raise _cannot_open(path, what, error) from error
        status = os.fstat(fd)
        if status.st_nlink or not left:
            break
        os.close(fd)  # another file has taken its name just now: that is the one to open
    try:
        check_file(status, path, what, forbidden)
    except UnverifiableError:
        os.close(fd)
        raise
    return fd


def _cannot_open(path: Path, what: str, error: OSError) -> UnverifiableError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UnverifiableError(f"there is no {what} at `{path}`", code="unverifiable.missing")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnverifiableError(
            f"the {what} `{path}` is a link: put the file itself there",
            code="unverifiable.symlink",
        )
    if error.errno in (errno.EISDIR, errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):
        return UnverifiableError(
            f"the {what} `{path}` is not a regular file", code="unverifiable.not_regular"
        )
    return UnverifiableError(
        f"the {what} `{path}` cannot be opened: {(error.strerror or 'unknown error').lower()}",
        code="unverifiable.unreadable",
    )


def said(error: OSError) -> str:
    """
    Return why the system refused, and what helps where that is known.

    >>> said(OSError(28, "No space left on device"))
    'no space left on device: free some, or set BROKER_HOME to a folder elsewhere'
    """
    why = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        free = "free some, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return f"{why}: {free}set BROKER_HOME to a folder elsewhere"
    return why


def check_file(status: os.stat_result, path: Path, what: str, forbidden: int) -> None:
    """
    Check an open file's kind, names, owner and mode.

    Raises:
        UnverifiableError: one of them is not as it must be.
    """
    if not stat.S_ISREG(status.st_mode):
        code, fault = "not_regular", "is not a regular file"
    elif status.st_nlink == 0:
        code, fault = "missing", "was removed"
    elif status.st_nlink != 1:
        code, fault = "hardlink", f"has {status.st_nlink} names: remove the other links"
    elif status.st_uid not in (os.geteuid(), 0):
        code, fault = "owner", f"belongs to user {status.st_uid}"
    elif status.st_mode & forbidden:
        mode = stat.S_IMODE(status.st_mode)
        code, fault = "mode", f"has mode {mode:04o}: set it with chmod 600"
    else:
        return
    raise UnverifiableError(f"the {what} `{path}` {fault}", code=f"unverifiable.{code}")


def check_folder(folder: Path, what: str) -> None:
    """
    Check that no other user can put files into ``folder``.

    Raises:
        UnverifiableError: missing, not a folder, another owner, or writable by others.
    """
    try:
        status = os.stat(folder)
    except OSError as error:
        raise _cannot_open(folder, what, error) from error
    if not stat.S_ISDIR(status.st_mode):
        code, fault = "folder", "is not a folder"
    elif status.st_uid not in (os.geteuid(), 0):
        code, fault = "folder", f"belongs to user {status.st_uid}"
    elif status.st_mode & OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        code, fault = "folder", f"has mode {mode:04o}: set it with chmod 700"
    else:
        return
    raise UnverifiableError(f"the {what} `{folder}` {fault}", code=f"unverifiable.{code}")


def check_unlinked(*folders: Path) -> None:
    """
    Check that none of the broker's own folders is a link to somewhere else.

    Links above them are the user's business: a home may lie on another disk.

    Raises:
        UnverifiableError: one is (``unverifiable.symlink``).
    """
    for folder in folders:
        if folder.is_symlink():
            raise UnverifiableError(
                f"the folder `{folder}` is a link: put the folder itself there",
                code="unverifiable.symlink",
            )
