"""
`broker run`: start an agent under a ticket.

Decided here: nothing but what was typed. The session, the socket and the agent's hooks are
``broker.launch``; the exit code is the agent's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.typed import Scopes, Workspace, existing_folder
from broker.errors import InputError

EXAMPLES = """\
\b
Examples:
  broker run --scope 'paths=src/**' --scope calls=60 --scope until=45m -- claude
  broker run --scope @fix-tests --intent 'make the parser tests pass' -- claude -p 'go on'
  broker run --scope 'tools=@reads' -- ./my-agent.py      which asks by `broker check`
  broker run --scope @fix-tests --sandbox require -- claude
  broker run --forward auditor.key.pub --scope calls=60 -- claude

\b
Exit code: the agent's own; 2 when it could not be started under the ticket. At the end one
line says how many calls were allowed and refused, and how to verify the receipt.
"""


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", show_default=False)
    ] = None,
    *,
    scope: Scopes = None,
    intent: Annotated[
        str | None,
        typer.Option("--intent", metavar="TEXT", help="What it is for; kept in the receipt."),
    ] = None,
    workspace: Workspace = None,
    require_enforcement: Annotated[
        bool,
        typer.Option("--require-enforcement", help="Refuse a call whose effects nothing can hold."),
    ] = False,
    forward: Annotated[
        str | None,
        typer.Option(
            "--forward",
            metavar="FILE",
            help="Let nobody rewrite past lines unseen by the auditor whose public key this is.",
            show_default="`forward` in broker.toml",
        ),
    ] = None,
    conceal: Annotated[
        list[str] | None,
        typer.Option(
            "--conceal",
            metavar="WHAT",
            help="Commit to it in the receipt instead of showing it; it can be shown or erased "
            "later: intent, arguments, results, reasons, notes, all.",
        ),
    ] = None,
    sandbox: Annotated[
        str,
        typer.Option(
            "--sandbox",
            metavar="MODE",
            help="Have the kernel hold paths and hosts for every process that is started: off, "
            "auto (where it can), or require (or start nothing).",
        ),
    ] = "off",
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="KEY=VALUE",
            help="What a sandboxed run may use: memory=2G, processes=200, cpu=10m, wall=1h.",
        ),
    ] = None,
    show_port: Annotated[
        list[int] | None,
        typer.Option(
            "--show-port",
            metavar="PORT",
            help="Let this machine see a port of a sandboxed run on loopback: a dev server's.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say only warnings and what went wrong.")
    ] = False,
) -> int:
    """Run an agent's command under a scope, and keep a receipt of every decision."""
    if not command:
        raise InputError("name the agent's command behind `--`, such as `-- claude`")
    from broker.launch import run as launch
    from broker.sandbox.launching import Wanted

    return launch(
        command,
        texts=scope or [],
        intent=intent,
        workspace=Path(existing_folder(workspace)),
        require_enforcement=require_enforcement,
        forward=None if forward is None else Path(forward),
        conceal=conceal or [],
        quiet=quiet,
        sandbox=Wanted.read(sandbox, limit or [], show_port or []),
    )
