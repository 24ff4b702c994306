"""
`broker check`: is this call allowed?

Decided here: who answers. Inside a run the live session does, and an allowed call is spent and
recorded; with ``--scope`` or ``--ticket`` it is a dry run, which spends and records nothing;
with neither there is nothing to decide under, and that is bad input.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import (
    decision_document,
    decision_line,
    err,
    error_document,
    flush,
    json_out,
    out,
)
from broker.cli.typed import Json, Scopes, Workspace, arguments, existing_folder, folder
from broker.errors import BrokerError, InputError

if TYPE_CHECKING:
    from broker.calls import Decision

EXAMPLES = """\
\b
Examples:
  broker check read_file path=src/a.py --scope 'paths=src/**'
  broker check fetch url=https://example.org/ --scope hosts=api.github.com
  broker check search limit:=3 'tags:=["a","b"]' --scope calls=10 --json
  broker check pay to=A amount:=5 --scope 'tools=pay(to in intent, amount<=50)' --intent 'Pay A'
  broker check --batch rows.jsonl

\b
ARG=TEXT gives a text, ARG:=JSON any JSON value. Inside `broker run` and without --scope or
--ticket, the live session answers, and an allowed call is spent and recorded.

\b
A row of --batch is one line of JSON:
  {"scope":["paths=src/**"],"tool":"read_file","arguments":{"path":"src/a.py"}}
and may hold workspace, cwd, server, at, minted_at, spent, intent and id. It is answered with
  {"decision":"allow|refuse|error","caveat":…,"reason":…}
and, when it holds more keys than these, with their names as ignored.

\b
Exit code: 0 allowed, 1 refused, 2 bad input or could not decide.
With --batch: 0 when every row was decided, 2 when one was not understood.
"""


@dataclass(frozen=True, slots=True)
class _Question:
    """What was typed: a call, and what to decide it under."""

    tool: str
    arguments: dict[str, object]
    scope: list[str] | None
    ticket: str | None
    workspace: str | None
    server: str | None
    intent: str = ""


def check(
    tool: Annotated[str | None, typer.Argument(metavar="TOOL", show_default=False)] = None,
    args: Annotated[
        list[str] | None, typer.Argument(metavar="[ARG=VALUE]...", show_default=False)
    ] = None,
    *,
    scope: Scopes = None,
    ticket: Annotated[
        str | None,
        typer.Option("--ticket", metavar="FILE", help="A ticket's wire form; - for stdin."),
    ] = None,
    workspace: Workspace = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="NAME", help="The MCP server that the tool is of."),
    ] = None,
    intent: Annotated[
        str,
        typer.Option(
            "--intent",
            metavar="TEXT",
            help="The line that a person typed, for conditions that look into it.",
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
    batch: Annotated[
        str | None,
        typer.Option("--batch", metavar="FILE", help="Decide every row of FILE; - for stdin."),
    ] = None,
) -> int:
    """Say whether a call is allowed, and by which caveat it is refused."""
    # One short process that reads much and keeps little: looking for cycles among the arguments
    # of a huge call, which have none, takes a tenth of its time.
    gc.set_threshold(500_000, 20, 20)
    if batch is not None:
        if tool is not None or scope or ticket is not None or server is not None or intent:
            raise InputError("--batch takes everything from its rows: give only --workspace")
        return _batch(batch, workspace)
    if tool is None:
        raise InputError("name a tool, such as `broker check read_file path=src/a.py`")
    try:
        found = arguments(args or [])
        decision = _decide(_Question(tool, found, scope, ticket, workspace, server, intent))
    except BrokerError as error:
        if as_json:
            json_out(error_document(error))
        raise
    if as_json:
        json_out(decision_document(decision))
    else:
        out(decision_line(decision))
    return ALLOWED if decision.allowed else REFUSED


def _decide(asked: _Question) -> Decision:
    if asked.scope or asked.ticket is not None:
        if os.environ.get("BROKER_SOCKET"):
            err("broker: a dry run: the session of this run is not asked, and nothing is recorded")
        return _dry(asked)
    if not os.environ.get("BROKER_SOCKET"):
        raise InputError(
            "nothing to decide under: give --scope or --ticket, or ask from inside `broker run` "
            "(see `broker check --help`)"
        )
    if asked.intent:
        raise InputError("the session has an intent of its own: leave --intent out")
    if asked.workspace is not None:
        raise InputError("the session has a workspace of its own: leave --workspace out")
    from broker.service.client import SessionClient

    # A relative path is the asking process's own: it starts where that process stands.
    return SessionClient.find(os.environ).decide(
        asked.tool, asked.arguments, server=asked.server, cwd=folder(None)
    )


def _dry(asked: _Question) -> Decision:
    from broker.cli.dry import DryRun
    from broker.home import Home

    home = Home.find(os.environ)
    world = DryRun(existing_folder(asked.workspace), home)
    at = time.time_ns()
    if asked.ticket is None:
        ticket = world.ticket(asked.scope or [], at, intent=asked.intent)
    elif asked.scope:
        raise InputError("give --scope or --ticket, not both; `broker ticket attenuate` narrows")
    else:
        from broker.cli.wires import believed

        ticket = believed(asked.ticket, home)
    return world.decide(
        ticket, asked.tool, asked.arguments, at=at, server=asked.server, intent=asked.intent
    )


def _batch(name: str, workspace: str | None) -> int:
    from broker.cli.batch import Batch, lines_of
    from broker.home import Home

    batch = Batch(Home.find(os.environ), existing_folder(workspace))
    with sys.stdin.buffer if name == "-" else open(name, "rb") as stream:
        for answer in batch.answers(lines_of(stream)):
            json_out(answer)
            # Whoever feeds rows one by one waits for each answer.
            flush()
    if batch.errors:
        err(f"broker: {batch.errors} of {batch.rows} rows were not understood")
        return UNDECIDED
    return ALLOWED
