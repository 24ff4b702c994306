"""
The mark that an installation has a ledger: the hash of its first row, beside the keys.

Decided here: how it is read and written. Not decided here: what it means that it is there, or
names another ledger (``ledger``).
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from broker.receipt import disk

MARK_NAME: Final = "ledger"
_MARK_BYTES: Final = 128


def read_mark(path: Path) -> str | None:
    """
    Return the hash of the ledger's first row; None where there is no mark.

    An emptied mark is a mark, and of no ledger.

    Raises:
        UnverifiableError: the mark is not a file that is safe to believe.
    """
    if not os.path.lexists(path):
        return None
    fd = disk.open_checked(path, "ledger's mark", forbidden=disk.OTHERS_WRITE)
    try:
        return os.read(fd, _MARK_BYTES).decode("ascii", "replace").removesuffix("\n")
    finally:
        os.close(fd)


def put_mark(path: Path, first: str, system: disk.Disk = disk.DISK) -> None:
    """
    Write the mark.

    Where the folder of keys may not be written there is none: the sessions alone tell then that
    there is a ledger.

    Raises:
        OSError: it cannot be written for another reason.
    """
    try:
        disk.make_private_folder(path.parent)
        system.replace(path, f"{first}\n".encode())
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
