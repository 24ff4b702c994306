"""
A folder brought from one snapshot to a later one, where a replay runs no command itself.

Decided here: that only what differs between the two is touched, and nothing of that which the
folder holds already. Not decided here: when (``broker.replay.answering``), what a snapshot holds
(``broker.capture.gathering``).

What the agent did by itself in a replay is there already, so mostly nothing is written. What a
snapshot never held (what is ignored, say) is neither in one tree nor in the other, and stays.

Rules a maintainer keeps: as for ``broker.capture.restoring``, since an agent acts in that folder:
no link is followed, and no name leads out; what cannot be brought there is counted and left.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from broker.capture.restoring import (
    FILE_MODES,
    LINK_MODE,
    check_name,
    object_of,
    open_folder,
    within,
)
from broker.capture.treestore import command, environ, git_program
from broker.errors import TraceError

_NOTHING: Final = b"000000"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Advanced:
    """What was written, what was removed, and the names of what could not be brought there."""

    written: int = 0
    removed: int = 0
    left: tuple[str, ...] = ()


def advance(
    store: Path,
    before: str,
    after: str,
    into: Path,
    leave: Callable[[bytes], bool] = lambda _: False,
) -> Advanced:
    """
    Bring a folder that is as one snapshot says to what a later one says.

    Args:
        store: the folder ``fs`` of a run.
        before: the earlier tree, a name of 40 hex digits.
        after: the later one.
        into: the folder.
        leave: whether a path is not to be touched.

    Raises:
        TraceError: the store does not hold both trees, or the folder is gone.
    """
    git = git_program()
    if git is None:
        raise TraceError("there is no `git` to read the snapshots with")
    rows = [row for row in _rows(git, store, before, after) if not leave(row[2])]
    if not rows:
        return Advanced()
    try:
        root = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TraceError(f"`{into}` cannot be opened: {error.strerror}") from error
    try:
        return _brought(git, store, rows, root)
    finally:
        os.close(root)


def _rows(git: str, store: Path, before: str, after: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield mode, object and path of what differs; the mode of nothing for what has gone."""
    trees = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
    done = subprocess.run(
        command(git, store, *trees),
        env=environ(os.fspath(store)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise TraceError(f"`{store}` does not hold the trees {before} and {after}")
    fields = iter(done.stdout.split(b"\0"))
    for head in fields:
        if not head.startswith(b":"):
            break
        _, mode, _, oid, _ = head[1:].split(b" ")
        path = next(fields)
        check_name(path)
        yield mode, oid, path


def _brought(git: str, store: Path, rows: list[tuple[bytes, bytes, bytes]], root: int) -> Advanced:
    written = removed = 0
    left: list[str] = []
    with subprocess.Popen(
        command(git, store, "cat-file", "--batch"),
        env=environ(os.fspath(store)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        # What goes comes first, since a folder may stand where a file stood.
        for mode, oid, path in sorted(rows, key=lambda row: row[0] != _NOTHING):
            try:
                if mode == _NOTHING:
                    removed += _removed(root, path)
                    continue
                content = _content(process.stdin, process.stdout, oid)
                written += _written(root, path, mode, content)
            except OSError:
                left.append(path.decode("utf-8", "backslashreplace"))
        process.stdin.close()
    return Advanced(written, removed, tuple(left))


def _content(asked: IO[bytes], said: IO[bytes], oid: bytes) -> bytes:
    asked.write(oid + b"\n")
    asked.flush()
    return object_of(said)


def _removed(root: int, path: bytes) -> bool:
    """Remove a file or a link, and the folders that are empty without it; whether it was there."""
    folder, _, name = path.rpartition(b"/")
    try:
        at = _folder_there(root, folder)
    except OSError:
        return False  # there is no such folder any more: so it has gone
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        return False
    finally:
        os.close(at)
    while folder:
        above, _, name = folder.rpartition(b"/")
        at = _folder_there(root, above)
        try:
            os.rmdir(name, dir_fd=at)
        except OSError:
            break  # something is left in it
        finally:
            os.close(at)
        folder = above
    return True


def _folder_there(root: int, folder: bytes) -> int:
    """
    Return a descriptor of a folder, no part of whose name is a link.

    Raises:
        OSError: there is none.
    """
    at = os.dup(root)
    for part in filter(None, folder.split(b"/")):
        try:
            inner = os.open(part, _FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def _written(root: int, path: bytes, mode: bytes, content: bytes) -> bool:
    """Put a file or a link where it is to be; whether it was not there already."""
    if mode != LINK_MODE and mode not in FILE_MODES:
        raise OSError(f"an entry of the kind {mode.decode('ascii')}")
    if mode == LINK_MODE and not within(path, content):
        raise OSError("a link that leads out")
    name = path.rpartition(b"/")[2]
    at = open_folder(root, path)
    try:
        if _is_there(at, name, mode, content):
            return False
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)
        if mode == LINK_MODE:
            os.symlink(content, name, dir_fd=at)
            return True
        with os.fdopen(os.open(name, _NEW, FILE_MODES[mode], dir_fd=at), "wb") as file:
            file.write(content)
        return True
    finally:
        os.close(at)


def _is_there(at: int, name: bytes, mode: bytes, content: bytes) -> bool:
    """Whether a folder has this content by this name."""
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if mode == LINK_MODE:
            return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=at) == content
        if not stat.S_ISREG(found.st_mode) or found.st_size != len(content):
            return False
        if bool(found.st_mode & stat.S_IXUSR) != bool(FILE_MODES[mode] & stat.S_IXUSR):
            return False
        with os.fdopen(os.open(name, _READ, dir_fd=at), "rb") as file:
            return file.read() == content
    except OSError:
        return False
