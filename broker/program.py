"""
Which file a command starts, and in which folder.

Decided here: how a program is found, and what is said where there is none. Not decided here: how
it is started (``broker.child``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from broker.errors import LaunchError


def program_of(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """
    Return the file that a command starts.

    >>> program_of(["sh"], {"PATH": "/usr/bin:/bin"}).endswith("/sh")
    True

    Raises:
        LaunchError: there is no command, or no program of that name.
    """
    if not command:
        raise LaunchError("no command: give it after `--`, as in `broker run -- claude`")
    found = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if found is None:
        raise LaunchError(f"`{command[0]}` cannot be started: {_not_a_program(command[0])}")
    return os.path.abspath(found)


def _not_a_program(name: str) -> str:
    """Return why no program was found by a name, and what helps."""
    if os.sep in name and os.path.isdir(name):
        return "it is a folder"
    if os.sep in name and os.path.exists(name):
        return "it is not executable: `chmod +x` it, or name its interpreter before it"
    return "there is no such program: check its name"


def start_in(workspace: Path) -> Path:
    """Return the folder that the agent starts in: the current one where it lies inside."""
    with suppress(OSError):
        here = Path(os.path.realpath(Path.cwd()))
        if here.is_relative_to(os.path.realpath(workspace)):
            return Path.cwd()
    return workspace
