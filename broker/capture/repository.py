"""
Where the repository of a workspace stands: its branch, and the commit.

Decided here: how that is read from the repository's files. git itself is not started: it would read
the repository's settings, which may name programs. Not decided here: what a replay makes of it
(``broker.replay.repository``).

Rules a maintainer keeps: nothing here raises, and nothing is written; what is not understood is no
repository.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from broker.trace.about import GitState

_OID: Final = re.compile(r"[0-9a-f]{40}")
_REF: Final = re.compile(r"ref: refs/heads/(?P<branch>[^\x00-\x20~^:?*\[\\]{1,250})")
_MAX_BYTES: Final = 8 * 2**20  # of a file with the names of all branches
_SHORT_BYTES: Final = 4_096


def git_state(workspace: Path) -> GitState | None:
    """
    Return where a workspace's own repository stands; None where it has none.

    Args:
        workspace: its top folder, with a `.git`: a folder, or a file that names one.

    >>> git_state(Path("/nowhere")) is None
    True
    """
    own = _folder(workspace / ".git")
    said = None if own is None else _text(own / "HEAD", _SHORT_BYTES)
    if own is None or said is None:
        return None
    if _OID.fullmatch(said):
        return GitState(said)
    found = _REF.fullmatch(said)
    if found is None:
        return None
    branch = found["branch"]
    return GitState(_commit(_shared(own), f"refs/heads/{branch}"), branch)


def _folder(place: Path) -> Path | None:
    """Return the folder that a `.git` is, or names (gitrepository-layout(5))."""
    if place.is_dir():
        return place
    said = _text(place, _SHORT_BYTES)
    if said is None or not said.startswith("gitdir: "):
        return None
    return Path(os.path.normpath(place.parent / said.removeprefix("gitdir: ")))


def _shared(own: Path) -> Path:
    """Return the folder with the branches, which several working trees share."""
    said = _text(own / "commondir", _SHORT_BYTES)
    return own if said is None else Path(os.path.normpath(own / said))


def _commit(folder: Path, ref: str) -> str:
    """Return the commit of a branch; empty for one that has none yet."""
    loose = _text(folder / ref, _SHORT_BYTES)
    if loose is not None:
        return loose if _OID.fullmatch(loose) else ""
    for line in (_text(folder / "packed-refs", _MAX_BYTES) or "").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _OID.fullmatch(commit):
            return commit
    return ""


def _text(place: Path, most: int) -> str | None:
    """Return what a regular file says, without the end of its line."""
    try:
        fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        try:
            content = file.read(most + 1)
            return content.decode().rstrip("\n") if len(content) <= most else None
        except (OSError, UnicodeDecodeError):
            return None
