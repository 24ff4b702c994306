"""
Asking Codex itself whether our hooks stand before its calls.

Codex runs a hook only when it is trusted by the hash of what it is. So the program that is about
to be started is asked, with the same settings, which hooks it sees: that gives the hashes that
make ours trusted, and ours alone, and then the answer that they are. No hook of a workspace
becomes trusted on the way, as it would by the option that trusts everything.

Decided here: the few words that are spoken with ``codex app-server``, and what must be true of
our hooks before a run. Not decided here: which settings they are (``launch``).
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker.errors import LaunchError

ANSWER_S: Final = 30.0
OURS: Final = "sessionFlags"  # the source of hooks that were given by `-c`


@dataclass(frozen=True, slots=True)
class Hooked:
    """One hook that Codex sees: its key, its hash, and whether it would run."""

    key: str
    event: str
    command: str
    digest: str
    runs: bool


def listed(
    program: str, settings: Sequence[str], environ: Mapping[str, str], cwd: Path
) -> list[Hooked]:
    """
    Return the hooks of ours that Codex sees under these settings.

    Args:
        program: the program that will be started.
        settings: the options that set its configuration.
        environ: its environment.
        cwd: the folder it starts in.

    Raises:
        LaunchError: it does not answer, or not as expected.
    """
    command = [program, "app-server", *settings]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            cwd=cwd,
        )
    except OSError as error:
        raise LaunchError(f"`{program}` cannot be asked for its hooks: {error.strerror}") from error
    late = threading.Timer(ANSWER_S, process.kill)
    late.start()
    try:
        with process:
            try:
                return list(_ours(_asked(process, cwd)))
            finally:
                process.kill()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise LaunchError(
            f"`{program}` does not say which hooks it has: this version cannot be held to a ticket"
        ) from None
    finally:
        late.cancel()


def _asked(process: subprocess.Popen[bytes], cwd: Path) -> Any:
    """Say hello, ask for the hooks, and return the answer's result."""
    who = {"clientInfo": {"name": "capability-broker", "version": "1"}}
    _say(process, {"id": 1, "method": "initialize", "params": who})
    _answer(process, 1)
    _say(process, {"method": "initialized"})
    _say(process, {"id": 2, "method": "hooks/list", "params": {"cwds": [str(cwd)]}})
    return _answer(process, 2)


def _say(process: subprocess.Popen[bytes], message: Mapping[str, object]) -> None:
    assert process.stdin is not None  # noqa: S101  it is a pipe
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[bytes], number: int) -> Any:
    assert process.stdout is not None  # noqa: S101  it is a pipe
    for line in process.stdout:
        message = json.loads(line)
        if isinstance(message, dict) and message.get("id") == number:
            return message["result"]
    raise ValueError("no answer")


def _ours(result: Any) -> Iterator[Hooked]:
    for folder in result["data"]:
        for hook in folder["hooks"]:
            if hook["source"] == OURS:
                trusted = hook["trustStatus"] in ("trusted", "managed")
                yield Hooked(
                    str(hook["key"]),
                    str(hook["eventName"]),
                    str(hook["command"]),
                    str(hook["currentHash"]),
                    trusted and hook["enabled"] is True,
                )
