"""
`broker agent`: our own coding agent, with a real model, under a ticket.

Decided here: nothing but what was typed, and that it is refused inside a run, where an agent may be
the one that types. The sitting is ``broker.agentloop.starting``; the exit code is that of
``broker.harness.exits``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.output import err, json_out
from broker.cli.project import outside_a_run, project_scope
from broker.cli.typed import Json, Scopes, Workspace, existing_folder
from broker.errors import BrokerError, InputError

NAME = "broker-agent"  # whose scope is looked for in a project's file
EXAMPLES = """\
\b
Examples:
  broker agent --scope 'writes=src/**' --scope calls=60 'mend the failing test'
  broker agent --scope @fix-tests --verify 'make test'       at a terminal, line by line
  broker agent --model openai/gpt-6.2-sol --scope 'tools=@reads' --json 'what is this?'
  broker agent --resume k3v 'and now the docs'

\b
At a terminal: /scope shows what the agent may do, `/scope narrow K=V` takes away, `/scope replace
K=V` puts another scope in its place; /receipt, /tools, /help, /quit.
Ctrl-C stops the turn, twice ends the session.

\b
Providers: anthropic (ANTHROPIC_API_KEY), openai (OPENAI_API_KEY), and servers of models in
`[models.NAME]` of your broker.toml. MCP servers in `[mcp.NAME]` are offered as tools.

\b
Without --scope the project's file gives it (.broker/broker.toml, see `broker init`), once you have
accepted that file; where there is none either, everything is permitted and recorded.

\b
Exit code: 0 it came to its end, 2 bad input or a limit, 3 configuration, 4 a key or an extra is
missing, 5 not verified, 6 no receipt or record can be kept, 7 the model did not answer, 9 the
declared check does not pass, 130 interrupted.
"""


def agent(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]", show_default=False, help="What is to be done. None: at a terminal."
        ),
    ] = None,
    *,
    scope: Scopes = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="PROVIDER/MODEL",
            help="Who is asked.",
            show_default="`model` in broker.toml, else by the key that is set",
        ),
    ] = None,
    workspace: Workspace = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", metavar="MODE", help="How much runs unasked: read-only, ask, auto, yolo."
        ),
    ] = None,
    allow: Annotated[
        str,
        typer.Option(
            "--allow",
            metavar="EFFECT,…",
            help="Say yes beforehand to calls that the ticket allows: write, egress, unseen.",
        ),
    ] = "",
    verify: Annotated[
        str | None,
        typer.Option(
            "--verify", metavar="COMMAND", help="Must pass before a line that changed something."
        ),
    ] = None,
    depth: Annotated[
        int, typer.Option("--depth", metavar="N", help="How many agents may stand above a helper.")
    ] = 2,
    turns: Annotated[
        int | None,
        typer.Option(
            "--turns", metavar="N", min=1, help="Turns for one line, at most.", show_default="100"
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the workspace's hooks, as they are now.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="SESSION", help="Go on with a conversation, under what is left."
        ),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Stay at the terminal after PROMPT.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Let a coding agent with a real model work under a scope."""
    from broker.agentloop.starting import AgentAsked, run_agent
    from broker.agentloop.talk import told_error
    from broker.capabilities.bundle import real_capabilities
    from broker.harness.exits import exit_code

    try:
        outside_a_run(os.environ)
        if as_json and (prompt is None or interactive):
            raise InputError("--json is for one PROMPT, without --interactive")
        root = existing_folder(workspace) if workspace or not resume else None
        texts = scope
        if root is not None and not scope and not resume:
            texts = project_scope([NAME], Path(root), os.environ, quiet=as_json)
        ended = run_agent(
            AgentAsked(
                prompt,
                texts or (None if resume else []),
                model or "",
                root,
                mode,
                [effect for effect in allow.split(",") if effect],
                verify,
                depth,
                turns,
                trust,
                resume,
                interactive,
                as_json,
            ),
            real_capabilities(),
        )
    except BrokerError as error:
        err(told_error(error).rstrip("\n"))
        return exit_code(error)
    if as_json:
        json_out(ended.document)
    return ended.code
