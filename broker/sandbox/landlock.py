"""
Landlock: a process gives up, for itself and all it will start, what it was not granted.

Decided here: which rights each release of the kernel's interface (its ABI) knows, and what
*read* and *write* mean in them. Not decided here: which places are granted
(``broker.sandbox.plan``). The calls are made by ``ctypes``; the numbers and the layout are those
of the kernel's ``Documentation/userspace-api/landlock.rst``, the same on every architecture.

Rules a maintainer keeps: whatever cannot be enforced raises, nothing is left out in silence; a
place is opened once and granted by that descriptor; every right that the kernel knows is handled,
so that what is not granted is refused.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

TYPE_CHECKING = False  # without `typing`, which takes longer to load than all the rest here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

CREATE_RULESET: Final = 444
ADD_RULE: Final = 445
RESTRICT_SELF: Final = 446
VERSION_FLAG: Final = 1
PATH_BENEATH: Final = 1
NET_PORT: Final = 2
PR_SET_NO_NEW_PRIVS: Final = 38
NEWEST: Final = 7  # the ABI that these rights were written for

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK = 1 << 6, 1 << 7, 1 << 8, 1 << 9
MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
ABSTRACT_UNIX, SIGNAL = 1 << 0, 1 << 1

READ: Final = EXECUTE | READ_FILE | READ_DIR
_FILE: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what a file can be granted
_BASE: Final = (1 << 13) - 1
_SINCE: Final = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))


class LandlockError(OSError):
    """The kernel did not take a rule; nothing may be started then."""


def abi() -> int:
    """Return the ABI that this kernel speaks; 0 where Landlock is missing or switched off."""
    return max(0, _syscall(CREATE_RULESET, None, 0, VERSION_FLAG))


def handled(version: int) -> int:
    """
    Return every right on files that an ABI knows.

    >>> handled(1) == 2**13 - 1, handled(4) == handled(3), handled(5) & IOCTL_DEV > 0
    (True, True, True)
    """
    rights = _BASE
    for since, right in _SINCE:
        if version >= since:
            rights |= right
    return rights


def writing(version: int) -> int:
    """
    Return the rights that *write* grants beside those of *read*: all but making devices.

    >>> writing(7) & (MAKE_CHAR | MAKE_BLOCK), writing(7) & READ
    (0, 0)
    """
    return handled(version) & ~(READ | MAKE_CHAR | MAKE_BLOCK)


def restrict(
    version: int,
    reads: Iterable[str] | None,
    writes: Iterable[str] | None,
    *,
    ports: Iterable[int] | None = None,
    scoped: bool = True,
) -> None:
    """
    Restrict this thread, and what it will start, for good.

    Args:
        version: what ``abi`` returned, at least 1.
        reads: the trees that may be read; None leaves reading alone.
        writes: the trees that may be written; None leaves writing alone.
        ports: the TCP ports that may be connected to, and none bound (ABI 4); None leaves TCP
            alone.
        scoped: keep from abstract sockets and from signals to processes outside (ABI 6), where
            the ABI can.

    Raises:
        LandlockError: a rule was not taken. A place that is not there is left out.
    """
    version = min(version, NEWEST)
    known = handled(version)
    of_files = (0 if reads is None else READ) | (0 if writes is None else known & ~READ)
    net = BIND_TCP | CONNECT_TCP if ports is not None and version >= 4 else 0
    scope = ABSTRACT_UNIX | SIGNAL if scoped and version >= 6 else 0
    if not (of_files or net or scope):
        return
    layout = struct.pack("=QQQ", of_files, net, scope)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _syscall(CREATE_RULESET, layout[:size], size, 0)
    if ruleset < 0:
        raise LandlockError(ctypes.get_errno(), "no ruleset could be made")
    try:
        for place in reads or ():
            _grant(ruleset, place, READ & of_files)
        for place in writes or ():
            _grant(ruleset, place, writing(version) & of_files)
        for port in (ports or ()) if net else ():
            rule = struct.pack("=QQ", CONNECT_TCP, port)
            if _syscall(ADD_RULE, ruleset, NET_PORT, rule, 0):
                raise LandlockError(ctypes.get_errno(), f"no rule for port {port}")
        _enforce(ruleset)
    finally:
        os.close(ruleset)


def no_new_privileges() -> None:
    """
    Keep this process, and all it starts, from gaining rights by a program's set-user-ID bit.

    Raises:
        LandlockError: the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise LandlockError(ctypes.get_errno(), "no_new_privs could not be set")


def _grant(ruleset: int, place: str, rights: int) -> None:
    """Grant rights on a place and all below it; a place that is not there is left out."""
    try:
        fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what cannot be named now is not granted
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE
        rule = struct.pack("=Qi", rights, fd)
        if rights and _syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0):
            raise LandlockError(ctypes.get_errno(), f"no rule for `{place}`")
    finally:
        os.close(fd)


def _enforce(ruleset: int) -> None:
    no_new_privileges()
    if _syscall(RESTRICT_SELF, ruleset, 0):
        raise LandlockError(ctypes.get_errno(), "the rules were not enforced")


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return -1  # no such system, or no such function in its library
    call.restype = ctypes.c_long
    passed = [a if a is None or isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    return int(call(ctypes.c_long(number), *passed))
