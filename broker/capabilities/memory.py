"""
Files in memory: the fake of ``broker.capabilities.fs``, with writes that fail when a test says so.

Decided here: nothing that the real one does not decide; both pass the same tests.

A rule a maintainer keeps: a write that fails leaves behind what the real one leaves behind, which
is half of the content for ``write`` and nothing at all for the others.
"""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from broker.capabilities.fs import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    FileKind,
    FileStatus,
    no_file,
    parts_of,
)

_MAX_LINKS: Final = 40


@dataclass(slots=True)
class _Node:
    kind: FileKind
    mode: int
    content: bytes = b""  # of a link: where it leads


class MemoryFiles:
    """
    A file system in memory. Safe among threads.

    Args:
        files: the content of each file, by its absolute path; folders above are made.

    ``writes`` counts every operation that changes something, also those that failed.

    >>> files = MemoryFiles({"/ws/a.txt": b"one"})
    >>> files.fail_write(1, errno.ENOSPC)
    >>> files.below("/ws").append("a.txt", b" and two")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'a.txt'
    >>> files.below("/ws").read("a.txt", limit_bytes=10)
    b'one'
    """

    kind: ClassVar = "fake"

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.lock = threading.RLock()
        self.nodes: dict[str, _Node] = {"/": _Node("folder", 0o755)}
        self.writes = 0
        self._faults: dict[int, int] = {}
        for path, content in (files or {}).items():
            self._folders(posixpath.dirname(path), 0o755)
            self.nodes[path] = _Node("file", 0o644, content)

    def fail_write(self, nth: int, number: int = errno.EIO) -> None:
        """Let the ``nth`` change from now on (from 1) fail with an errno, such as ENOSPC."""
        with self.lock:
            self._faults[self.writes + nth] = number

    def link(self, path: str, target: str) -> None:
        """Put a symbolic link there, as somebody outside the harness would."""
        with self.lock:
            self._folders(posixpath.dirname(path), 0o755)
            self.nodes[path] = _Node("link", 0o777, target.encode())

    def real(self, path: str, start: str = "") -> str:
        """
        Return where a path leads: absolute, links followed; what is missing stays as spelled.

        A relative path starts from ``start``, a folder whose own path is known to hold no links.
        """
        with self.lock:
            whole = posixpath.join(start, path)
            waiting = [name for name in reversed(whole.split("/")) if name]
            place, links = "/", 0
            while waiting:
                name = waiting.pop()
                if name in (".", ".."):
                    place = posixpath.dirname(place) if name == ".." else place
                    continue
                there = posixpath.join(place, name)
                node = self.nodes.get(there)
                if node is None or node.kind != "link" or links == _MAX_LINKS:
                    place = there
                    continue
                links += 1
                target = node.content.decode()
                place = "/" if target.startswith("/") else place
                waiting += [part for part in reversed(target.split("/")) if part]
            return place

    def below(self, path: str) -> MemoryFolder:
        """Return the operations below a folder, which need not exist yet."""
        if not path.startswith("/"):
            raise OSError(errno.EINVAL, "not an absolute path", path)
        return MemoryFolder(self, posixpath.normpath(path))

    def failing(self) -> int | None:
        """Count a change, and return the errno that it is to fail with."""
        self.writes += 1
        return self._faults.pop(self.writes, None)

    def _folders(self, path: str, mode: int) -> None:
        while path not in self.nodes:
            self.nodes[path] = _Node("folder", mode)
            path = posixpath.dirname(path)


@dataclass(frozen=True, slots=True)
class MemoryFolder:
    """What can be done below one folder in memory."""

    files: MemoryFiles
    path: str

    def status(self, place: str) -> FileStatus | None:
        """Return what a place is, a link being a link; None when nothing is there."""
        with self.files.lock:
            parts = parts_of(place)
            try:
                self._folder(parts[:-1])
            except (FileNotFoundError, NotADirectoryError):
                return None
            node = self.files.nodes.get(self._at(parts))
            if node is None:
                return None
            return FileStatus(node.kind, len(node.content), node.mode)

    def names(self, place: str = ".") -> tuple[str, ...]:
        """Return the names in a folder, sorted."""
        with self.files.lock:
            above = self._folder(parts_of(place))
            found = (path for path in self.files.nodes if posixpath.dirname(path) == above)
            return tuple(sorted(posixpath.basename(path) for path in found if path != "/"))

    def entries(self, place: str = ".") -> tuple[tuple[str, FileStatus], ...]:
        """Return the names in a folder, sorted, and what each of them is."""
        with self.files.lock:
            above = parts_of(place)
            nodes = [
                (name, self.files.nodes[self._at((*above, name))]) for name in self.names(place)
            ]
            return tuple((name, FileStatus(n.kind, len(n.content), n.mode)) for name, n in nodes)

    def read(self, place: str, *, limit_bytes: int) -> bytes:
        """Return a regular file's content; EFBIG when there is more than ``limit_bytes``."""
        with self.files.lock:
            node = self._file(place)
            if node is None:
                raise _error(errno.ENOENT, place)
            if len(node.content) > limit_bytes:
                raise _error(errno.EFBIG, place)
            return node.content

    def write(self, place: str, content: bytes) -> None:
        """Write a regular file in place, as an editor does, with the folders above it."""
        with self.files.lock:
            self._make(parts_of(place)[:-1], 0o755, place)
            node = self._file(place)
            fault = self.files.failing()
            if node is None:
                node = self.files.nodes[self._at(parts_of(place))] = _Node("file", 0o644)
            node.content = content if fault is None else content[: len(content) // 2]
            _stop(fault, place)

    def create(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Put a new file there, whole or not at all; EEXIST when something is there."""
        with self.files.lock:
            path = self._named(place)
            _stop(self.files.failing(), place)
            if path in self.files.nodes:
                raise _error(errno.EEXIST, place)
            self.files.nodes[path] = _Node("file", mode, content)

    def replace(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Put a file there, in place of any before it, whole or not at all."""
        with self.files.lock:
            path = self._named(place)
            _stop(self.files.failing(), place)
            before = self.files.nodes.get(path)
            if before is not None and before.kind == "folder":
                raise _error(errno.EISDIR, place)
            self.files.nodes[path] = _Node("file", mode, content)

    def append(self, place: str, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
        """Write behind the end of a file, new or not, whole or not at all."""
        with self.files.lock:
            path = self._named(place)
            node = self._file(place)
            fault = self.files.failing()
            if node is None:
                node = self.files.nodes[path] = _Node("file", mode)
            _stop(fault, place)
            node.content += content

    def make(self, place: str = ".", *, mode: int = PRIVATE_FOLDER) -> None:
        """Make a folder where there is none, and those above it that are missing."""
        with self.files.lock:
            above = self.path
            missing = []
            while above not in self.files.nodes:
                missing.append(above)
                above = posixpath.dirname(above)
            for path in reversed(missing):
                _stop(self.files.failing(), place)
                self.files.nodes[path] = _Node("folder", mode)
            self._make(parts_of(place), mode, place)

    def remove(self, place: str) -> None:
        """Remove a file or a link."""
        with self.files.lock:
            path = self._named(place)
            _stop(self.files.failing(), place)
            node = self.files.nodes.get(path)
            if node is None:
                raise _error(errno.ENOENT, place)
            if node.kind == "folder":
                raise _error(errno.EISDIR, place)
            del self.files.nodes[path]

    def _at(self, parts: tuple[str, ...]) -> str:
        return posixpath.join(self.path, *parts)

    def _named(self, place: str) -> str:
        parts = parts_of(place)
        if not parts:
            raise no_file(place)
        return posixpath.join(self._folder(parts[:-1]), parts[-1])

    def _folder(self, parts: tuple[str, ...]) -> str:
        """Return the path of a folder, having followed no link below the root."""
        for n in range(len(parts) + 1):
            node = self.files.nodes.get(self._at(parts[:n]))
            if node is None:
                raise _error(errno.ENOENT, "/".join(parts[:n]) or self.path)
            if node.kind != "folder":
                raise _error(errno.ENOTDIR, "/".join(parts[:n]) or self.path)
        return self._at(parts)

    def _file(self, place: str) -> _Node | None:
        """Return a regular file, or None when nothing is there."""
        node = self.files.nodes.get(self._named(place))
        if node is not None and node.kind == "link":
            raise _error(errno.ELOOP, place)
        if node is not None and node.kind == "folder":
            raise _error(errno.EISDIR, place)
        if node is not None and node.kind != "file":
            raise no_file(place)
        return node

    def _make(self, parts: tuple[str, ...], mode: int, place: str) -> None:
        for n in range(1, len(parts) + 1):
            if self._at(parts[:n]) not in self.files.nodes:
                self._folder(parts[: n - 1])
                _stop(self.files.failing(), place)
                self.files.nodes[self._at(parts[:n])] = _Node("folder", mode)
        self._folder(parts)


def _error(number: int, place: str) -> OSError:
    return OSError(number, os.strerror(number), place)


def _stop(fault: int | None, place: str) -> None:
    if fault is not None:
        raise _error(fault, place)
