"""
Which entries of a workspace its ``.gitignore`` files leave out.

Decided here: how git is asked, since nobody else reads those files as git does. It is asked with a
repository of ours and the workspace as its work tree, and reads there nothing but ``.gitignore``
files, at every depth, in nested repositories too. What git tracks in spite of them is left out.

Rules a maintainer keeps: what cannot be asked is not ignored; git gets no setting of the person's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.capture.treestore import command, environ

_BATCH: Final = 64  # names in one question, and their bytes: what pipes take both ways
_BATCH_BYTES: Final = 16_384
_FAILURES: Final = 3
_FIELDS: Final = 4  # of an answer: the file, the line, the pattern, the name


class Ignoring:
    """
    Asks git about one workspace; ``close`` at the end.

    Args:
        git: the program.
        store: a repository of ours.
        root: the workspace.
    """

    def __init__(self, git: str, store: Path, root: bytes) -> None:
        self._git = git
        self._store = store
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._failures = 0

    @property
    def able(self) -> bool:
        """Whether git still answers."""
        return self._failures < _FAILURES

    def ignored(self, paths: Sequence[bytes]) -> set[bytes]:
        """Return those of the paths, within the workspace, that are ignored."""
        found: set[bytes] = set()
        for part in _parts(paths) if self.able else ():
            try:
                answers = self._ask(part)
            except (OSError, ValueError):
                self._failures += 1  # a folder has become a link meanwhile, say
                self.again()
            else:
                found.update(path for path, out in zip(part, answers, strict=True) if out)
        return found

    def again(self) -> None:
        """Forget what was read of ``.gitignore`` files: one of them has changed."""
        process, self._process = self._process, None
        self._rest = b""
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()

    close = again

    def _ask(self, paths: Sequence[bytes]) -> list[bool]:
        if self._process is None:
            self._process = subprocess.Popen(
                [
                    *command(self._git, self._store, f"--work-tree={os.fsdecode(self._root)}"),
                    *("check-ignore", "--no-index", "--stdin", "-z", "--verbose"),
                    "--non-matching",
                ],
                env=environ(str(self._store)),
                cwd=self._root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None  # noqa: S101 - both are pipes
        assert source is not None  # noqa: S101
        # `./` so that a name that begins with a colon is a name.
        sink.write(b"".join(b"./%s\0" % path for path in paths))
        sink.flush()
        fields: list[bytes] = self._rest.split(b"\0")
        while len(fields) <= _FIELDS * len(paths):
            more = os.read(source.fileno(), 65_536)
            if not more:
                raise OSError("git ended")
            head = fields.pop()
            fields += (head + more).split(b"\0")
        self._rest = fields.pop()
        # A pattern that begins with `!` takes back what another one says.
        return [
            bool(fields[at]) and not fields[at + 2].startswith(b"!")
            for at in range(0, _FIELDS * len(paths), _FIELDS)
        ]


def _parts(paths: Sequence[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for path in paths:
        if part and (len(part) == _BATCH or size + len(path) > _BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(path)
        size += len(path)
    if part:
        yield part
