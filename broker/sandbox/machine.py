"""
What this machine gives to build walls of, and what is missing, with the way to get it.

Decided here: which engines there are, and what each holds. Every answer is an attempt, since a
version promises little: a user name space is made, a filter is built, the kernel is asked for its
ABI. Attempts run in processes of their own and change nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from broker.sandbox import landlock, seatbelt, seccomp
from broker.sandbox.bubblewrap import NAME

Engine = Literal["bubblewrap", "landlock", "seatbelt"]
CGROUPS: Final = Path("/sys/fs/cgroup")
_DEADLINE_S: Final = 10
_TRY: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/"),
    *("--proc", "/proc", "--dev", "/dev", "true"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """
    What walls can be built of. ``bwrap`` is the program's file; an empty text says there is none.

    ``landlock`` is the kernel's ABI, 0 for none. ``filters`` says whether calls can be filtered.
    ``spaces`` says whether a user and a network name space can be made without bubblewrap; None
    while nobody has tried. ``profiler`` is macOS's own program, and there alone.
    """

    bwrap: str
    landlock: int
    spaces: bool | None
    filters: bool
    profiler: str = ""

    def engines(self) -> tuple[Engine, ...]:
        """Return the engines that can be tried, the stronger one first."""
        found: list[Engine] = []
        if self.filters and self.bwrap:
            found.append("bubblewrap")
        if self.filters and self.landlock:
            found.append("landlock")
        if self.profiler:
            found.append("seatbelt")
        return tuple(found)


def look(path: str | None = None) -> Machine:
    """Return what this machine gives, without trying what a start would try anyway."""
    if sys.platform != "linux":
        given = shutil.which(seatbelt.NAME, path=path) if sys.platform == "darwin" else None
        return Machine("", 0, False, False, given or "")
    bwrap = shutil.which(NAME, path=path) or ""
    abi = landlock.abi()
    return Machine(bwrap, abi, None, seccomp.machine_known(platform.machine()))


def spaces_work() -> bool:
    """Return whether an ordinary process can make a user and a network name space."""
    child = os.fork()
    if child == 0:
        unshare = ctypes.CDLL(None).unshare
        os._exit(1 if unshare(0x1000_0000 | 0x4000_0000) else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def bwrap_works(program: str) -> str:
    """Return an empty text where bubblewrap can build its walls here, or else what it said."""
    try:
        done = subprocess.run(
            [program, *_TRY],
            check=False,
            capture_output=True,
            timeout=_DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return "" if done.returncode == 0 else said or f"it ended with {done.returncode}"


def install_command() -> str:
    """Return the command that installs bubblewrap here, as far as this can be told."""
    for tool, command in (
        ("apt-get", "sudo apt-get install bubblewrap"),
        ("dnf", "sudo dnf install bubblewrap"),
        ("pacman", "sudo pacman -S bubblewrap"),
        ("zypper", "sudo zypper install bubblewrap"),
        ("apk", "sudo apk add bubblewrap"),
    ):
        if shutil.which(tool):
            return command
    return "install the package `bubblewrap`"


def why_no_spaces() -> str:
    """Return the setting that forbids user name spaces, with what changes it, or an empty text."""
    for name, bad in (
        ("kernel.unprivileged_userns_clone", "0"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
        ("user.max_user_namespaces", "0"),
    ):
        try:
            value = Path("/proc/sys", *name.split(".")).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if value == bad:
            mended = {"0": "1", "1": "0"}[bad] if "max" not in name else "15000"
            return f"`{name}` is {value}: sudo sysctl {name}={mended}"
    return ""
