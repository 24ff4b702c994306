"""
Three attempts that must fail, made within the walls before the agent is: the proof that they stand.

Decided here: what is attempted, and which of it counts as held. Not decided here: what follows
when a wall does not hold (``launching``: the agent is not started).

Rules a maintainer keeps: only a refusal of the kernel counts, never an accident: a file that
should be there and is not seen is held, since hiding is what the wall is for, but the session was
opened with it, so it is there; nothing is changed by an attempt that succeeds.
"""

from __future__ import annotations

import _socket as socket
import errno
import os

TYPE_CHECKING = False  # without `typing`, which takes longer to load than all the rest here
if TYPE_CHECKING:
    from typing import Any, Final

UNNAMED: Final = ("192.0.2.1", 9)  # RFC 5737: an address that is never anyone's
_WAIT_S: Final = 0.2
# A place is hidden, or shown without the right; any other fault says nothing of a wall.
_HELD: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)
_REFUSED: Final = (errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT)


def walls_that_fail(attempts: dict[str, Any]) -> list[str]:
    """
    Return in words each attempt that was not held.

    Args:
        attempts: ``secret``, a file that must not be read; ``outside``, folders in which nothing
            must be made; ``network``, whether no address may be reached.

    >>> walls_that_fail({"secret": None, "outside": [], "network": False})
    []
    """
    fails = []
    secret = attempts["secret"]
    if secret is not None and _opens(secret, os.O_RDONLY):
        fails.append("the broker's key can be read")
    for folder in attempts["outside"]:
        if _makes(folder):
            fails.append(f"nothing keeps a file from being made in `{folder}`")
    if attempts["network"] and _connects():
        fails.append("an address outside can be reached")
    return fails


def _opens(path: str, flags: int) -> bool:
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return error.errno not in _HELD
    try:
        return bool(os.read(fd, 1))
    finally:
        os.close(fd)


def _makes(folder: str) -> bool:
    """Whether no wall refuses a new file in a folder; it is gone again when this returns."""
    nameless = getattr(os, "O_TMPFILE", 0)  # where the kernel has none, the file has a name
    place = folder if nameless else f"{folder}/.broker-canary-{os.getpid()}"
    flags = nameless or os.O_CREAT | os.O_EXCL
    try:
        fd = os.open(place, flags | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error.errno not in _HELD
    os.close(fd)
    if not nameless:
        os.unlink(place)
    return True


def _connects() -> bool:
    """Whether a packet could leave: only the kernel's own refusal is a wall."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        try:
            attempt = socket.socket(socket.AF_INET, kind)
            attempt.settimeout(_WAIT_S)
            attempt.connect(UNNAMED)
        except OSError as error:
            if error.errno in _REFUSED:
                continue
        return True  # it left, whoever answered
    return False
