"""
`broker inspect`: what is a run made of, before anything runs?

Decided here: how the report of ``broker.inspection`` is shown. Nothing is dispatched, no session
is opened, and what a workspace brings along is listed and never executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, MEANING
from broker.cli.output import out, paint, printable
from broker.cli.typed import Json, Scopes, Workspace, existing_folder
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.agentloop.sitting import Sitting
    from broker.inspection.report import Document

EXAMPLES = f"""\
\b
Examples:
  broker inspect runtime
  broker inspect runtime --scope 'paths=src/**' --mode auto
  broker inspect runtime --json --include-content > runtime.json

\b
The JSON is the same bytes for the same runtime, in any folder and on any day, so that two of
them can be compared. Secrets are hidden in it either way.

\b
{MEANING}
"""

app = typer.Typer(
    help="Tell what a run is made of, without running it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def inspect() -> None:
    """Tell what a run is made of, without running it."""


@app.command("runtime", epilog=EXAMPLES)
def runtime(
    scopes: Scopes = None,
    workspace: Workspace = None,
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="MODE", help="How much runs without a question.")
    ] = None,
    as_json: Json = False,
    content: Annotated[
        bool,
        typer.Option(
            "--include-content", help="Tell descriptions, schemas and settings, not only digests."
        ),
    ] = False,
) -> int:
    """Tell what the reference agent is made of: capabilities, tools, hooks, rules, catalogs."""
    from broker.agentloop.registered import agent_items
    from broker.capabilities.bundle import real_capabilities
    from broker.harness.composition import Choices, compose, settle
    from broker.harness.tools import TOOLS
    from broker.inspection.report import brought_along, report_text, runtime_report

    world, root, choices = real_capabilities(), existing_folder(workspace), Choices(mode)
    home, config, _ = settle(world, choices)
    brought = brought_along(world, home, root)
    hooks = brought.hooks if brought else ()
    items = agent_items(_nobody, config, world.process.environ)
    composition = compose(world, root, choices, (*TOOLS, *hooks, *items))
    document = runtime_report(composition, scopes or [], brought=brought, content=content)
    if as_json:
        out(report_text(document))
    else:
        _words(document)
    return ALLOWED


def _nobody() -> Sitting:
    raise InputError("nobody sits here: nothing runs for a report")


def _words(document: Document) -> None:
    kinds = ", ".join(f"{name} {kind}" for name, kind in document["capabilities"].items())
    _row("capabilities", kinds)
    _row("tools", ", ".join(tool["name"] for tool in document["tools"]))
    for name in ("hooks", "commands", "flags", "providers"):
        _row(name, ", ".join(item["name"] for item in document[name]))
    sections = ", ".join(section["name"] for section in document["prompt"]["sections"])
    _row("prompt", f"{document['prompt']['sha256'][:16]}: {sections}")
    ticket = document["ticket"]
    texts = [f"{c['kind']}: {c['text']}" for c in ticket["caveats"]]
    _row("ticket", "; ".join(texts) or "everything is permitted: no scope was given")
    rules = document["permissions"]
    answers = (f"{name} {said['answer']}" for name, said in rules["effects"].items())
    _row("permissions", f"{rules['mode']}: {', '.join(answers)}")
    _row("catalogs", ", ".join(each["source"] for each in document["catalogs"]))
    words = {True: "trusted", False: "not trusted"}
    _row(
        "workspace",
        ", ".join(f"{f['path']} ({words[f['trusted']]})" for f in document["workspace"]),
    )


def _row(name: str, text: str) -> None:
    out(f"{paint(f'{name:<13}', 'bold')}{printable(text or 'none')}")
