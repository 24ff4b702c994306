"""
`broker run`: start an agent under a ticket.

Decided here: nothing but what was typed. The session, the socket and the agent's hooks are
``broker.launch``; the exit code is the agent's own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from broker.cli import completing
from broker.cli.project import project_scope
from broker.cli.typed import Scopes, Workspace, existing_folder, file_bytes
from broker.errors import InputError

EXAMPLES = """\
\b
Examples:
  broker run --scope 'paths=src/**' --scope calls=60 --scope until=45m -- claude
  broker run --scope @fix-tests --intent 'make the parser tests pass' -- claude -p 'go on'
  broker run --scope 'tools=@reads' -- ./my-agent.py      which asks by `broker check`
  broker run --scope @fix-tests --sandbox require -- claude
  broker run --ticket b.ticket --scope calls=20 -- claude     on one budget; see docs/many.md
  broker run --forward auditor.key.pub --scope calls=60 -- claude

\b
With --ask a call that a rule's conditions refuse becomes a question to you: at this terminal where
the agent has not drawn a screen on it, and at any other with `broker answer`. A yes is for exactly
that call; see docs/scopes.md.

\b
Without --scope the project's file gives it (.broker/broker.toml, see `broker init`), once you have
accepted that file; where there is none either, everything is permitted and recorded.

\b
The canary: an agent that the broker knows is started once more before the run, against a model on
this machine, and must obey a refusal; else the run does not begin. That takes one to two seconds
with claude, codex and copilot, some seconds with gemini, qwen and pi, and most with opencode, which
may install packages first. `broker doctor --agent all` measures it here; --no-canary leaves it out.

\b
Exit code: the agent's own; 2 when it could not be started under the ticket. At the end one
line says how many calls were allowed and refused, and how to verify the receipt.
"""


def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...", show_default=False, autocompletion=completing.first_program
        ),
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
    canary: Annotated[
        bool | None,
        typer.Option(
            "--canary/--no-canary",
            help="First see the agent obey a refusal; see below.",
            show_default="`canary` in broker.toml, else on",
        ),
    ] = None,
    record: Annotated[
        bool | None,
        typer.Option(
            "--record/--no-record",
            help="Keep what was said and done; see `broker runs`.",
            show_default="`record` in broker.toml, else on",
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
    ask: Annotated[
        bool,
        typer.Option(
            "--ask",
            help="Ask you about a call that a rule's conditions refuse, while the agent waits.",
        ),
    ] = False,
    ticket: Annotated[
        str | None,
        typer.Option(
            "--ticket",
            metavar="FILE",
            help="Work under a ticket that another session handed over (- for stdin), on one "
            "budget with it; --scope narrows it.",
        ),
    ] = None,
    opinion: Annotated[
        list[str] | None,
        typer.Option(
            "--opinion",
            metavar="URL|FILE",
            help="Ask this AuthZEN decision point, or this file of Cedar policies, about each call "
            "that the scope allows; all must allow it.",
            show_default="those in broker.toml",
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

    folder = Path(existing_folder(workspace))
    handed = None if ticket is None else file_bytes(ticket, "the ticket").decode("utf-8", "replace")
    texts = scope or ([] if handed else project_scope(command, folder, os.environ, quiet=quiet))
    return launch(
        command,
        texts=texts,
        intent=intent,
        workspace=folder,
        require_enforcement=require_enforcement,
        forward=None if forward is None else Path(forward),
        conceal=conceal or [],
        quiet=quiet,
        canary=canary,
        ask=ask,
        opinions=opinion or [],
        sandbox=Wanted.read(sandbox, limit or [], show_port or []),
        record=record,
        handed=handed,
    )
