"""
`broker ticket`: look at a ticket, narrow it, take it back, verify it.

Decided here: nothing about tickets. Nothing of one is shown before its MAC chain holds, and a
narrowed one is written only when it permits no more than the one it came from.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import revoke
from broker.cli.exits import ALLOWED, MEANING
from broker.cli.output import caveat_document, err, json_out, out, paint, printable
from broker.cli.typed import Json, Scopes, Workspace, folder
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.ticket import Ticket

_CODES = (
    "Exit code: 0 verified (or narrowed), 1 not verified (or it would widen), 2 bad input or no "
    "key to verify with."
)
SHOW_EXAMPLES = f"""\
\b
Examples:
  broker ticket show child.ticket
  broker ticket show - --json < child.ticket

\b
{_CODES}
"""
ATTENUATE_EXAMPLES = f"""\
\b
Examples:
  broker ticket attenuate parent.ticket --scope 'paths=src/parser/**' > child.ticket
  broker ticket attenuate - --scope calls=5 --scope until=10m < parent.ticket
  broker ticket attenuate --scope calls=5 > child.ticket      inside `broker run`

\b
The narrowed ticket goes to stdout. Whoever holds it can use it: keep the file to yourself.
{_CODES}
"""
VERIFY_EXAMPLES = f"""\
\b
Examples:
  broker ticket verify child.ticket
  broker ticket verify child.ticket && echo 'made here, and never widened'

\b
{_CODES}
"""

app = typer.Typer(
    help="Look at a ticket, narrow it, take it back, verify it.",
    epilog=MEANING,
    no_args_is_help=True,
    rich_markup_mode=None,
)
File = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE]",
        help="A ticket's wire form; - for stdin; inside a run, the live session's when left out.",
    ),
]


@app.command("show", epilog=SHOW_EXAMPLES)
def show(file: File = None, as_json: Json = False) -> int:
    """Show a ticket link by link, once it is verified."""
    from broker.ticket import describe

    ticket = _believed(file)
    if as_json:
        json_out(_document(ticket))
    else:
        for line in describe(ticket):
            out(printable(line))
    return ALLOWED


@app.command("attenuate", epilog=ATTENUATE_EXAMPLES)
def narrow(file: File = None, scope: Scopes = None, workspace: Workspace = None) -> int:
    """Write a narrower ticket; a widening is refused, and the caveat named."""
    if not scope:
        raise InputError("say how to narrow it, such as --scope calls=5")
    if file is None:
        from broker.cli.wires import live_session

        # The session records it, and holds whoever asks under it to its count.
        out(live_session().delegate(*scope).ticket or "")
        return ALLOWED
    from broker.cli.dry import DryRun
    from broker.home import Home
    from broker.ticket import attenuate

    parent = _believed(file)
    added = DryRun(folder(workspace), Home.find(os.environ)).scope(scope, time.time_ns())
    for warning in added.warnings:
        err(f"warning: {printable(warning)}")
    # A nonce tells siblings apart, so that each has a count of its own.
    out(attenuate(parent, *added.caveats, nonce=os.urandom(8).hex()).wire())
    return ALLOWED


app.command("revoke", epilog=revoke.EXAMPLES)(revoke.revoke)


@app.command("verify", epilog=VERIFY_EXAMPLES)
def verify(file: File = None) -> int:
    """Say whether a ticket was made by this installation and never widened."""
    ticket = _believed(file)
    links = len(ticket.links)
    what = "1 link" if links == 1 else f"{links} links, each within the one before it"
    out(f"{paint('verified', 'green')}: ticket {ticket.id}, {what}")
    return ALLOWED


def _believed(file: str | None) -> Ticket:
    from broker.cli.wires import believed
    from broker.home import Home

    return believed(file, Home.find(os.environ))


def _document(ticket: Ticket) -> dict[str, object]:
    from broker.instants import format_instant

    return {
        "id": ticket.id,
        "root": ticket.root_id,
        "session": ticket.sid,
        "minted_at": format_instant(ticket.minted_at),
        "intent": ticket.intent or None,
        "links": [
            {"id": link.id, "caveats": [caveat_document(c) for c in link.caveats]}
            for link in ticket.links
        ],
    }
