"""
`broker replay`: play a recorded run again, without its model.

Decided here: the words of the command, and the exit code. Not decided here: how a run is played
(``broker.replay``).
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import err, json_out, printable
from broker.cli.typed import Json
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.replay.outcome import ReplayOutcome

_SHOWN: Final = 8  # refused results that are named

EXAMPLES = """\
\b
Examples:
  broker replay                       the latest recorded run
  broker replay run_9f2c --strict     any difference is a failure
  broker replay --json >outcome.json
  broker replay run_9f2c --live-tools             shells and MCP servers run again
  broker replay run_9f2c --from 40                the recording up to event 40, then the model
  broker replay run_9f2c --from 40 --model claude-haiku-4-5 --into ../other
  broker replay run_9f2c --from 40 --model openai/gpt-5        another provider's, translated

\b
The agent is started as it was started then, in a scratch folder, and asks the recording in place of
its model. How well each request is met is always told:
  rung 1   the same, but for what differs between two runs of the same agent
  rung 2   the next of its conversation, with as many messages and next to no distance (minor)
  rung 3   the next of its conversation, with the same last message after another past (major)
  rung 4   none: the agent is stopped, and told why
\b
Shells that carried out a call of a tool and MCP servers are not started: what they said and left
behind comes from the recording, and what is not on record is refused, named and counted.
\b
With --from the network is open and tools act for real, in the scratch folder; --into keeps it. A
fork begins at the last checkpoint that is not after the event that you name: see `broker runs
checkpoints`. It is a run like any other, and can be forked again.
\b
Exit code: 0 every request was met, and no request and no result is missing (with --strict: all on
rung 1), 1 not so, 2 it cannot be played.
"""


def replay(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", show_default="the latest recorded run")
    ] = None,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Any divergence is a failure.")] = False,
    loose: Annotated[
        bool, typer.Option("--loose", help="Ask the model what was not recorded.")
    ] = False,
    from_: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="N",
            min=0,
            help="Fork: play up to event N, and ask the model from there on.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="NAME", help="With --from: ask this model.", show_default=False
        ),
    ] = "",
    live_tools: Annotated[
        bool,
        typer.Option(
            "--live-tools", help="Run shells and MCP servers again, in the scratch folder."
        ),
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="DIR",
            help="Keep the scratch folder here; a new or an empty one.",
            show_default=False,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say only warnings and what went wrong.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Play a recorded run again: same agent, no model, no network, no harm."""
    from broker.cli.recorded import played
    from broker.home import Home
    from broker.replay.exact import replay as again
    from broker.replay.forking import fork_at

    if model and from_ is None:
        raise InputError("--model goes with --from N: an exact replay asks no model")
    if strict and loose:
        raise InputError("--strict and --loose: say one of them")
    home = Home.find(os.environ)
    what = played(run, home)
    fork = None if from_ is None else fork_at(what.reader, from_, model)
    what = replace(what, fork=fork, loose=loose, into=into, live_tools=live_tools)
    if fork is not None:
        err(f"broker: {printable(str(fork))}")
    aside = _aside() if as_json else -1
    try:
        outcome = again(what, home=home, environ=os.environ, stderr=sys.stderr, quiet=quiet)
    finally:
        if aside >= 0:
            os.dup2(aside, 1)
            os.close(aside)
    if as_json:
        json_out(document(outcome, what.reader.manifest.run_id))
    else:
        _tell(outcome, what.reader.manifest.run_id)
    return ALLOWED if outcome.holds(strict=strict, loose=loose) else REFUSED


def _aside() -> int:
    """Let what the agent says go to our stderr, since stdout holds one document."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _tell(outcome: ReplayOutcome, parent: str) -> None:
    err(f"broker: replayed {parent} as {outcome.run_id}: {outcome}")
    err(f"broker: {printable(str(outcome.isolation))}")
    if outcome.halted:
        err(f"broker: {printable(outcome.halted)}")
    _tell_results(outcome)
    if outcome.left:
        named = ", ".join(str(kept.seq) for kept in outcome.left[:8])
        err(f"broker: {len(outcome.left)} recorded requests were not asked for (events {named})")
    if outcome.then is not None and outcome.code != outcome.then:
        err(f"broker: the agent ended with {outcome.code}, and with {outcome.then} then")


def _tell_results(outcome: ReplayOutcome) -> None:
    results = outcome.results
    if results is None:
        err("broker: tools ran again, in the scratch folder")
        return
    err(f"broker: {printable(str(results))}")
    for named in results.named[:_SHOWN]:
        err(f"broker: refused: {printable(named)}")
    if len(results.named) > _SHOWN:
        err(f"broker: {results.refused - _SHOWN} more were refused: see `--json`")
    if outcome.lost:
        err(f"broker: the scratch folder does not follow the recording: {printable(outcome.lost)}")


def document(outcome: ReplayOutcome, parent: str) -> dict[str, object]:
    """Return what a replay came to as JSON data."""
    return {
        "run": outcome.run_id,
        "parent": parent,
        "isolation": {
            "level": outcome.isolation.level,
            "why": outcome.isolation.why or None,
            "in_place": outcome.isolation.in_place,
        },
        "recorded": outcome.recorded,
        "reused": outcome.reused,
        "rungs": {str(rung): outcome.rungs.get(rung, 0) for rung in (1, 2, 3)},
        "unmatched": outcome.unmatched,
        "live": outcome.live,
        "results": _results(outcome),
        "fork_point": None if outcome.fork is None else outcome.fork.point,
        "model": (outcome.fork.model or None) if outcome.fork is not None else None,
        "not_asked": [kept.seq for kept in outcome.left],
        "divergences": [
            {
                "rung": played.match.rung,
                "expected": None if played.match.kept is None else played.match.kept.seq,
                "distance": round(played.match.distance, 4),
                "why": played.match.why,
            }
            for played in outcome.told
        ],
        "halted": outcome.halted or None,
        "exit_code": outcome.code,
        "exit_code_then": outcome.then,
        "exact": outcome.exact,
    }


def _results(outcome: ReplayOutcome) -> dict[str, object]:
    """Return what became of the tools' results: which came from the record, and which ran."""
    found = outcome.results
    if found is None:
        return {"from": "tools"}
    return {
        "from": "record",
        "shell": found.of("shell"),
        "mcp": found.of("mcp"),
        "refused": list(found.named),
        "not_asked": list(found.left),
        "workspace_lost": outcome.lost or None,
    }
