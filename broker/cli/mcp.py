"""
`broker mcp`: a gateway in front of an MCP server; `broker mcp serve`: a server of our own.

Decided here: nothing but what was typed. What they do is ``broker.mcp``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.typed import Scopes, Workspace, existing_folder
from broker.errors import InputError

EXAMPLES = """\
\b
Examples:
  broker mcp --server git --scope tools=@reads -- mcp-server-git
  broker mcp --server docs --url https://docs.example.com/mcp
  broker mcp --server docs --url https://docs.example.com/mcp --listen 8377
  broker mcp serve --scope tools=@reads      which offers check, attenuate and describe; see --help
Put such a command where a client's configuration starts a server.

\b
Inside `broker run` the live session is asked, and a scope narrows its ticket for this server.
Elsewhere the gateway mints a ticket, and keeps a receipt of its own.
A server's tools are named mcp__SERVER__TOOL; resources and prompts are read by
mcp__SERVER__resources/read and mcp__SERVER__prompts/get.

\b
Exit code: the server's own when it ends first, else 0; 2 when nothing could be started.
"""


def mcp(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- SERVER...", show_default=False)
    ] = None,
    *,
    scope: Scopes = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="NAME", help="The server's name, in scopes and catalogs."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="A server over streamable HTTP; BROKER_MCP_URL holds one with a key in it.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME:VALUE",
            help="Sent to the server's address; BROKER_MCP_HEADERS holds secret ones, as JSON.",
        ),
    ] = None,
    listen: Annotated[
        int | None,
        typer.Option(
            "--listen", metavar="PORT", min=0, max=65_535, help="Serve clients over HTTP, too."
        ),
    ] = None,
    workspace: Workspace = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say only warnings and what went wrong.")
    ] = False,
) -> int:
    """Stand in front of an MCP server, and hold what is asked of it to the ticket."""
    from broker.mcp.serve import Served, serve

    typed = Served(
        tuple(command or ()),
        _secret_address() if url is None and not command else url,
        headers_of(header or ()),
        listen,
        server,
        tuple(scope or ()),
        Path(existing_folder(workspace)),
        quiet,
    )
    return serve(typed)


SERVE_EXAMPLES = """\
\b
Examples:
  broker mcp serve --scope 'tools=@reads' --scope calls=40 --intent 'review the parser'
  claude mcp add broker -- broker mcp serve --scope 'paths=src/**'

\b
An MCP server on standard input and output with three tools: check, attenuate, describe. A harness
asks `check` before each call; the answer is recorded, and an allowed call is counted. Inside
`broker run` the live session is asked, and a scope narrows its ticket for this client. Elsewhere a
ticket is minted from what was typed, and its receipt is sealed when the client hangs up.

\b
It only answers: who asks must heed it. A gateway before a server holds it, see `broker mcp --help`.
"""


def serve(
    *,
    scope: Scopes = None,
    intent: Annotated[
        str | None,
        typer.Option("--intent", metavar="TEXT", help="What it is for; kept in the receipt."),
    ] = None,
    workspace: Workspace = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say only warnings and what went wrong.")
    ] = False,
) -> int:
    """Offer check, attenuate and describe as tools of an MCP server."""
    from broker.mcp.offering import offer

    folder = Path(existing_folder(workspace))
    return offer(scope or (), workspace=folder, intent=intent, quiet=quiet)


def headers_of(typed: Sequence[str]) -> dict[str, str]:
    """
    Return the headers for a server's address: the secret ones, and those that were typed.

    Raises:
        InputError: one is malformed.
    """
    return {**_secret_headers(), **dict(map(_header, typed))}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise InputError("a header is written `NAME:VALUE`")
    return name.strip(), value.strip()


def _secret_address() -> str | None:
    from broker.mcp.config import ADDRESS_VARIABLE

    return os.environ.pop(ADDRESS_VARIABLE, None) or None


def _secret_headers() -> dict[str, str]:
    from broker.mcp.config import HEADERS_VARIABLE

    text = os.environ.pop(HEADERS_VARIABLE, "")
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise InputError(f"`{HEADERS_VARIABLE}` is a JSON object of texts")
    return found
