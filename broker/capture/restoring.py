"""
A snapshot laid out again, in a folder that is made for it.

Decided here: where a tree may be laid out and what of it is left out. Not decided here: what is in
it (``broker.capture.gathering``).

A store may come from elsewhere, so nothing in it is trusted: a name that leads out of the folder,
or into a ``.git``, is an error; a link that leads out of the tree is left out and named, since what
runs in the copy would follow it into the person's own files.

Rules a maintainer keeps: the folder is new or empty; every file is new; links come last, so that
none is followed on the way; the store's own settings never run anything.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from broker.capture.treestore import EMPTY, command, environ, git_program
from broker.errors import InputError, TraceError

_TREE: Final = re.compile(r"[0-9a-f]{40}")
LINK_MODE: Final = b"120000"
FILE_MODES: Final = {b"100644": 0o600, b"100755": 0o700}


@dataclass(frozen=True, slots=True)
class Restored:
    """What was laid out: the number of files and links, and the links that were left out."""

    files: int
    links: int
    left_out: tuple[str, ...]


def restore(store: Path, tree: str, into: Path) -> Restored:
    """
    Lay a snapshot out.

    Args:
        store: the folder ``fs`` of a run.
        tree: the ``tree`` of one of its ``fs.snapshot`` events.
        into: a folder that is empty, or not there yet.

    Raises:
        InputError: ``into`` holds something, or ``tree`` is no name of a tree.
        TraceError: the store does not hold the tree, or holds a name that leads elsewhere.
    """
    git = git_program()
    if git is None:
        raise TraceError("there is no `git` to read the snapshot with")
    if _TREE.fullmatch(tree) is None:
        raise InputError(f"`{tree[:60]}` is no tree: 40 hex digits name one")
    root = _made(into)
    try:
        rows = list(_rows(git, store, tree))
        return _laid_out(git, store, rows, root, into)
    except OSError as error:
        raise TraceError(
            f"the snapshot cannot be laid out in `{into}`: {error.strerror}"
        ) from error
    finally:
        os.close(root)


def restore_folders(names: Iterable[object], into: Path) -> None:
    """
    Make the folders that had nothing in them, which no tree has.

    Args:
        names: the ``empty_folders`` of an ``fs.snapshot`` event, from wherever it came.
        into: the folder that its tree was laid out in.

    Raises:
        TraceError: one leads elsewhere, or cannot be made.
    """
    root = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in names:
            path = os.fsencode(name) if isinstance(name, str) else b""
            check_name(path)
            os.close(open_folder(root, path + b"/"))
    except OSError as error:
        raise TraceError(f"an empty folder cannot be made: {error.strerror}") from error
    finally:
        os.close(root)


def _made(into: Path) -> int:
    """Return a descriptor of the folder, which is empty and no link."""
    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"`{into}` cannot be used: {(error.strerror or '').lower()}") from error
    if os.listdir(root):
        os.close(root)
        raise InputError(f"`{into}` is not empty: name a folder that is")
    return root


def _rows(git: str, store: Path, tree: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield mode, object and path of everything in a tree."""
    if tree == EMPTY:
        return
    listed = subprocess.run(
        command(git, store, "ls-tree", "-r", "-z", "--full-tree", tree),
        env=environ(os.fspath(store)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        raise TraceError(f"`{store}` does not hold the tree {tree}")
    for row in filter(None, listed.stdout.split(b"\0")):
        head, _, path = row.partition(b"\t")
        mode, _, oid = head.split(b" ")
        if mode != LINK_MODE and mode not in FILE_MODES:
            raise TraceError(f"the snapshot holds an entry of the kind {mode.decode('ascii')}")
        check_name(path)
        yield mode, oid, path


def check_name(path: bytes) -> None:
    """
    Check that a name of a snapshot lies in the folder that it is laid out in.

    Raises:
        TraceError: it leads elsewhere, or into a repository.
    """
    for part in path.split(b"/"):
        if part in (b"", b".", b"..") or part.lower() == b".git":
            shown = path.decode("utf-8", "backslashreplace")
            raise TraceError(f"the snapshot holds a name that leads elsewhere: `{shown}`")


def _laid_out(
    git: str, store: Path, rows: list[tuple[bytes, bytes, bytes]], root: int, into: Path
) -> Restored:
    links: list[tuple[bytes, bytes]] = []
    files = 0
    with subprocess.Popen(
        command(git, store, "cat-file", "--batch"),
        env=environ(os.fspath(store)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        for mode, oid, path in rows:
            process.stdin.write(oid + b"\n")
            process.stdin.flush()
            content = object_of(process.stdout)
            if mode == LINK_MODE:
                links.append((path, content))
            else:
                _put(root, path, content, FILE_MODES[mode])
                files += 1
        process.stdin.close()
    left_out = [path for path, target in links if not within(path, target)]
    kept = [path for path, target in links if within(path, target)]
    targets = dict(links)
    for path in kept:
        folder = open_folder(root, path)
        try:
            os.symlink(targets[path], path.rpartition(b"/")[2], dir_fd=folder)
        finally:
            os.close(folder)
    # By way of another link even a harmless text may lead out.
    out = [path for path in kept if not _inside(into, path)]
    for path in out:
        (into / os.fsdecode(path)).unlink()
    shown = sorted(path.decode("utf-8", "backslashreplace") for path in (*left_out, *out))
    return Restored(files, len(kept) - len(out), tuple(shown))


def _inside(into: Path, path: bytes) -> bool:
    top = os.path.realpath(into)
    found = os.path.realpath(os.path.join(top, os.fsdecode(path)))
    return found == top or found.startswith(top + os.sep)


def within(path: bytes, target: bytes) -> bool:
    """
    Whether a link leads to a place in its own tree, as its text says.

    >>> within(b"a/b", b"../c"), within(b"a/b", b"../../c"), within(b"a", b"/etc/passwd")
    (True, False, False)
    """
    if not target or target.startswith(b"/"):
        return False
    # Part by part, since `..` behind another link leads where that one leads.
    at = path.count(b"/")
    for part in target.split(b"/"):
        at += {b"..": -1, b".": 0, b"": 0}.get(part, 1)
        if at < 0:
            return False
    return b".git" not in posixpath.normpath(target).lower().split(b"/")


def object_of(said: IO[bytes]) -> bytes:
    """
    Read one object that ``git cat-file --batch`` gives.

    Raises:
        TraceError: it is missing.
    """
    head = said.readline().split()
    if len(head) != 3 or head[1] != b"blob":
        raise TraceError("the snapshot is incomplete: an object of its is missing")
    content = said.read(int(head[2]))
    said.read(1)
    return content


def _put(root: int, path: bytes, content: bytes, mode: int) -> None:
    folder = open_folder(root, path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        name = path.rpartition(b"/")[2]
        with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
            file.write(content)
    finally:
        os.close(folder)


def open_folder(root: int, path: bytes) -> int:
    """Return a descriptor of the folder that a path lies in, made where it is missing."""
    at = os.dup(root)
    for part in path.split(b"/")[:-1]:
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=at)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            inner = os.open(part, flags, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at
