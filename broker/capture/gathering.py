"""
What lies in a workspace, and what of it is new since the last look.

Decided here: how a workspace is walked, which entries are left out, and when a file is read again.
Not decided here: names and contents that are withheld (``broker.capture.withheld``), what
``.gitignore`` says (``broker.capture.ignoring``), how a tree is written
(``broker.capture.treestore``).

A file is read again when the time of its last change (which no program can set), its size or its
number differ from those it was read with, or when it was changed so shortly before it was read that
a later change may bear the same time. What lies in a
nested repository is kept without its ``.git``, and no ``.git`` is ever looked into. A link is kept
as a link and never followed.

Rules a maintainer keeps: a file is opened from the workspace down, part by part, and no part may be
a link; what is no file or link is never opened; what is left out is counted by its reason.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from broker.capture.treestore import TreeEntry
from broker.capture.withheld import cleared, told, withheld
from broker.redaction.hiding import Hider

MAX_FILE_BYTES: Final = 8 * 2**20  # of a file that is kept
MAX_TREE_BYTES: Final = 2**30  # of all files of a tree
MAX_FILES: Final = 200_000
_TRIES: Final = 3  # how often a file is read that is being written
_UNSURE_NS: Final = 20_000_000  # within which two writes may bear the same time
_GIT: Final = b".git"
_IGNORES: Final = b".gitignore"

Ignored = Callable[[Sequence[bytes]], "set[bytes]"]


Stamp = tuple[int, int, int]  # the change of the status, the size, the number: what tells a file


@dataclass(slots=True)
class Known:
    """
    One file of the last look: its stamp, and how it stands in the tree.

    ``why`` is the reason why it is left out. A stamp of None is that of no file.
    """

    stamp: Stamp | None
    mode: str = ""
    oid: str = ""
    size: int = 0
    why: str = ""
    hidden: bool = False
    torn: bool = False


@dataclass(slots=True)
class WorkspaceLook:
    """What one look found: what differs from the tree of before, and what was left out."""

    entries: list[TreeEntry] = field(default_factory=list)
    files: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    hidden: int = 0
    torn: int = 0
    empty: list[bytes] = field(default_factory=list)  # folders with nothing in them


@dataclass(slots=True)
class _Walk:
    """One walk: what is as it was, what must be met, and what was left out for where it lies."""

    known: dict[bytes, dict[bytes, Known]] = field(default_factory=dict)
    same: int = 0
    fresh: list[tuple[bytes, os.stat_result]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    empty: list[bytes] = field(default_factory=list)
    files: int = 0
    bytes: int = 0


class Gatherer:
    """
    Looks at one workspace again and again.

    Args:
        root: the workspace, links followed.
        closed: absolute paths that are left out with all that is in them.
        ignored: returns which of some paths are ignored.
        again: is called when a ``.gitignore`` has changed.
        keep: takes a content, and returns the name of its object.
        salt: for the placeholders of secrets; see ``broker.redaction.hiding``.
    """

    def __init__(
        self,
        root: bytes,
        *,
        closed: Iterable[bytes],
        ignored: Ignored,
        again: Callable[[], None],
        keep: Callable[[bytes], str],
        salt: bytes = b"",
    ) -> None:
        self._root = root.rstrip(b"/") + b"/"
        self._closed = frozenset(_below(self._root, closed))
        self._ignored = ignored
        self._again = again
        self._keep = keep
        self._salt = salt
        self._known: dict[bytes, dict[bytes, Known]] = {}  # by folder, and by name in it
        self._count = 0
        self._verdicts: dict[bytes, bool] = {}  # whether a folder or file is ignored
        self._ignores: dict[bytes, Stamp | None] = {}  # by folder, its list of that
        self._left_out: Counter[str] = Counter()
        self._in_tree: dict[bytes, tuple[str, str]] = {}  # mode and object of what the tree holds
        self._last = WorkspaceLook()

    def look(self) -> WorkspaceLook:
        """Return what the workspace holds now."""
        walk = self._walked(trusted=bool(self._known))
        if walk is None:
            self._verdicts.clear()
            self._again()
            walk = self._walked(trusted=False)
            assert walk is not None  # noqa: S101 - only a trusted one breaks off
        if not walk.fresh and walk.same == self._count and walk.left_out == self._left_out:
            return replace(self._last, entries=[], empty=sorted(walk.empty))
        for files in walk.known.values():
            walk.files += len(files)
            walk.bytes += sum(each.size for each in files.values())
        for path, status in walk.fresh:
            self._meet(path, status, walk)
        self._known, self._left_out = walk.known, walk.left_out
        self._count = sum(map(len, self._known.values()))
        self._last = self._counted()
        return replace(self._last, entries=self._settled(), empty=sorted(walk.empty))

    # ── walking ──

    def _walked(self, *, trusted: bool) -> _Walk | None:
        """
        Visit every folder.

        Args:
            trusted: what is known is not ignored. Where that turns out to be wrong, since a list
                of what is has changed, the walk breaks off and None is returned.
        """
        walk = _Walk()
        waiting = [b""]
        while waiting:
            if not self._folder(waiting.pop(), walk, waiting, trusted):
                return None
        return walk

    def _folder(self, folder: bytes, walk: _Walk, waiting: list[bytes], trusted: bool) -> bool:
        """Visit a folder. Nearly everything is as it was, so that costs as little as can be."""
        before, stay = self._known.get(folder, {}), dict[bytes, Known]()
        others: list[tuple[bytes, os.stat_result | None]] = []
        ignores: Stamp | None = None
        try:
            entries = os.scandir(self._root + folder)
        except OSError:
            walk.left_out["unreadable"] += 1
            return True
        with entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        others.append((folder + name, None))
                        continue
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # it has gone
                stamp = (status.st_ctime_ns, status.st_size, status.st_ino)
                if name == _IGNORES:
                    ignores = stamp
                found = before.get(name)
                if trusted and found is not None and found.stamp == stamp:
                    stay[name] = found
                else:
                    others.append((folder + name, status))
        if ignores != self._ignores.get(folder):
            if trusted:
                return False
            self._ignores[folder] = ignores
        if stay:
            walk.known[folder] = stay
            walk.same += len(stay)
        elif folder and not others:
            walk.empty.append(folder.rstrip(b"/"))
        self._sort(others, walk, waiting)
        return True

    def _sort(
        self,
        entries: Sequence[tuple[bytes, os.stat_result | None]],
        walk: _Walk,
        waiting: list[bytes],
    ) -> None:
        """Leave out what is ignored or closed; visit folders, and meet files after all of that."""
        entries = [each for each in entries if self._open(each[0])]
        verdicts = self._verdicts
        fresh = [path for path, _ in entries if path not in verdicts]
        if fresh:
            out = self._ignored(fresh)
            verdicts.update((path, path in out) for path in fresh)
        for path, status in entries:
            if verdicts[path]:
                walk.left_out["ignored"] += 1
            elif status is None:
                waiting.append(path + b"/")
            else:
                walk.fresh.append((path, status))

    def _open(self, path: bytes) -> bool:
        return path.rpartition(b"/")[2].lower() != _GIT and path not in self._closed

    def _meet(self, path: bytes, status: os.stat_result, walk: _Walk) -> None:
        """Read a file, if it is another than the one that is known."""
        above, slash, name = path.rpartition(b"/")
        found = self._known.get(above + slash, {}).get(name)
        if found is None or found.stamp != _stamp(status):
            size = status.st_size if status.st_size <= MAX_FILE_BYTES else 0
            full = walk.files >= MAX_FILES or walk.bytes + size > MAX_TREE_BYTES
            found = Known(_stamp(status), why="too_much") if full else self._read(path, status)
        walk.bytes += found.size
        walk.files += not found.why
        walk.known.setdefault(above + slash, {})[name] = found

    def _counted(self) -> WorkspaceLook:
        found = WorkspaceLook(left_out=Counter(self._left_out))
        for files in self._known.values():
            for each in files.values():
                if each.why:
                    found.left_out[each.why] += 1
                else:
                    found.files += 1
                    found.hidden += each.hidden
                    found.torn += each.torn
        return found

    def _settled(self) -> list[TreeEntry]:
        """Return what differs from the tree of before."""
        tree = {
            folder + name: (each.mode, each.oid)
            for folder, files in self._known.items()
            for name, each in files.items()
            if not each.why
        }
        old, self._in_tree = self._in_tree, tree
        # What goes comes first: a folder may stand where a file was, or the other way round.
        gone = [TreeEntry(path) for path in old if path not in tree]
        return gone + [
            TreeEntry(path, *said) for path, said in tree.items() if old.get(path) != said
        ]

    # ── reading ──

    def _read(self, path: bytes, status: os.stat_result) -> Known:
        stamp = _stamp(status)
        name = os.fsdecode(path)
        mode = status.st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            return Known(stamp, why="no_file")
        if not told(name) or b"\0" in path:
            return Known(stamp, why="by_path")
        try:
            if stat.S_ISLNK(mode):
                return self._link(path, stamp)
            if withheld(name):
                return Known(stamp, why="by_name")
            if status.st_size > MAX_FILE_BYTES:
                return Known(stamp, why="too_large")
            return self._file(path, name)
        except OSError:
            return Known(None, why="unreadable")

    def _link(self, path: bytes, stamp: Stamp) -> Known:
        target = os.readlink(self._root + path)
        if not told(os.fsdecode(target)):
            return Known(stamp, why="by_path")
        return Known(stamp, "120000", self._keep(target), len(target))

    def _file(self, path: bytes, name: str) -> Known:
        for _ in range(_TRIES):
            began_ns = time.time_ns()
            fd = open_beneath(self._root, path)
            try:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    return Known(None, why="no_file")
                content = _content(fd)
                after = os.fstat(fd)
            finally:
                os.close(fd)
            torn = _stamp(before) != _stamp(after) or len(content) != after.st_size
            if not torn:
                break
        if len(content) > MAX_FILE_BYTES:
            return Known(None, why="too_large")
        kept = cleared(name, content, Hider(self._salt))
        if kept is None:
            return Known(_stamp(after), why="by_content")
        recent = after.st_ctime_ns > began_ns - _UNSURE_NS
        return Known(
            None if torn or recent else _stamp(after),
            "100755" if after.st_mode & 0o100 else "100644",
            self._keep(kept),
            len(kept),
            hidden=kept != content,
            torn=torn,
        )


def open_beneath(root: bytes, path: bytes) -> int:
    """
    Open a file for reading, where no part of its path below ``root`` is a link.

    Raises:
        OSError: it is not there, or a part of its path is a link.
    """
    *folders, name = path.split(b"/")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(
                folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at
            )
            os.close(at)
            at = inner
        # Not to wait for the other end of what has become a pipe meanwhile.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=at)
    finally:
        os.close(at)


def _content(fd: int) -> bytes:
    """Read a file, and one byte more than is kept of any."""
    parts = []
    left = MAX_FILE_BYTES + 1
    while left > 0 and (part := os.read(fd, min(left, 2**20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ctime_ns, status.st_size, status.st_ino


def _below(root: bytes, closed: Iterable[bytes]) -> Iterable[bytes]:
    return (path[len(root) :] for path in closed if path.startswith(root))
