"""
Faults of the system, put into single system calls of a process by `strace`.

A process is prepared first and attached to then, so that the N-th call of a kind is the N-th call
of the act under test, and nothing of what Python does to start.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.errors import BrokerError

# Every call that changes a file, a name or a lock, or opens one.
CALLS = (
    "openat",
    "write",
    "pwrite64",
    "fdatasync",
    "ftruncate",
    "flock",
    "rename",
    "unlink",
    "mkdir",
)
NO_STRACE = "system calls cannot be traced here"
REFUSED, FAULTY = 3, 4  # exit codes of a child: told as it must be, or as it must not be
_PR_SET_PTRACER, _ANYONE = 0x59616D61, ctypes.c_ulong(-1)
_PATIENCE_S = 20.0


def tracing() -> str:
    """Return the program that traces; skip where there is none, or it may not."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip(NO_STRACE)
    child = subprocess.Popen(["sleep", "60"])
    try:
        with attached(child.pid, "trace=none", program=program):
            pass
    except AssertionError:
        pytest.skip(NO_STRACE)
    finally:
        child.kill()
        child.wait()
    return program


@contextmanager
def attached(
    pid: int, *expressions: str, program: str = "strace", log: Path | None = None
) -> Iterator[None]:
    """Trace a process and all its threads, as expressions of `strace -e` say."""
    words = [word for each in expressions for word in ("-e", each)]
    command = [program, "-f", *words, "-o", str(log or os.devnull), "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    try:
        assert b"attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=_PATIENCE_S)


@dataclass(frozen=True)
class Act:
    """
    What a child does: ``prepare`` untraced, and then ``act`` with what that returned.

    The name is for a reader of test ids.
    """

    name: str
    prepare: Callable[[Path], tuple[Any, ...]]
    act: Callable[..., None]


def trace(act: Act, place: Path, *expressions: str, log: Path | None = None) -> int:
    """
    Run an act in a forked child, under a trace if there are expressions; return how it ended.

    Returns:
        0; REFUSED for an error of the broker's; FAULTY for any other; or the killing signal,
        negative.
    """
    ready, tell_ready = os.pipe()
    go, tell_go = os.pipe()
    child = os.fork()
    if child == 0:
        _child(act, place, tell_ready, go)
    try:
        os.close(tell_ready)
        os.close(go)
        assert os.read(ready, 1) == b"r"
        with attached(child, *expressions, log=log) if expressions else nullcontext():
            os.write(tell_go, b"g")
            status = _waited(child)
    finally:
        os.close(ready)
        os.close(tell_go)
    return os.waitstatus_to_exitcode(status)


def _child(act: Act, place: Path, tell_ready: int, go: int) -> None:
    code = FAULTY
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYONE, 0, 0, 0)
        prepared = act.prepare(place)
        os.write(tell_ready, b"r")
        os.read(go, 1)
        act.act(place, *prepared)
        code = 0
    except BrokerError:
        code = REFUSED
    except BaseException as error:  # noqa: BLE001  a child never returns into the test
        os.write(2, f"{act.name}: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _waited(child: int) -> int:
    given_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < given_up:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child never ended")


def calls_of(act: Act, place: Path) -> list[tuple[str, int]]:
    """Return every call of an act, by name and by which of its kind it is, from 1."""
    log = place.with_suffix(".strace")
    assert trace(act, place, f"trace={','.join(CALLS)}", log=log) == 0
    counts: Counter[str] = Counter(
        match[1] for match in re.finditer(r"^\d+ +([a-z0-9_]+)\(", log.read_text(), re.M)
    )
    return [(name, n) for name in CALLS for n in range(1, counts[name] + 1)]


def killed_at(name: str, n: int) -> tuple[str, str]:
    """Return what kills a process instead of its N-th call of a kind."""
    return f"trace={name}", f"inject={name}:signal=SIGKILL:when={n}"


def failing_at(name: str, n: int, number: int) -> tuple[str, str]:
    """Return what makes the N-th call of a kind fail with an error."""
    return f"trace={name}", f"inject={name}:error={errno.errorcode[number]}:when={n}"
