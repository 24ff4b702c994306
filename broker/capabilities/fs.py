"""
Files: what lies below a folder, read and written without following a link.

Decided here: which operations on files the harness and its records have, and what each promises
when the disk is full or the machine stops. Not decided here: which files may be touched.

A folder is opened by its path and everything below it by a *place*: names joined by ``/``, or
``.`` for the folder itself. A place is opened name by name and no link on the way is followed, so
a link that is swapped in after a decision makes the operation fail. ``real`` says beforehand where
a spelled path leads.

Rules a maintainer keeps: what fails raises ``OSError`` with its ``errno``, in the real one and in
the fake alike; ``create``, ``replace`` and ``append`` happen whole or not at all, and are on the
disk when they return; a new file has its mode from the first byte.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol

from broker.receipt.disk import DISK, Disk

FileKind = Literal["file", "folder", "link", "other"]

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_FILE: Final = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What a place is; ``mode`` are its permission bits."""

    kind: FileKind
    size_bytes: int
    mode: int


class Folder(Protocol):
    """What can be done below one folder. Every operation raises ``OSError`` when it fails."""

    @property
    def path(self) -> str:
        """The folder itself, as it was given."""

    def status(self, place: str) -> FileStatus | None:
        """Return what a place is, a link being a link; None when nothing is there."""

    def names(self, place: str = ".") -> tuple[str, ...]:
        """Return the names in a folder, sorted."""

    def entries(self, place: str = ".") -> tuple[tuple[str, FileStatus], ...]:
        """Return the names in a folder, sorted, and what each of them is."""

    def read(self, place: str, *, limit_bytes: int) -> bytes:
        """Return a regular file's content; EFBIG when there is more than ``limit_bytes``."""

    def write(self, place: str, content: bytes) -> None:
        """Write a regular file in place, as an editor does, with the folders above it."""

    def create(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Put a new file there, whole or not at all; EEXIST when something is there."""

    def replace(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Put a file there, in place of any before it, whole or not at all."""

    def append(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Write behind the end of a file, new or not, whole or not at all."""

    def make(self, place: str = ".", *, mode: int = PRIVATE_FOLDER) -> None:
        """Make a folder where there is none, and those above it that are missing."""

    def remove(self, place: str) -> None:
        """Remove a file or a link."""


class FileSystem(Protocol):
    """What leads to folders."""

    @property
    def kind(self) -> str:
        """Which file system this is: ``real`` or ``fake``."""

    def real(self, path: str, start: str = "") -> str:
        """
        Return where a path leads: absolute, links followed; what is missing stays as spelled.

        A relative path starts from ``start``, a folder whose own path is known to hold no links.
        """

    def below(self, path: str) -> Folder:
        """Return the operations below a folder, which need not exist yet."""


def parts_of(place: str) -> tuple[str, ...]:
    """
    Return the names of a place; none for the folder itself.

    Raises:
        OSError: it is no place (EINVAL): absolute, empty, or with ``.`` or ``..`` in it.

    >>> parts_of("a/b"), parts_of(".")
    (('a', 'b'), ())
    """
    if place == ".":
        return ()
    parts = tuple(place.split("/"))
    if "\0" in place or any(part in ("", ".", "..") for part in parts):
        raise OSError(errno.EINVAL, "not a place below the folder", place)
    return parts


def no_file(place: str) -> OSError:
    """Return the error for something that is read or written and is no regular file."""
    return OSError(errno.EINVAL, "not a regular file", place)


@dataclass(frozen=True, slots=True)
class SystemFiles:
    """
    The machine's own files.

    >>> import tempfile
    >>> folder = SystemFiles().below(os.path.realpath(tempfile.mkdtemp()))
    >>> folder.create("a.txt", b"one")
    >>> folder.read("a.txt", limit_bytes=10), folder.status("a.txt")
    (b'one', FileStatus(kind='file', size_bytes=3, mode=384))
    """

    kind: ClassVar = "real"
    disk: Disk = DISK

    def real(self, path: str, start: str = "") -> str:
        """
        Return where a path leads: absolute, links followed; what is missing stays as spelled.

        A relative path starts from ``start``, a folder whose own path is known to hold no links.
        """
        plain = start and not path.startswith("/") and ".." not in path
        return _plainly(start, path) if plain else os.path.realpath(os.path.join(start, path))

    def below(self, path: str) -> SystemFolder:
        """Return the operations below a folder, which need not exist yet."""
        if not os.path.isabs(path):
            raise OSError(errno.EINVAL, "not an absolute path", path)
        return SystemFolder(path, self.disk)


def _plainly(start: str, path: str) -> str:
    """Follow a relative path without ``..``, looking at nothing above its start."""
    place = start.rstrip("/")
    there = True
    for name in path.split("/"):
        if name in ("", "."):
            continue
        place = f"{place}/{name}"
        if there:
            try:
                mode = os.lstat(place).st_mode
            except (FileNotFoundError, NotADirectoryError):
                there = False
            else:
                if stat.S_ISLNK(mode):
                    return os.path.realpath(os.path.join(start, path))
    return place or "/"


@dataclass(frozen=True, slots=True)
class SystemFolder:
    """What can be done below one folder of the machine."""

    path: str
    disk: Disk = field(default=DISK)

    def status(self, place: str) -> FileStatus | None:
        """Return what a place is, a link being a link; None when nothing is there."""
        try:
            if not (parts := parts_of(place)):
                found = os.lstat(self.path)
            else:
                with self._folder(parts[:-1]) as above:
                    found = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _status(found)

    def names(self, place: str = ".") -> tuple[str, ...]:
        """Return the names in a folder, sorted."""
        with self._folder(parts_of(place)) as handle:
            return tuple(sorted(os.listdir(handle)))

    def entries(self, place: str = ".") -> tuple[tuple[str, FileStatus], ...]:
        """Return the names in a folder, sorted, and what each of them is."""
        found = []
        with self._folder(parts_of(place)) as handle:
            for name in sorted(os.listdir(handle)):
                with contextlib.suppress(FileNotFoundError):  # it went meanwhile
                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    found.append((name, _status(status)))
        return tuple(found)

    def read(self, place: str, *, limit_bytes: int) -> bytes:
        """Return a regular file's content; EFBIG when there is more than ``limit_bytes``."""
        with self._opened(place, os.O_RDONLY) as handle:
            if os.fstat(handle).st_size > limit_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), place)
            kept = bytearray()
            while chunk := os.read(handle, min(limit_bytes + 1 - len(kept), 2**20)):
                kept += chunk
                if len(kept) > limit_bytes:  # it grew meanwhile
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), place)
            return bytes(kept)

    def write(self, place: str, content: bytes) -> None:
        """Write a regular file in place, as an editor does, with the folders above it."""
        with self._opened(place, os.O_WRONLY | os.O_CREAT, 0o666, make=0o777) as handle:
            os.ftruncate(handle, 0)
            self.disk.write_all(handle, content)

    def create(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Put a new file there, whole or not at all; EEXIST when something is there."""

        def publish(fresh: str, name: str, above: int) -> None:
            os.link(fresh, name, src_dir_fd=above, dst_dir_fd=above, follow_symlinks=False)

        self._put(place, content, mode, publish)

    def replace(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Put a file there, in place of any before it, whole or not at all."""

        def publish(fresh: str, name: str, above: int) -> None:
            os.rename(fresh, name, src_dir_fd=above, dst_dir_fd=above)

        self._put(place, content, mode, publish)

    def append(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Write behind the end of a file, new or not, whole or not at all."""
        with self._opened(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode) as handle:
            before = os.fstat(handle).st_size
            try:
                self.disk.write_all(handle, content)
                self.disk.sync(handle)
            except OSError:
                with contextlib.suppress(OSError):  # the first error is the one to tell
                    self.disk.truncate(handle, before)
                raise
        if not before:
            with self._folder(parts_of(place)[:-1]) as above:
                self.disk.sync(above)

    def make(self, place: str = ".", *, mode: int = PRIVATE_FOLDER) -> None:
        """Make a folder where there is none, and those above it that are missing."""
        missing = []
        top = self.path
        while not os.path.lexists(top):
            missing.append(top)
            top = os.path.dirname(top)
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode)
        with self._folder(parts_of(place), make=mode):
            return

    def remove(self, place: str) -> None:
        """Remove a file or a link."""
        with self._above(place) as (above, name):
            os.unlink(name, dir_fd=above)

    def _put(
        self, place: str, content: bytes, mode: int, publish: Callable[[str, str, int], None]
    ) -> None:
        """Write a file under a name of its own, then give it its name in one step."""
        with self._above(place) as (above, name):
            fresh = f".{secrets.token_hex(8)}.new"
            handle = os.open(
                fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=above
            )
            try:
                try:
                    self.disk.write_all(handle, content)
                    self.disk.sync(handle)
                finally:
                    os.close(handle)
                publish(fresh, name, above)
            finally:
                with contextlib.suppress(FileNotFoundError):  # it was renamed
                    os.unlink(fresh, dir_fd=above)
            self.disk.sync(above)

    @contextmanager
    def _above(self, place: str) -> Iterator[tuple[int, str]]:
        parts = parts_of(place)
        if not parts:
            raise no_file(place)
        with self._folder(parts[:-1]) as above:
            yield above, parts[-1]

    @contextmanager
    def _folder(self, parts: tuple[str, ...], make: int | None = None) -> Iterator[int]:
        """Open a folder name by name, following no link on the way."""
        handle = os.open(self.path, _FOLDER)
        try:
            for name in parts:
                if make is not None:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, make, dir_fd=handle)
                below = os.open(name, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _opened(
        self, place: str, flags: int, mode: int = PRIVATE_FILE, *, make: int | None = None
    ) -> Iterator[int]:
        """Open a regular file; nothing else is waited for or written to."""
        parts = parts_of(place)
        if not parts:
            raise no_file(place)
        with self._folder(parts[:-1], make) as above:
            handle = os.open(parts[-1], flags | _FILE, mode, dir_fd=above)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise no_file(place)
            yield handle
        finally:
            os.close(handle)


def _status(found: os.stat_result) -> FileStatus:
    return FileStatus(_kind(found.st_mode), found.st_size, stat.S_IMODE(found.st_mode))


def _kind(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
