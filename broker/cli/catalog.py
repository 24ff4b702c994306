"""
`broker catalog`: what is known of tools, and a first draft for those that are not.

Decided here: nothing of what a tool means. A draft goes to standard output, for a person to read,
mend and put among their own catalogs; nothing is put there by itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, MEANING
from broker.cli.output import err, json_out, out, printable, raw_out, table
from broker.cli.typed import Json, Workspace, folder
from broker.errors import CatalogError, InputError

if TYPE_CHECKING:
    from broker.catalogs.entry import Argument, ToolEntry

DRAFT_EXAMPLES = f"""\
\b
Examples:
  broker catalog draft --mcp -- mcp-server-git > git.toml
  broker catalog draft --mcp --server docs --url https://docs.example.com/mcp > docs.toml

\b
The server is started, or reached, and asked for its list of tools; none is called. From names,
types and formats a role is guessed for each argument, on the side that is refused, with a comment
that says so. What the server claims of itself, such as `readOnlyHint`, is kept as a comment. Review
the draft, then put it into the `catalogs` folder of your configuration.

\b
{MEANING}
"""
CHECK_EXAMPLES = f"""\
\b
Examples:
  broker catalog check git.toml
  broker catalog check ./catalogs/team.toml

\b
{MEANING}
"""
SHOW_EXAMPLES = f"""\
\b
Examples:
  broker catalog show
  broker catalog show Edit
  broker catalog show mcp__git__git_log --json

\b
{MEANING}
"""

app = typer.Typer(
    help="What is known of tools, and drafts for others.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("draft", epilog=DRAFT_EXAMPLES, context_settings={"allow_interspersed_args": False})
def draft(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- SERVER...", show_default=False)
    ] = None,
    *,
    mcp: Annotated[bool, typer.Option("--mcp", help="Ask an MCP server.")] = False,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="NAME", help="The server's name, in scopes and catalogs."),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="A server over streamable HTTP.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME:VALUE",
            help="Sent to the server's address; BROKER_MCP_HEADERS holds secret ones, as JSON.",
        ),
    ] = None,
) -> int:
    """Draft a catalog from what a server says of its tools, for you to review."""
    from broker.catalogs.draft import draft as drafted
    from broker.cli.mcp import headers_of
    from broker.mcp.listing import list_of_address, list_of_process
    from broker.mcp.serve import Served, server_name
    from broker.mcp.upstream import Upstream

    if not mcp:
        raise InputError("say whose tools: `--mcp -- SERVER...`, or `--mcp --url URL`")
    typed = Served(tuple(command or ()), url, server=server)
    name = server_name(typed)
    if url is not None:
        tools = list_of_address(Upstream(url, headers_of(header or ())))
    else:
        tools = list_of_process(
            typed.command,
            os.environ,
            lambda limit_s: err(f"waiting for the server, up to {limit_s:.0f} s"),
        )
    raw_out(drafted(name, tools).encode())
    err(f"a draft of {len(tools)} tools: review it, then `broker catalog check` it")
    return ALLOWED


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
) -> int:
    """Say whether a catalog is well-formed; if not, where and how to mend it."""
    entries = _read(file)
    count = len(entries)
    out(f"well-formed: {count} tool{'' if count == 1 else 's'}")
    for entry in entries:
        if entry.effect in ("read", "none"):
            out(f"    {printable(entry.name)}: in `@reads`, since its effect is `{entry.effect}`")
    return ALLOWED


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", show_default="every tool that is known")
    ] = None,
    workspace: Workspace = None,
    as_json: Json = False,
) -> int:
    """Show what is known of tools here: what each does, and what its arguments mean."""
    from broker.catalogs import load_catalogs
    from broker.home import Home

    catalogs = load_catalogs(Path(folder(workspace)), Home.find(os.environ).config)
    found = sorted(catalogs.tools(), key=lambda entry: entry.name)
    if tool is not None:
        found = [entry for entry in found if entry.name == tool]
        if not found:
            raise InputError(f"no catalog describes `{tool}`: what it touches cannot be told")
    if as_json:
        json_out([_document(entry) for entry in found])
    elif tool is None:
        rows = [(entry.name, entry.effect, _where(entry)) for entry in found]
        for line in table(rows, ("tool", "effect", "catalog")):
            out(line)
    else:
        _tell(found[0])
    return ALLOWED


def _read(file: Path) -> tuple[ToolEntry, ...]:
    from broker.catalogs.reader import read_catalog
    from broker.limits import MAX_CATALOG_BYTES

    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_CATALOG_BYTES + 1)
    except OSError as error:
        raise CatalogError(f"{file}: cannot be read: {error.strerror}") from error
    return read_catalog(data, str(file))


def _tell(entry: ToolEntry) -> None:
    from broker.catalogs.entry import EFFECTS, ROLES

    out(f"{printable(entry.name)}  {entry.effect}: {EFFECTS[entry.effect]}")
    out(f"    from {printable(_where(entry))}")
    for name, argument in entry.arguments.items():
        words = ROLES.get(argument.role, "what is inside it")
        out(f"    {printable(name)}  {_role(argument)}: {words}")


def _role(argument: Argument) -> str:
    return argument.role + (" (a list)" if argument.many else "")


def _where(entry: ToolEntry) -> str:
    return entry.source + ("" if entry.vouched else " (of the workspace, not vouched for)")


def _document(entry: ToolEntry) -> dict[str, object]:
    return {
        "tool": entry.name,
        "server": entry.server,
        "effect": entry.effect,
        "vouched": entry.vouched,
        "source": entry.source,
        "arguments": {name: _argument(each) for name, each in entry.arguments.items()},
    }


def _argument(argument: Argument) -> dict[str, object]:
    found: dict[str, object] = {"role": argument.role, "required": argument.required}
    if argument.many:
        found["many"] = True
    if argument.fields is not None:
        found["fields"] = {name: _argument(each) for name, each in argument.fields.items()}
    return found
