"""
One command line, run by the system's shell in the workspace.

Decided here: what a command is given (a small environment, no input, a time limit) and that
nothing it started outlives it. What it then does cannot be told from its text, so a ticket
that limits paths or hosts lets it through only when a person named the tool.

A rule a maintainer keeps: the environment is a list of what is passed on, never of what is
left out, so that no key or socket of the caller reaches a command.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Final

from broker.limits import MAX_RESULT_CHARS

PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ", "USER")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command came to; ``code`` is None when it was stopped at the time limit."""

    code: int | None
    output: str


def run_command(
    command: str, folder: str, environ: Mapping[str, str], timeout_s: float = 60.0
) -> Ran:
    """
    Run one command line and return its exit code and output.

    >>> run_command("echo hello; exit 3", "/", {"PATH": "/usr/bin:/bin"})
    Ran(code=3, output='hello\\n')
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={name: environ[name] for name in PASSED_ON if name in environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + timeout_s
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        output = _collect(process.stdout, deadline)
        code: int | None = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        output, code = b"", None
    except TimeoutError as late:
        output, code = late.args[0], None
    finally:
        _end(process)
    return Ran(code, output.decode("utf-8", "replace"))


def _collect(pipe: IO[bytes], deadline: float) -> bytes:
    """Read to the end, keeping the beginning; TimeoutError holds what came by the deadline."""
    kept = bytearray()
    with selectors.DefaultSelector() as waiting:
        waiting.register(pipe, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not waiting.select(left):
                raise TimeoutError(bytes(kept))
            chunk = os.read(pipe.fileno(), 65_536)
            if not chunk:
                return bytes(kept)
            kept += chunk[: max(0, 4 * MAX_RESULT_CHARS - len(kept))]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's whole process group and collect it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it left nothing behind
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
