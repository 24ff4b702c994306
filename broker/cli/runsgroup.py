"""
`broker runs`: the recorded runs, and what can be done with them.

Decided here: that no word means `list`, and that a first word that names no command is a run to
show. A run whose name begins like a command is reached by `show`. Not decided here: what the
commands do.
"""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperGroup

from broker.cli import runcare, runevents, runs

_HELP: Final = frozenset(("-h", "--help"))


class _Runs(TyperGroup):
    """Takes no word for `list`, and any other first word for one of `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in _HELP):
            args = ["list", *args]
        elif args[0] not in self.commands and args[0] not in _HELP:
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


app = typer.Typer(cls=_Runs, help="Show the recordings of runs, and take care of them.")
app.command("list", epilog=runs.LIST_EXAMPLES)(runs.list_runs)
app.command("show", epilog=runs.SHOW_EXAMPLES)(runs.show)
app.command("events", epilog=runevents.EVENTS_EXAMPLES)(runevents.events)
app.command("checkpoints", epilog=runevents.CHECKPOINTS_EXAMPLES)(runevents.checkpoints)
app.command("graph", epilog=runevents.GRAPH_EXAMPLES)(runevents.graph_of)
app.command("export", epilog=runcare.EXPORT_EXAMPLES)(runcare.export)
app.command("scrub", epilog=runcare.SCRUB_EXAMPLES)(runcare.scrub)
app.command("gc", epilog=runcare.GC_EXAMPLES)(runcare.gc)
