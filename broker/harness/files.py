"""
Files of one workspace, opened so that a link swapped in later is not followed.

Decided here: how a path becomes a place in the workspace, and how that place is opened. Not
decided here: whether it may be; the session has said so before.

A path is first *located*: its links are followed to the place they lead to. The place is then
opened component by component from the workspace root, and no link is followed any more. So a
link that is swapped in between the decision and the opening makes the call fail.

Rules a maintainer keeps: everything is opened through ``_opened``; nothing outside the
workspace is opened at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from broker.errors import BrokerError
from broker.limits import MAX_FILE_BYTES

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class ToolError(BrokerError):
    """A tool could not do what it was asked; the message goes back to the model."""

    code = "tool"


@dataclass(frozen=True, slots=True)
class Files:
    """
    The files below ``root``, which is an absolute path without links.

    >>> import tempfile
    >>> files = Files(os.path.realpath(tempfile.mkdtemp()))
    >>> files.write("src/a.txt", b"one")
    >>> files.read(files.locate("./src/../src/a.txt"))
    b'one'
    """

    root: str

    def locate(self, spelled: str) -> str:
        """
        Return the place in the workspace that a path leads to, relative to the root.

        Raises:
            ToolError: the path is empty or odd, or leads out of the workspace.
        """
        if not spelled or "\0" in spelled or spelled.startswith("~"):
            raise ToolError(f"`{spelled}` is not a path in the workspace")
        try:
            place = os.path.realpath(os.path.join(self.root, spelled))
        except (OSError, ValueError) as error:
            raise ToolError(f"`{spelled}` cannot be read as a path") from error
        if place == self.root:
            return "."
        if not place.startswith(self.root.rstrip("/") + "/"):
            raise ToolError(f"`{spelled}` lies outside the workspace")
        return os.path.relpath(place, self.root)

    def read(self, place: str) -> bytes:
        """
        Return the content of one file.

        Raises:
            ToolError: it is no regular file, cannot be read, or exceeds MAX_FILE_BYTES.
        """
        with self._opened(place, os.O_RDONLY) as handle:
            if os.fstat(handle).st_size > MAX_FILE_BYTES:
                raise ToolError(f"`{place}` is larger than {MAX_FILE_BYTES} bytes")
            with os.fdopen(os.dup(handle), "rb") as file:
                return file.read(MAX_FILE_BYTES)

    def write(self, place: str, content: bytes) -> None:
        """
        Write one file, creating it and the folders above it where they are missing.

        Raises:
            ToolError: it is no regular file or cannot be written.
        """
        with (
            self._opened(place, os.O_WRONLY | os.O_CREAT, make=True) as handle,
            os.fdopen(os.dup(handle), "wb") as file,
        ):
            file.truncate(0)
            file.write(content)

    def walk(self, place: str) -> Iterator[str]:
        """
        Yield the files at and below a place, sorted; links and ``.git`` are left out.

        Raises:
            ToolError: there is no such file or folder.
        """
        top = os.path.join(self.root, place) if place != "." else self.root
        if os.path.isfile(top):
            yield place
            return
        if not os.path.isdir(top):
            raise ToolError(f"there is no `{place}`")
        for folder, below, names in os.walk(top, followlinks=False):
            below[:] = sorted(name for name in below if name != ".git")
            for name in sorted(names):
                path = os.path.join(folder, name)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield os.path.relpath(path, self.root)

    @contextmanager
    def _opened(self, place: str, flags: int, *, make: bool = False) -> Iterator[int]:
        """Open a place component by component, following no link on the way."""
        *folders, name = place.split("/")
        held: list[int] = []
        try:
            held.append(os.open(self.root, _FOLDER))
            for folder in folders:
                if make:
                    _make_folder(folder, held[-1])
                held.append(os.open(folder, _FOLDER, dir_fd=held[-1]))
            held.append(os.open(name, flags | _FILE, 0o666, dir_fd=held[-1]))
            if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
                raise ToolError(f"`{place}` is not a file")
            yield held[-1]
        except OSError as error:
            raise ToolError(f"`{place}`: {(error.strerror or str(error)).lower()}") from error
        finally:
            for handle in reversed(held):
                os.close(handle)


def _make_folder(name: str, parent: int) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return
