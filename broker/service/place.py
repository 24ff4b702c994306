"""
Where the socket of a run lies.

Decided here: the user's runtime folder where its names fit into a socket's address and nobody else
gets in, and else a folder that is made for the run and removed with it. Not decided here: who may
connect (``broker.service.peer``).
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.home import Home
from broker.limits import MAX_SOCKET_PATH_BYTES

_SOCKET_NAME: Final = "s"


class Runtime:
    """The folder of the socket: the user's runtime folder, or one made for this run."""

    def __init__(self, home: Home) -> None:
        self._made: Path | None = None
        self._socket: Path | None = None
        longest = len(os.fsencode(home.runtime)) + 1 + 26
        self._folder = home.runtime
        if longest > MAX_SOCKET_PATH_BYTES or not _private(home.runtime):
            self._made = Path(tempfile.mkdtemp(prefix="broker-"))
            self._folder = self._made

    @property
    def own(self) -> tuple[str, ...]:
        """What is the broker's own beyond its home."""
        if self._made is None:
            return ()
        return (os.path.abspath(self._made), os.path.realpath(self._made))

    def socket(self, sid: str) -> Path:
        """Return where the socket of a session lies."""
        self._socket = self._folder / (sid if self._made is None else _SOCKET_NAME)
        return self._socket

    def __enter__(self) -> None:
        """Begin; what is made here is removed at the end."""

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            if self._socket is not None:
                self._socket.unlink(missing_ok=True)
            if self._made is not None:
                self._made.rmdir()


def _private(folder: Path) -> bool:
    """Make the user's runtime folder where it is missing; whether only the user gets in."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.stat(folder)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077
