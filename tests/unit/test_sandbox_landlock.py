"""Landlock's rights by ABI, and real processes that gave them up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.sandbox import landlock
from broker.sandbox.landlock import handled, writing

ABI = landlock.abi()
needs_kernel = pytest.mark.skipif(not ABI, reason="this kernel has no Landlock")


def test_later_abis_handle_more() -> None:
    """Each ABI handles what the one before did, and read and write part it between them."""
    for version in range(1, landlock.NEWEST):
        assert handled(version) & handled(version + 1) == handled(version)
    devices = landlock.MAKE_CHAR | landlock.MAKE_BLOCK
    assert writing(7) | landlock.READ | devices == handled(7)
    assert not writing(1) & landlock.REFER
    assert not writing(2) & landlock.TRUNCATE


def within(code: str, *arguments: str) -> str:
    """Run code in a process of its own."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from broker.sandbox.landlock import *\nimport sys,os\n" + code,
            *list(arguments),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@needs_kernel
@pytest.mark.parametrize("version", sorted({1, min(3, ABI), ABI} - {0}))
def test_only_what_is_granted_is_written(tmp_path: Path, version: int) -> None:
    """Below a granted tree files are made, and beside it none, under each ABI."""
    (tmp_path / "in").mkdir()
    code = f"""
restrict({version}, None, [sys.argv[1] + "/in", "/nowhere"])
for name in ("in/a", "b"):
    try:
        open(sys.argv[1] + "/" + name, "w").close(); print("made")
    except PermissionError: print("refused")
"""
    assert within(code, str(tmp_path)).split() == ["made", "refused"]


@needs_kernel
def test_only_what_is_granted_is_read(tmp_path: Path) -> None:
    """A file that is granted alone is read, its neighbour and its folder are not."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    code = """
restrict(abi(), [sys.argv[1] + "/a"], None)
for name in ("a", "b"):
    try: print(open(sys.argv[1] + "/" + name).read())
    except PermissionError: print("refused")
try: os.listdir(sys.argv[1])
except PermissionError: print("refused")
"""
    assert within(code, str(tmp_path)).split() == ["a", "refused", "refused"]


@needs_kernel
def test_ports_are_held(tmp_path: Path) -> None:
    """Where the ABI knows TCP, an unnamed port is refused by the kernel itself."""
    if ABI < 4:
        return
    code = """
import socket
restrict(abi(), None, None, ports=[1])
for port in (1, 2):
    try: socket.create_connection(("127.0.0.1", port), 2)
    except PermissionError: print("refused")
    except OSError: print("nobody there")
"""
    assert within(code).split() == ["nobody", "there", "refused"]


def test_nothing_to_hold_makes_no_ruleset() -> None:
    """Without anything to hold the process stays as it was."""
    landlock.restrict(1, None, None)
    assert os.access("/", os.R_OK)
