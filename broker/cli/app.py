"""The `broker` command: which commands there are, and what stands in its help."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from broker.cli import (
    agent,
    answer,
    catalog,
    check,
    compare,
    doctor,
    init,
    inspectgroup,
    key,
    mcp,
    policy,
    receiptgroup,
    record,
    replay,
    revoke,
    run,
    runsgroup,
    scope,
    serve,
    sessions,
    suggest,
    ticket,
    verifyrun,
    whatif,
)
from broker.cli.exits import MEANING, UNDECIDED
from broker.cli.output import out

EPILOG = f"""\
\b
Start with:
  broker scope show 'tools=@reads' 'paths=src/**' calls=60
  broker run --scope 'paths=src/**' --scope calls=60 -- claude
  broker receipt --verify

\b
`broker hook AGENT` is for an agent's own hooks; `broker run` sets it up.
{MEANING}
"""

ORDER = (
    "run",
    "record",
    "agent",
    "init",
    "mcp",
    "serve",
    "check",
    "answer",
    "revoke",
    "scope",
    "policy",
    "catalog",
    "ticket",
    "receipt",
    "sessions",
    "runs",
    "replay",
    "compare",
    "whatif",
    "suggest",
    "verify",
    "key",
    "inspect",
    "doctor",
)

MCP_SERVE = "mcp serve"  # a command of two words


class _Ordered(TyperGroup):
    """Lists the commands in the order in which a person meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(ORDER)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Not a program that happens to be called so: that one is named behind `--`.
        if args[:2] == ["mcp", "serve"]:
            args = [MCP_SERVE, *args[2:]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="broker",
    cls=_Ordered,
    epilog=EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        out(f"broker {version('capability-broker')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def broker(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which version."),
    ] = False,
) -> int:
    """Hold an AI agent to what a person asked for, and prove afterwards what it was allowed."""
    if context.invoked_subcommand is None:
        out(context.get_help())
        return UNDECIDED
    return 0


app.command(
    "run",
    epilog=run.EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)(run.run)
app.command(
    "record",
    epilog=record.EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)(record.record)
app.command("agent", epilog=agent.EXAMPLES)(agent.agent)
app.command("init", epilog=init.EXAMPLES)(init.init)
app.command(
    "mcp",
    epilog=mcp.EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)(mcp.mcp)
app.command(MCP_SERVE, epilog=mcp.SERVE_EXAMPLES)(mcp.serve)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("check", epilog=check.EXAMPLES)(check.check)
app.command("answer", epilog=answer.EXAMPLES)(answer.answer)
app.command("revoke", epilog=revoke.EXAMPLES)(revoke.revoke)
app.add_typer(scope.app, name="scope")
app.add_typer(ticket.app, name="ticket")
app.add_typer(policy.app, name="policy")
app.add_typer(catalog.app, name="catalog")
app.add_typer(receiptgroup.app, name="receipt")
app.command("sessions", epilog=sessions.EXAMPLES)(sessions.sessions)
app.add_typer(runsgroup.app, name="runs")
app.command("replay", epilog=replay.EXAMPLES)(replay.replay)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("whatif", epilog=whatif.EXAMPLES)(whatif.whatif)
app.command("suggest", epilog=suggest.EXAMPLES)(suggest.suggest)
app.command("verify", epilog=verifyrun.EXAMPLES)(verifyrun.verify)
app.add_typer(key.app, name="key")
app.add_typer(inspectgroup.app, name="inspect")
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
