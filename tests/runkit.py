"""A run under a ticket as a process of its own, for tests that end it in every way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_RUN = """
import json, sys
from pathlib import Path
from broker.errors import BrokerError
from broker.launch import run
given = json.loads(sys.argv[1])
try:
    code = run(given["command"], texts=given["texts"], intent=given["intent"],
               workspace=Path(given["workspace"]), canary=given["canary"],
               record=given["record"])
except BrokerError as error:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    code = 2
sys.exit(code)
"""

# Asks for a read inside the scope and for a shell, again and again, and tells every answer.
ASKER = """
import os, sys
from broker.service.client import SessionClient
client = SessionClient.find(os.environ)
for n in range(int(sys.argv[1])):
    read = client.decide("Read", {"file_path": "src/a.py"}, call_id=f"r{n}", cwd=os.getcwd())
    print(f"r{n}", "allow" if read.allowed else read.refusal.caveat, flush=True)
    shell = client.decide("Bash", {"command": "ls"}, call_id=f"s{n}", cwd=os.getcwd())
    print(f"s{n}", "allow" if shell.allowed else shell.refusal.caveat, flush=True)
"""


def start(
    command: Sequence[str],
    *,
    home: Path,
    workspace: Path,
    texts: Sequence[str] = ("tools=Read,Edit", "paths=src/**"),
    intent: str | None = None,
    environ: Mapping[str, str] | None = None,
    canary: bool = False,
    record: bool | None = None,
) -> subprocess.Popen[str]:
    """
    Start a run in a session of its own, so that signals reach nobody else.

    Without a canary by default: it has its own tests, and would be in every receipt.
    """
    given: dict[str, object] = {"command": list(command), "texts": list(texts), "intent": intent}
    given["canary"], given["record"] = canary, record
    given["workspace"] = str(workspace)
    return subprocess.Popen(
        [sys.executable, "-c", _RUN, json.dumps(given)],
        env={**os.environ, "BROKER_HOME": str(home), **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str], timeout_s: float = 60) -> tuple[int, str, str]:
    """Wait for a run, and return exit code, output and error text."""
    out, err = process.communicate(timeout=timeout_s)
    return process.returncode, out, err


def asker(times: int) -> list[str]:
    """Return the command of an agent that asks so many times."""
    return [sys.executable, "-c", ASKER, str(times)]
