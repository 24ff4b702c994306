"""
Opening a file of a run without following anything that is not one.

Decided here: what counts as a file of a run. A run may come from anybody, so a link could lead to a
secret, and a pipe could hold a reader forever. Not decided here: what is in the file.

Rule a maintainer keeps: every file of a run that is read is opened here; each step of the way below
the run's folder is opened without following a link.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from broker.errors import TraceError

NOT_THERE: Final = "trace.missing"
_STEP: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = _STEP | getattr(os, "O_DIRECTORY", 0)
_FILE: Final = _STEP | getattr(os, "O_NONBLOCK", 0)  # a pipe must not make anybody wait


def open_inside(folder: Path, *steps: str) -> int:
    """
    Open a regular file below a folder to read, and return its descriptor.

    Args:
        folder: the run's folder.
        steps: the names on the way, the file's own last; none holds a slash.

    Raises:
        TraceError: it is not there (``trace.missing``), is a link or no regular file, or cannot
            be opened.
    """
    what = "/".join(steps)
    here = -1
    try:
        here = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC)
        for step in steps[:-1]:
            below = os.open(step, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        fd = os.open(steps[-1], _FILE, dir_fd=here)
    except FileNotFoundError:
        raise TraceError(f"there is no `{what}` in `{folder}`", code=NOT_THERE) from None
    except OSError as error:
        raise TraceError(
            f"`{what}` in `{folder}` cannot be opened, or is a link: {error.strerror}",
            code="trace.unsafe",
        ) from None
    finally:
        if here >= 0:
            os.close(here)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise TraceError(f"`{what}` in `{folder}` is no regular file", code="trace.unsafe")
    return fd


def read_inside(folder: Path, *steps: str, limit: int) -> bytes:
    """
    Return the content of a regular file below a folder.

    Raises:
        TraceError: as ``open_inside``; or it has more than ``limit`` bytes, or cannot be read.
    """
    fd = open_inside(folder, *steps)
    try:
        with os.fdopen(fd, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise TraceError(f"`{'/'.join(steps)}` cannot be read: {error.strerror}") from None
    if len(content) > limit:
        raise TraceError(
            f"`{'/'.join(steps)}` in `{folder}` has more than {limit} bytes", code="trace.limit"
        )
    return content
