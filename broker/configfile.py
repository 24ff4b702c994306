"""
Reading the configuration's file as something to be believed.

Decided here: whose file it must be, and what it means that it cannot be read. Not decided here:
what it may say (``broker.config``).

Rule a maintainer keeps: a file that cannot be read is an error, never a missing one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from broker.errors import ConfigError
from broker.limits import MAX_CONFIG_BYTES


def read_text(path: Path) -> str | None:
    """
    Return the text of a configuration file; None where there is none.

    Raises:
        ConfigError: it cannot be read, others may write it, or it is no text.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {_said(error)}") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"`{path}` is not a plain file")
        if found.st_mode & 0o022 or found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"`{path}` can be written by others: chmod 600 it, and read it again")
        content = os.read(fd, MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {_said(error)}") from error
    finally:
        os.close(fd)
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigError(f"`{path}` has more than {MAX_CONFIG_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"`{path}`, line {line}: not UTF-8 text") from None


def _said(error: OSError) -> str:
    return (error.strerror or "unknown error").lower()
