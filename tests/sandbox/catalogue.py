"""
The ways out of the walls, as ``catalogue.toml`` lists them.

    python -m tests.sandbox.catalogue      which of them this machine cannot try, and the known gaps
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

PREPARED = """\
import ctypes, os, sys
libc, env = ctypes.CDLL(None, use_errno=True), os.environ
"""
# What an attempt may need that not every machine has.
PROGRAMS = frozenset(
    """
    bash bwrap chroot curl dmesg git mkfifo mknod mount nsenter patch prlimit renice ssh su tar
    taskset unshare
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)


class Attempt(NamedTuple):
    """One way out; ``how`` is the interpreter, ``sign`` what would show that it worked."""

    name: str
    code: str
    how: str = "sh"
    sign: str = "told"
    landlock: str = ""

    @property
    def whole(self) -> str:
        """The code with what each script of its kind finds."""
        return PREPARED + self.code if self.how == "python" else self.code


def lacking(
    attempt: Attempt, programs: Collection[str] = PROGRAMS, path: str | None = None
) -> list[str]:
    """Return the programs without which an attempt is none, of those that are not installed."""
    needed = {"node"} if attempt.how == "node" else set[str]()
    if attempt.how == "sh":
        needed = set(re.findall(r"(?<![\w/.-])[a-z][a-z-]+", attempt.code)) & set(programs)
    return sorted(name for name in needed if shutil.which(name, path=path) is None)


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ALL = tuple(Attempt(**table) for table in _TABLES["attempt"])
BY_LANDLOCK = {attempt.name: attempt.landlock for attempt in ALL if attempt.landlock}


def untried() -> dict[str, str]:
    """Return the attempts that this machine cannot make, each with the reason."""
    found = {attempt.name: ", ".join(lacking(attempt)) for attempt in ALL}
    return {name: f"not installed: {what}" for name, what in found.items() if what}


def main() -> None:
    """Print what is there to try, what cannot be, and what is known not to hold."""
    print(f"{len(ALL)} attempts, {len(ALL) - len(untried())} of them can be made here")
    for name, why in untried().items():
        print(f"  not made: {name}: {why}")
    print(f"not held by Landlock alone, as its launch and `broker doctor` say: {len(BY_LANDLOCK)}")
    for name, why in BY_LANDLOCK.items():
        print(f"  {name}: {why}")


if __name__ == "__main__":
    main()
