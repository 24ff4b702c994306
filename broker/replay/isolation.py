"""
What a replay cannot reach: the network, and the person's own workspace.

Decided here: that this process itself enters name spaces of its own before the agent is started, so
that the agent, whatever it starts, and the server that answers it see the same loopback and nothing
beyond; and that the scratch folder is put where the workspace was, so that every path is what it
was in the recording. Not decided here: what lies in the scratch folder.

It is for good: a process that entered does not come back. Where the kernel gives no name spaces the
replay goes on without, and says so: the agent is then only pointed at the recording.

Rules a maintainer keeps: no thread runs yet; what was reached is told as it is, and never better.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from broker.sandbox.inside import CLONE_NEWIPC, CLONE_NEWNET, own_spaces

Level = Literal["namespace", "open", "none"]

CLONE_NEWNS: Final = 0x0002_0000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
_MEANS: Final = {
    "namespace": "the network is cut off by the kernel",
    "open": "the network is open, since the model is live",
    "none": "the network is NOT cut off",
}


@dataclass(frozen=True, slots=True)
class Isolation:
    """
    How far a replay is cut off.

    ``why`` says what kept it from more; ``in_place`` that the scratch folder stands where the
    workspace was.
    """

    level: Level
    why: str = ""
    in_place: bool = False

    def __str__(self) -> str:
        """In words, for the person."""
        place = "; the scratch folder stands where the workspace was" if self.in_place else ""
        return _MEANS[self.level] + (f": {self.why}" if self.why else "") + place


def cut_off(scratch: Path | None = None, workspace: str = "", *, network: bool = True) -> Isolation:
    """
    Cut this process off from the network, and put a folder where another one was.

    Args:
        scratch: the folder that is put there; None to leave folders as they are.
        workspace: where.
        network: whether to cut off the network at all.
    """
    level: Level = "namespace" if network else "open"
    failed: Level = "none" if network else "open"
    if sys.platform != "linux":
        return Isolation(failed, "only Linux has name spaces")
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        own_spaces(libc, CLONE_NEWNS | (CLONE_NEWNET | CLONE_NEWIPC if network else 0))
    except OSError as error:
        return Isolation(failed, f"the kernel gives no name spaces ({error.strerror})")
    if scratch is None or not os.path.isdir(workspace):
        return Isolation(level)
    placed = not (
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        or libc.mount(os.fsencode(scratch), os.fsencode(workspace), None, MS_BIND, None)
    )
    return Isolation(level, in_place=placed)
