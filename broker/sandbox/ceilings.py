"""
How much a run may use: memory, processes, processor time and time on the wall.

Decided here: how a ceiling is typed, and how it is held. Where the kernel's control groups
(version 2) are handed to this user, memory and processes are counted for the whole run; else each
process has its own ceiling (``setrlimit``), which a run says. Processor time is counted for each
process; time on the wall is the broker's own clock.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import InputError

_SIZE: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_TIME: Final = {"s": 1, "m": 60, "h": 3_600}
_MAX: Final = 2**50
_TRIES: Final = 100
FOR_EACH: Final = (
    "limits on memory and processes hold for each process, and not for all together: this user has "
    "no control groups of its own"
)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a run may use; None for as much as it takes."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpu_s: int | None = None
    wall_s: int | None = None

    def limits(self) -> list[tuple[str, int]]:
        """
        Return the ceilings of each process, by the names of the module ``resource``.

        >>> Ceilings(cpu_s=60).limits()
        [('RLIMIT_CPU', 60)]
        """
        named = (
            ("RLIMIT_DATA", self.memory_bytes),
            ("RLIMIT_NPROC", self.processes),
            ("RLIMIT_CPU", self.cpu_s),
        )
        return [(name, value) for name, value in named if value is not None]

    def not_held(self, *, root: bool) -> str:
        """
        Return in words which ceiling does not hold without control groups, or an empty text.

        Args:
            root: whether the run is root's, whose processes the kernel does not count.

        >>> Ceilings(processes=40).not_held(root=False)
        ''
        """
        if self.processes is None or not root:
            return ""
        return "the limit on processes does not hold: it takes control groups, or not to be root"


def read_ceilings(texts: Sequence[str]) -> Ceilings:
    """
    Return the ceilings that were typed as ``KEY=VALUE``.

    Raises:
        InputError: a key or a value is not understood, or a key stands there twice.

    >>> read_ceilings(["memory=2G", "wall=10m"])
    Ceilings(memory_bytes=2147483648, processes=None, cpu_s=None, wall_s=600)
    """
    found: dict[str, int] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key not in _KEYS:
            raise InputError(f"`{text[:60]}` is no limit: write one of {_SHOWN}")
        name, pattern, units = _KEYS[key]
        match = pattern.fullmatch(value)
        if match is None or not 0 < (number := int(match[1]) * units[match[2]]) < _MAX:
            raise InputError(f"`{text[:60]}`: write it as in {_SHOWN}")
        if number < _LEAST.get(name, 0):
            raise InputError(f"`{text[:60]}`: no process begins with less than {_LEAST_SHOWN}")
        if name in found:
            raise InputError(f"the limit `{key}` is given twice")
        found[name] = number
    return Ceilings(**found)


_KEYS: Final = {
    "memory": ("memory_bytes", re.compile(r"([0-9]{1,15})([KMG]?)", re.ASCII), _SIZE),
    "processes": ("processes", re.compile(r"([0-9]{1,9})()", re.ASCII), {"": 1}),
    "cpu": ("cpu_s", re.compile(r"([0-9]{1,9})([smh])", re.ASCII), _TIME),
    "wall": ("wall_s", re.compile(r"([0-9]{1,9})([smh])", re.ASCII), _TIME),
}
_SHOWN: Final = "memory=2G, processes=200, cpu=10m, wall=1h"
_LEAST: Final = {"memory_bytes": 64 * 2**20}  # what carries to the proxy takes half of it itself
_LEAST_SHOWN: Final = "memory=64M"


class ControlGroup:
    """
    A control group of one run: beside the group that this process is in, or below it.

    Beside, since the kernel lets a group either hold processes or hand its controllers on; where
    a desktop hands a part of the tree to the user, both groups lie in that part.

    Args:
        root: where control groups (version 2) are mounted.
        name: the new group's name.
    """

    def __init__(self, root: Path, name: str) -> None:
        own = own_group(root)
        self._places = [place / name for place in (own.parent, own) if _within(place, root)]
        self._folder: Path | None = None

    def make(self, ceilings: Ceilings) -> bool:
        """Make the group with its ceilings; False where this user has no such rights."""
        return any(self._made(place, ceilings) for place in self._places)

    def _made(self, place: Path, ceilings: Ceilings) -> bool:
        wanted = {"memory.max": ceilings.memory_bytes, "pids.max": ceilings.processes}
        try:
            place.mkdir()
        except OSError:
            return False
        self._folder = place
        try:
            for name, value in wanted.items():
                if value is not None:
                    _put(place / name, str(value))
            if ceilings.memory_bytes is not None:
                with suppress(OSError):
                    _put(place / "memory.swap.max", "0")
        except OSError:
            self.end()
            return False
        return True

    def take(self, pid: int) -> None:
        """
        Put a process into the group, with all that it will start.

        Raises:
            OSError: the kernel refuses.
        """
        if self._folder is not None:
            _put(self._folder / "cgroup.procs", str(pid))

    def end(self) -> None:
        """Kill what is left in the group, and remove it."""
        if self._folder is None:
            return
        with suppress(OSError):
            _put(self._folder / "cgroup.kill", "1")
        for _ in range(_TRIES):  # the killed take a moment to be gone
            with suppress(OSError):
                self._folder.rmdir()
                break
            time.sleep(0.01)
        self._folder = None


def _within(place: Path, root: Path) -> bool:
    return place == root or root in place.parents


def own_group(root: Path) -> Path:
    """Return the folder of the group that this process is in."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                return root / line[4:]
    return root


def _put(path: Path, text: str) -> None:
    """Write into a file of the kernel's, which must be there."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
