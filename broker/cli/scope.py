"""
`broker scope`: what does this scope say, and is it well-formed?

Decided here: nothing. A scope is shown as it will be held to: durations as the instant that
they became, policies and groups as what they stand for.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, MEANING
from broker.cli.output import caveat_document, err, json_out, out, paint, printable
from broker.cli.typed import Json, Workspace, folder

if TYPE_CHECKING:
    from broker.cli.dry import DryRun
    from broker.scope import Scope

SHOW_EXAMPLES = f"""\
\b
Examples:
  broker scope show 'tools=@reads,edit_file' 'paths=src/**' calls=60 until=45m
  broker scope show @review hosts=none
  broker scope show 'tools=@reads,fetch(url host in {{example.com}}, body absent)'
  broker scope show 'writes=src/parser/**' --json

\b
{MEANING}
"""
CHECK_EXAMPLES = f"""\
\b
Examples:
  broker scope check 'paths=src/**' hosts=api.github.com
  broker scope check @fix-tests || echo 'mend it first'

\b
{MEANING}
"""

_NO_LINE = "-"
app = typer.Typer(
    help="Read a scope, and say what it means.", no_args_is_help=True, rich_markup_mode=None
)
Texts = Annotated[list[str], typer.Argument(metavar="TEXT...", show_default=False)]


@app.command("show", epilog=SHOW_EXAMPLES)
def show(texts: Texts, workspace: Workspace = None, as_json: Json = False) -> int:
    """Explain a scope in plain words, and show the text that it is kept as."""
    at = time.time_ns()
    from broker.cli.dry import DryRun
    from broker.home import Home

    world = DryRun(folder(workspace), Home.find(os.environ))
    scope = world.scope(texts, at)
    if as_json:
        _json(scope)
    else:
        _words(scope, world, texts, at)
    return ALLOWED


@app.command("check", epilog=CHECK_EXAMPLES)
def check(texts: Texts, workspace: Workspace = None) -> int:
    """Say whether a scope is well-formed; if not, where and how to mend it."""
    from broker.cli.dry import DryRun
    from broker.home import Home

    scope = DryRun(folder(workspace), Home.find(os.environ)).scope(texts, time.time_ns())
    _warn(scope)
    count = len(scope.caveats)
    out(f"well-formed: {count} caveat{'' if count == 1 else 's'}")
    return ALLOWED


def _words(scope: Scope, world: DryRun, texts: list[str], at: int) -> None:
    from broker.caveats import show as shortly
    from broker.cli.explain import explain, outlook
    from broker.scope import render

    for caveat in scope.caveats:
        out(paint(printable(shortly(caveat)), "bold"))
        for line in explain(caveat, at):
            out(f"    {printable(line)}")
    # A line that nobody typed yet: nothing is decided by this ticket.
    _section("Besides", outlook(world.ticket(texts, at, intent=_NO_LINE), world.catalogs))
    _section("Kept as", render(scope.caveats))
    _warn(scope)


def _section(head: str, lines: Sequence[str]) -> None:
    if lines:
        out(f"\n{paint(head, 'bold')}")
        for line in lines:
            out(f"    {printable(line)}")


def _json(scope: Scope) -> None:
    from broker.scope import render

    json_out(
        {
            "texts": list(render(scope.caveats)),
            "caveats": [caveat_document(c) for c in scope.caveats],
            "warnings": list(scope.warnings),
        }
    )


def _warn(scope: Scope) -> None:
    for warning in scope.warnings:
        err(f"{paint('warning:', 'yellow', sys.stderr)} {printable(warning)}")
