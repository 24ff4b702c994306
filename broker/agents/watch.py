"""
Seeing that a file has changed while an agent runs, cheaply enough to look all the time.

Decided here: what counts as a change. Not decided here: which files matter, and what follows
from a change (each agent's own room).
"""

from __future__ import annotations

import os
from pathlib import Path


def stamp(paths: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes when one of the files changes; cheap enough to ask all the time."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found.append(None)
        else:
            # Nobody can set the time of a file's last change back.
            found.append((status.st_ctime_ns, status.st_ino, status.st_size))
    return tuple(found)
