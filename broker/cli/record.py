"""
`broker record`: run a command and record it, without a ticket.

Decided here: nothing but what was typed; what is recorded is ``broker.capture``.
"""

from __future__ import annotations

from typing import Annotated

import typer

from broker.cli import completing
from broker.errors import InputError

EXAMPLES = """\
\b
Examples:
  broker record -- claude -p 'explain the parser'
  broker record -- ./my-agent.py       which reads OPENAI_BASE_URL, ANTHROPIC_BASE_URL or
                                       GOOGLE_GEMINI_BASE_URL

\b
An agent that the broker knows is pointed at a server on this machine in place of its model; any
other command by those three variables. What passes is kept without its secrets: see `broker runs`.
Nothing is refused and no receipt is kept: that is `broker run`, which records too.

\b
Exit code: the command's own; 2 when it could not be started, or nothing could be recorded.
"""


def record(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...", show_default=False, autocompletion=completing.first_program
        ),
    ] = None,
    *,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say only warnings and what went wrong.")
    ] = False,
) -> int:
    """Run a command and keep what it says to its model, without a ticket."""
    if not command:
        raise InputError("name the command behind `--`, such as `-- claude`")
    from broker.capture.alone import record as recorded

    return recorded(command, quiet=quiet)
