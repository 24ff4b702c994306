"""
Files of one workspace, opened so that a link swapped in later is not followed.

Decided here: how a path becomes a place in the workspace, and which files a search passes over.
Not decided here: whether it may be touched (the session has said so before), and how it is opened
(``broker.capabilities.fs``).

A path is first *located*: its links are followed to the place they lead to. The place is then
opened component by component from the workspace root, and no link is followed any more. So a
link that is swapped in between the decision and the opening makes the call fail.

Rules a maintainer keeps: nothing outside the workspace is opened at all; what a search reads is
never a file that holds credentials, since nobody was asked about that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from errno import EFBIG

from broker.capabilities.fs import FileSystem, Folder
from broker.errors import BrokerError
from broker.limits import MAX_FILE_BYTES
from broker.permissions.places import holds_credentials


class ToolError(BrokerError):
    """A tool could not do what it was asked; the message goes back to the model."""

    code = "tool"


@dataclass(frozen=True, slots=True)
class Files:
    """
    The files below ``root``, which is an absolute path without links.

    >>> from broker.capabilities.memory import MemoryFiles
    >>> files = Files(MemoryFiles({"/ws/a.txt": b""}), "/ws")
    >>> files.write("src/a.txt", b"one")
    >>> files.read(files.locate("./src/../src/a.txt"))
    b'one'
    """

    fs: FileSystem
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
            place = self.fs.real(spelled, self.root)
        except (OSError, ValueError) as error:
            raise ToolError(f"`{spelled}` cannot be read as a path") from error
        if place == self.root:
            return "."
        if not place.startswith(self.root.rstrip("/") + "/"):
            raise ToolError(f"`{spelled}` lies outside the workspace")
        return place.removeprefix(self.root.rstrip("/") + "/")

    def read(self, place: str) -> bytes:
        """
        Return the content of one file.

        Raises:
            ToolError: it is no regular file, cannot be read, or exceeds MAX_FILE_BYTES.
        """
        try:
            return self._below().read(place, limit_bytes=MAX_FILE_BYTES)
        except OSError as error:
            raise _said(place, error) from error

    def write(self, place: str, content: bytes) -> None:
        """
        Write one file, creating it and the folders above it where they are missing.

        Raises:
            ToolError: it is no regular file or cannot be written.
        """
        try:
            self._below().write(place, content)
        except OSError as error:
            raise _said(place, error) from error

    def walk(self, place: str) -> Iterator[str]:
        """
        Yield the files at and below a place, sorted.

        Links, ``.git`` and files that hold credentials are left out.

        Raises:
            ToolError: there is no such file or folder.
        """
        folder = self._below()
        try:
            found = folder.status(place)
        except OSError as error:
            raise _said(place, error) from error
        if found is None or found.kind not in ("file", "folder"):
            raise ToolError(f"there is no `{place}`")
        if found.kind == "file":
            yield place
            return
        yield from self._walk(folder, place)

    def _walk(self, folder: Folder, place: str) -> Iterator[str]:
        try:
            entries = folder.entries(place)
        except OSError:
            return  # not for this user to list, or replaced by a link meanwhile
        kept = []
        for name, status in entries:
            below = name if place == "." else f"{place}/{name}"
            if not holds_credentials(below):
                kept.append((below, name, status.kind))
        yield from (below for below, _, kind in kept if kind == "file")
        for below, name, kind in kept:
            if kind == "folder" and name != ".git":
                yield from self._walk(folder, below)

    def _below(self) -> Folder:
        return self.fs.below(self.root)


def _said(place: str, error: OSError) -> ToolError:
    if error.errno == EFBIG:
        return ToolError(f"`{place}` is larger than {MAX_FILE_BYTES} bytes")
    return ToolError(f"`{place}`: {(error.strerror or str(error)).lower()}")
