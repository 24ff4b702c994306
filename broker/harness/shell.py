"""
One command line, run by the system's shell in the workspace.

Decided here: what a command is given (a small environment, no input, a time limit). What it then
does cannot be told from its text, so a ticket that limits paths or hosts lets it through only when
a person named the tool. Not decided here: how it is run and ended
(``broker.capabilities.process``).

A rule a maintainer keeps: the environment is a list of what is passed on, never of what is
left out, so that no key or socket of the caller reaches a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.capabilities.process import Command, Processes
from broker.harness.files import ToolError
from broker.limits import MAX_RESULT_CHARS

PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ", "USER")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command came to; ``code`` is None when it was stopped at the time limit."""

    code: int | None
    output: str


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """
    Return what a command is given of an environment.

    >>> passed_on({"PATH": "/bin", "API_KEY": "k"})
    {'PATH': '/bin'}
    """
    return {name: environ[name] for name in PASSED_ON if name in environ}


def run_command(processes: Processes, command: str, folder: str, timeout_s: float = 60.0) -> Ran:
    """
    Run one command line and return its exit code and output.

    Raises:
        ToolError: it cannot be started.

    >>> from broker.capabilities.process import Finished, ScriptedProcesses
    >>> run_command(ScriptedProcesses([Finished(3, b"hello")]), "make", "/ws")
    Ran(code=3, output='hello')
    """
    asked = Command(
        ("/bin/sh", "-c", command),
        folder,
        passed_on(processes.environ),
        timeout_s=timeout_s,
        output_bytes=16 * MAX_RESULT_CHARS,
        merged=True,
    )
    try:
        ended = processes.run(asked)
    except OSError as error:
        raise ToolError(f"the shell cannot be started: {error.strerror or error}") from error
    output = ended.stdout.decode("utf-8", "replace")
    return Ran(ended.code, output + "\n(there was more)" if ended.cut else output)
