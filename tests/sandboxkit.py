"""A run within walls as a process of its own, with the engine that a test names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.sandbox import machine
from tests.sessionkit import Bench

ENGINES = ("bubblewrap", "landlock")

_RUN = """
import json, sys
from pathlib import Path
from broker.errors import BrokerError
from broker.launch import run
from broker.sandbox import engines
from broker.sandbox.launching import Sandbox, Wanted
from tests.sandboxkit import only
given = json.loads(sys.argv[1])
engine = given["engine"]
Sandbox.__init__.__kwdefaults__["machine"] = lambda: only(engine)
if given["low"]:
    engines._low = lambda: given["low"]
try:
    wanted = Wanted.read(given["mode"], given["limits"], given["ports"])
    code = run(given["command"], texts=given["texts"], workspace=Path(given["workspace"]),
               require_enforcement=given["enforced"], sandbox=wanted, record=given["record"])
except BrokerError as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    code = 2
sys.exit(code)
"""


def only(engine: str) -> machine.Machine:
    """Return what this machine gives, without the engines that the test does not mean."""
    found = machine.look()
    if engine == "bubblewrap":
        return found
    if engine == "bubblewrap alone":
        return replace(found, landlock=0)
    if engine.startswith("seatbelt "):
        return machine.Machine("", 0, False, False, f"{engine[9:]}/sandbox-exec")
    if engine == "none":
        return machine.Machine("", 0, False, True)
    return replace(found, bwrap="", spaces=None if engine == "landlock" else False)


def needed(engine: str) -> None:
    """Skip where this machine cannot build an engine's walls."""
    found = only(engine)
    if engine.startswith("bubblewrap") and (not found.bwrap or machine.bwrap_works(found.bwrap)):
        pytest.skip("bubblewrap cannot work here")
    if engine.startswith("landlock") and not found.landlock:
        pytest.skip("this kernel has no Landlock")


class Ended:
    """How a run ended: its code, what was printed, and the notes of its receipt."""

    def __init__(self, bench: Bench, process: subprocess.Popen[str], timeout_s: float) -> None:
        self.bench = bench
        self.out, self.err = process.communicate(timeout=timeout_s)
        self.code = process.returncode

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the entries of the latest receipt, verified."""
        newest = max(self.bench.receipts().sessions(), key=lambda info: info.changed_at)
        assert self.bench.verdict(newest.sid).state in ("SEALED", "INTERRUPTED")
        return self.bench.entries(newest.sid)

    def notes(self) -> list[str]:
        """Return what the receipt notes of the sandbox."""
        return [
            str(data["text"])
            for kind, data in self.entries()
            if kind == "note" and data["source"] == "sandbox"
        ]


def start(
    bench: Bench,
    command: Sequence[str],
    *texts: str,
    engine: str = "bubblewrap",
    mode: str = "auto",
    limits: Sequence[str] = (),
    ports: Sequence[int] = (),
    enforced: bool = False,
    environ: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.PIPE,
    low: int = 0,
    record: bool = False,
) -> subprocess.Popen[str]:
    """Start a command within walls, in a session of its own; ports below ``low`` are root's."""
    given = {"command": list(command), "texts": list(texts), "engine": engine, "mode": mode}
    given |= {"limits": list(limits), "ports": list(ports), "enforced": enforced, "low": low}
    given["record"] = record
    given["workspace"] = str(bench.workspace)
    root = Path(__file__).resolve().parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, json.dumps(given)],
        env={**os.environ, "BROKER_HOME": str(bench.home.state.parent), **(environ or {})},
        cwd=root,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )


def run(bench: Bench, script: str, *texts: str, timeout_s: float = 60, **more: Any) -> Ended:
    """Run a shell script within walls, and wait for it."""
    return Ended(bench, start(bench, ["sh", "-c", script], *texts, **more), timeout_s)
