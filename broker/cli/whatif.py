"""
`broker whatif`: which calls of a run another ticket would have refused.

Decided here: the words of the command, its table and its exit code. Not decided here: what the
calls come to (``broker.replay.whatif``).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED, UNDECIDED
from broker.cli.output import json_out, out, paint, printable, table
from broker.cli.recorded import Run
from broker.cli.typed import Json, Scopes
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.cli.recorded import RecordedRun
    from broker.replay.whatif import Answer, WhatIf

EXAMPLES = """\
\b
Examples:
  broker whatif --scope 'writes=src/**'               the latest session
  broker whatif k3v --scope @review --scope calls=20
  broker whatif k3v --scope 'tools=@reads' --attempted   with the calls that were refused then
  broker whatif k3v --scope @fix-tests --json

\b
Each call is decided at the instant at which it was made, with the counts that the ticket would have
had by then. All calls are held to the one ticket, those of subagents too. No model is asked: what
the agent would have done after its first refusal, nobody can tell.
Exit code: 0 none would be refused, 1 some would, 2 bad input, or of some it cannot be told.
"""


def whatif(
    run: Run = None,
    *,
    scope: Scopes = None,
    intent: Annotated[
        str | None,
        typer.Option(
            "--intent",
            metavar="TEXT",
            help="The typed line, for conditions that look into it.",
            show_default="the run's own",
        ),
    ] = None,
    attempted: Annotated[
        bool, typer.Option("--attempted", help="Take in the calls that were refused then.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Say which calls of a run another ticket would have refused."""
    from broker.cli.dry import DryRun
    from broker.cli.recorded import recorded
    from broker.home import Home
    from broker.intent import typed_text
    from broker.replay.whatif import what_if

    if not scope:
        raise InputError("under which scope? give --scope KEY=VALUE or --scope @NAME")
    home = Home.find(os.environ)
    with recorded(run, home, attempted=attempted) as found:
        line = found.run.line if intent is None else intent
        world = DryRun(found.run.workspace, home, catalogs=found.catalogs)
        ticket = world.ticket(scope, found.run.began_at, past_ok=True, intent=line)
        outcome = what_if(ticket, found.calls, typed_text(line) if line else None)
    if as_json:
        json_out(_document(found, outcome, scope))
    else:
        _tell(found, outcome, scope, attempted)
    return REFUSED if outcome.refused else UNDECIDED if outcome.undecided else ALLOWED


def _tell(found: RecordedRun, outcome: WhatIf, scope: list[str], attempted: bool) -> None:
    from broker.replay.reading import HOW

    run = found.run
    out(
        paint(f"run {run.name}", "bold") + printable(f"  {run.agent or 'agent'} in {run.workspace}")
    )
    out(f"under {printable('  '.join(scope))}")
    rows = [
        (
            str(a.read.seen.n),
            a.read.name,
            a.refusal.caveat if a.refusal else "?",
            a.reason or a.unknown,
        )
        for a in outcome.answers
        if a.refusal or a.unknown
    ]
    if rows:
        for line in table(rows, ("line", "tool", "caveat", "reason")):
            out(line)
    refused = len(outcome.refused)
    by = Counter(a.refusal.caveat for a in outcome.refused if a.refusal)
    named = ", ".join(f"{caveat} {count}" for caveat, count in sorted(by.items()))
    head = paint(f"{refused} of {len(outcome.answers)}", "red" if refused else "green")
    out(f"{head} calls would be refused" + (f" ({named})" if named else ""))
    if outcome.undecided:
        out(f"of {len(outcome.undecided)} it cannot be told")
    if outcome.left is not None:
        out(f"calls left: {outcome.left} of {outcome.limit}")
    before = len(run.calls) - len(run.ran)
    if before and not attempted:
        out(f"{before} refused then and left out: --attempted takes them in")
    for how, count in sorted(Counter(call.how for call in found.calls).items()):
        out(f"{count} {HOW[how]}")


def _document(found: RecordedRun, outcome: WhatIf, scope: list[str]) -> dict[str, object]:
    run = found.run
    return {
        "run": run.name,
        "agent": run.agent,
        "workspace": run.workspace,
        "scope": scope,
        "calls": [_row(answer) for answer in outcome.answers],
        "refused": len(outcome.refused),
        "undecided": len(outcome.undecided),
        "spent": outcome.spent,
        "left": outcome.left,
    }


def _row(answer: Answer) -> dict[str, object]:
    from broker.instants import format_instant

    seen, refusal = answer.read.seen, answer.refusal
    return {
        "n": seen.n,
        "at": format_instant(seen.at),
        "tool": answer.read.name,
        "actor": seen.actor,
        "call": seen.call_id,
        "then": "allow" if seen.ran else "refuse",
        "decision": "refuse" if refusal else "unknown" if answer.unknown else "allow",
        "caveat": refusal.caveat if refusal else None,
        "value": refusal.value if refusal else None,
        "reason": answer.reason or answer.unknown or None,
        "read": answer.read.how,
    }
