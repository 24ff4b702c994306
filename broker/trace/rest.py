"""
Whether a run is over, or somebody still writes it.

Decided here: how the two are told apart: whoever writes a run holds a lock on its events, which the
kernel takes away when they die. Not decided here: what is done to a run that is over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.errors import InputError
from broker.trace.format import EVENTS
from broker.trace.safefiles import open_inside


@contextmanager
def at_rest(folder: Path) -> Iterator[None]:
    """
    Hold a run that nobody writes, for as long as it is changed.

    Raises:
        InputError: it is being written.
        TraceError: its events cannot be opened.
    """
    import fcntl  # noqa: PLC0415  not on every system; the rest of this room is

    fd = open_inside(folder, EVENTS)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"`{folder.name}` is being recorded: wait until it is over", code="trace.busy"
            ) from None
        yield
    finally:
        os.close(fd)
