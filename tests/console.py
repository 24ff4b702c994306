"""The `broker` command for tests: in this process, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.cli.door import run

COMMAND = (sys.executable, "-c", "from broker.cli.main import main; main()")


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended; ``cpu_s`` is the processor time it took."""

    code: int
    out: str
    err: str
    cpu_s: float = 0.0

    def json(self) -> object:
        """Return its answer, which must be exactly one JSON document."""
        return json.loads(self.out)

    def rows(self) -> list[dict[str, Any]]:
        """Return its answers, one JSON document a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Console:
    """Runs `broker` in this process: quick, and with a stdin of the test's making."""

    def __init__(self, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._patch = patch

    def __call__(self, *words: str, stdin: bytes = b"") -> Said:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        code = run(words)
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)


def process(
    *words: str | bytes,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout_s: float = 60,
) -> Said:
    """Run `broker` as a process of its own, which is what a person does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*COMMAND, *words],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout_s,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode(), cpu_s)
