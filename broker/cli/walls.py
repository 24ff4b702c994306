"""
What `broker doctor` says of the sandbox: which walls this machine gives, and what is missing.

Decided here: the words. Not decided here: what is tried (``broker.sandbox.machine``). Nothing of
this keeps the broker from running, so nothing of it is ``bad``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.cli.probes import Finding

_NEVER_TRIED: Final = (
    "a profile is made of the scope, and was never tried on a Mac: `--sandbox=auto` uses it where "
    "its canary holds, decisions stay `none`, and `--sandbox=require` ends a run"
)


def walls() -> Iterator[Finding]:
    """Yield what each engine of the sandbox needs, and whether this machine gives it."""
    from broker.sandbox import machine

    found = machine.look()
    if sys.platform == "darwin" and found.profiler:
        yield Finding("sandbox", "note", f"{found.profiler}: {_NEVER_TRIED}")
        return
    if sys.platform != "linux":
        yield Finding(
            "sandbox", "note", "this system has no engine; `--sandbox=require` ends a run"
        )
        return
    if not found.filters:
        yield Finding("sandbox", "note", "no filter of system calls is known for this processor")
    yield _bubblewrap(found.bwrap)
    yield _landlock(found.landlock)
    yield _groups(machine.CGROUPS)


def _bubblewrap(program: str) -> Finding:
    from broker.sandbox import machine

    if not program:
        return Finding(
            "bubblewrap",
            "note",
            f"not installed, so the sandbox holds less, and `require` ends a run: "
            f"`{machine.install_command()}`",
        )
    why = machine.bwrap_works(program)
    if why:
        mended = machine.why_no_spaces()
        return Finding("bubblewrap", "note", f"{program} cannot work here: {mended or why}")
    return Finding("bubblewrap", "ok", f"{program}: files, processes and network can be held")


def _landlock(abi: int) -> Finding:
    from broker.sandbox.engines import GAPS
    from broker.sandbox.landlock import NEWEST

    if not abi:
        return Finding(
            "landlock", "note", "not in this kernel: boot with `lsm=landlock,…`, or Linux 5.13"
        )
    lacks = [
        what
        for since, what in (
            (2, "moving files between folders (2)"),
            (3, "emptying files (3)"),
            (5, "devices (5)"),
            (6, "abstract sockets and signals (6)"),
        )
        if abi < since
    ]
    text = f"ABI {abi} of {NEWEST}"
    lacks += GAPS
    return Finding("landlock", "ok", f"{text}; not held by it alone: {'; '.join(lacks)}")


def _groups(root: Path) -> Finding:
    from broker.sandbox.ceilings import own_group

    folder = own_group(root)
    if os.access(folder, os.W_OK) and os.path.exists(folder / "cgroup.subtree_control"):
        return Finding("cgroups", "ok", f"limits of a run can be counted in {folder}")
    return Finding(
        "cgroups", "note", "no control groups (version 2) of this user's: limits hold per process"
    )
