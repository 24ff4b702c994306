"""
A bare git store of the run's own, which trees are written into and compared in.

Decided here: how git is started and what it is told. Not decided here: which files there are
(``broker.capture.gathering``) and what is kept of them (``broker.capture.withheld``).

git never looks at the workspace here. It is handed bytes and names on its standard input
(``git fast-import``), so no attribute, filter, hook, monitor or setting of the person's repository
can run or change anything, and nothing there is locked or touched.

Rules a maintainer keeps: every git process gets the environment that ``environ`` makes and no
other; names go in quoted and come out behind zeros; a store that failed once is not written again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from broker.errors import TraceError

CLOSE_S: Final = 10.0
EMPTY: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the tree without a file
REF: Final = "refs/heads/world"
MAX_DIFFS_BYTES: Final = 4 * 2**20  # of the differences of one turn; what is beyond is left out
MAX_DIFF_BYTES: Final = 2**18  # of one file's
_QUOTED: Final = re.compile(rb'[\\"\n]')
_PART: Final = re.compile(rb"^diff --git ", re.MULTILINE)
_STATUS: Final = {"A": "added", "D": "deleted"}
# No setting of a person or of the system counts, and what could run a program is off.
_SETTINGS: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null"),
    *("-c", "gc.auto=0", "-c", "core.compression=1", "-c", "init.defaultBranch=world"),
)


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a tree: its path, and its mode and object; no object for one that has gone."""

    path: bytes
    mode: str = ""
    oid: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """
    How one file differs between two trees.

    ``insertions`` and ``deletions`` are None for what is no text. ``diff`` is empty for that, and
    where it was too long.
    """

    path: bytes
    status: str
    insertions: int | None
    deletions: int | None
    diff: bytes = b""


def git_program() -> str | None:
    """Return where git is; None where there is none."""
    return shutil.which("git")


def environ(home: str) -> dict[str, str]:
    """
    Return the environment of every git that we start.

    Args:
        home: a folder of ours, which stands for the person's.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "XDG_CONFIG_HOME": home,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_DEFAULT_HASH": "sha1",
    }


def command(git: str, folder: Path, *words: str, settings: Sequence[str] = ()) -> list[str]:
    """Return a command of git about a store."""
    return [git, *_SETTINGS, *settings, f"--git-dir={folder}", *words]


def object_name(content: bytes) -> str:
    """
    Return the name by which git knows a content.

    >>> object_name(b"hello")
    'b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0'
    """
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


class TreeStore:
    """
    Writes trees. ``blob`` and then ``tree``, for each snapshot, and at the end ``close``.

    Args:
        folder: where the store lies; it is made where it is missing.
        git: the program.

    Raises:
        TraceError: git cannot be started, or cannot make the store.
    """

    def __init__(self, folder: Path, git: str) -> None:
        self.folder = folder
        self._git = git
        self._environ = environ(str(folder))
        self._stored: set[str] = set()
        self._commits = 0
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._run("init", "--quiet", "--bare", "--template=", str(folder))
            reply, told = os.pipe()
            try:
                self._process = subprocess.Popen(
                    command(
                        git, folder, "fast-import", "--quiet", "--done", f"--cat-blob-fd={told}"
                    ),
                    env=self._environ,
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(told,),
                )
            finally:
                os.close(told)
        except OSError as error:
            raise TraceError(f"git cannot keep snapshots: {error.strerror or error}") from error
        self._replies = os.fdopen(reply, "rb")

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        return self._process.stdin

    def blob(self, content: bytes) -> str:
        """
        Keep a content, and return its name.

        Raises:
            TraceError: git has gone.
        """
        oid = object_name(content)
        if oid not in self._stored:
            self._say(b"blob\ndata %d\n" % len(content), content, b"\n")
            self._stored.add(oid)
        return oid

    def tree(self, entries: Iterable[TreeEntry], at_s: int, message: str) -> str:
        """
        Change the tree of before, and return the new one's name once it is on the disk.

        Args:
            entries: what is new, other, or gone.
            at_s: the instant, in seconds since 1970.
            message: what a person reads of it in ``git log``.

        Raises:
            TraceError: git has gone, or refuses.
        """
        said = message.encode()
        self._commits += 1
        self._say(
            b"commit %s\nmark :%d\n" % (REF.encode(), self._commits),
            b"committer capability-broker <> %d +0000\n" % at_s,
            b"data %d\n%s\n" % (len(said), said),
        )
        for each in entries:
            name = quoted(each.path)
            if each.oid:
                self._say(b"M %s %s %s\n" % (each.mode.encode(), each.oid.encode(), name))
            else:
                self._say(b"D %s\n" % name)
        # What is written so far is readable for others, whatever becomes of us, before we answer.
        self._say(b'\ncheckpoint\n\nls :%d ""\n' % self._commits)
        try:
            self._input.flush()
        except (OSError, ValueError) as error:
            raise self._gone() from error
        found = self._replies.readline().split()
        if len(found) == 3 and found[1] == b"tree":
            return found[2].decode()
        if found[:1] == [b"missing"]:
            return EMPTY
        raise self._gone()

    def changes(self, before: str, after: str) -> list[Change]:
        """
        Return how two trees differ, in the order of their paths.

        Raises:
            TraceError: git cannot say.
        """
        plain = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")
        listed = self._run(*plain, "-z", "--raw", "--numstat", before, after)
        found = read_changes(listed)
        told = self._run(
            *(*plain, "-p", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/"),
            *(before, after),
            limit=MAX_DIFFS_BYTES,
        )
        return with_diffs(found, told)

    def close(self) -> None:
        """Let git finish what it has, and wait for it."""
        with suppress(OSError, ValueError):
            self._input.write(b"done\n")
            self._input.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._replies.close()

    def _say(self, *parts: bytes) -> None:
        try:
            for part in parts:
                self._input.write(part)
        except (OSError, ValueError) as error:
            raise self._gone() from error

    def _gone(self) -> TraceError:
        return TraceError("git keeps no more snapshots: it ended, or the disk is full")

    def _run(self, *words: str, limit: int | None = None) -> bytes:
        """Run git about this store, and return what it says, up to a limit."""
        with subprocess.Popen(
            command(self._git, self.folder, *words),
            env=self._environ,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            said = process.stdout.read(-1 if limit is None else limit)
            cut = limit is not None and len(said) == limit
            if cut:
                process.kill()
        if process.returncode and not cut:
            raise TraceError(f"`git {words[0]}` failed in the store of the snapshots")
        return said


def quoted(path: bytes) -> bytes:
    """
    Return a path as fast-import reads it, whatever is in it.

    >>> quoted(b'a "b"\\n')
    b'"a \\\\"b\\\\"\\\\n"'
    """
    return b'"' + _QUOTED.sub(lambda m: b"\\n" if m[0] == b"\n" else b"\\" + m[0], path) + b'"'


def read_changes(listed: bytes) -> list[Change]:
    """
    Read what ``git diff-tree -z --raw --numstat`` says.

    >>> read_changes(b":100644 100644 a b M\\0x\\0" + b"2\\t1\\tx\\0")
    [Change(path=b'x', status='modified', insertions=2, deletions=1, diff=b'')]
    """
    status: dict[bytes, str] = {}
    found = []
    fields = iter(listed.split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            letter = field.rpartition(b" ")[2][:1].decode()
            status[next(fields, b"")] = _STATUS.get(letter, "modified")
        elif field:
            more, less, path = field.split(b"\t", 2)
            found.append(Change(path, status.get(path, "modified"), _number(more), _number(less)))
    return found


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def with_diffs(changes: Sequence[Change], told: bytes) -> list[Change]:
    """
    Give each change its part of a patch, where the patch is long enough.

    A patch lists files in the order of the changes; the last part of one that was cut is left out.
    """
    starts = [found.start() for found in _PART.finditer(told)]
    parts = [told[a:b] for a, b in zip(starts, [*starts[1:], len(told)], strict=True)]
    if len(told) >= MAX_DIFFS_BYTES:
        parts = parts[:-1]
    elif len(parts) != len(changes):
        return list(changes)
    parts += [b""] * (len(changes) - len(parts))
    return [
        replace(change, diff=part) if len(part) <= MAX_DIFF_BYTES and _is_text(change) else change
        for change, part in zip(changes, parts, strict=True)
    ]


def _is_text(change: Change) -> bool:
    return change.insertions is not None
