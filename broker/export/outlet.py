"""
Files that an export is written to.

Decided here: that such a file appears under its name only when all of it is there. An export
that stops at a break must not leave half of itself behind, looking whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from broker.errors import InputError
from broker.receipt.disk import CREATE, said


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """
    Write a file, mode 0600, that takes its name when the block ends well, and else never.

    A link at ``path`` is replaced, not followed.

    Raises:
        InputError: it cannot be written.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | CREATE, 0o600)
    except (OSError, ValueError) as error:
        raise InputError(f"`{path}` cannot be written: {_why(error)}") from error
    try:
        with os.fdopen(fd, "wb", buffering=1 << 18) as stream:
            yield stream
        os.rename(fresh, path)
    except OSError as error:
        raise InputError(f"`{path}` cannot be written: {_why(error)}") from error
    finally:
        fresh.unlink(missing_ok=True)  # gone by then, where it got its name


def new_folder(path: Path) -> None:
    """
    Make a folder for the owner alone.

    Raises:
        InputError: there is something of that name, or it cannot be made.
    """
    try:
        path.mkdir(mode=0o700)
    except (OSError, ValueError) as error:
        raise InputError(f"the folder `{path}` cannot be made: {_why(error)}") from error


def _why(error: OSError | ValueError) -> str:
    return said(error) if isinstance(error, OSError) else str(error)
