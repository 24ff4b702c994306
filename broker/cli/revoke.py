"""
`broker revoke`: take a ticket back while it is in use, with all that was narrowed from it.

Decided here: which ticket a name means, and that a run does not revoke by itself: it is the
person's decision, and recorded as theirs. Not decided here: how sessions come to know of it
(``broker.sessions.revoking``, ``broker.budgets``).
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli.exits import ALLOWED
from broker.cli.output import err, json_out, out, paint, printable
from broker.cli.typed import Json
from broker.errors import BrokerError, InputError

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt.keys import Key

EXAMPLES = """\
\b
Examples:
  broker revoke 7f2 --reason 'wrong folder'               a session: the ticket it works under
  broker revoke 0f1e2d3c4b5a6978 --reason 'done early'    one ticket, such as a subagent's
  broker receipt 7f2                                      names the tickets of a session

\b
From its next call on, nothing is allowed under the ticket or under one that was narrowed from it;
what was let through before goes on. Where broker.toml has a `[budget]`, that holds on every machine
that counts there. Nothing takes it back: type another scope.
Exit code: 0 revoked (or revoked before), 2 bad input or it could not be written everywhere.
"""
MAX_REASON_CHARS: Final = 1_000
_TICKET: Final = re.compile(r"[0-9a-f]{16}")


def revoke(
    name: Annotated[
        str, typer.Argument(metavar="SESSION|TICKET", help="How a session's name begins, or an id.")
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in receipts.")],
    as_json: Json = False,
) -> int:
    """Take a ticket back while it is in use: nothing is allowed under it any more."""
    from broker.budgets.store import Revoked
    from broker.cli.wires import installation_key
    from broker.home import Home
    from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE
    from broker.sessions.counting import revoke_everywhere

    if os.environ.get(SESSION_VARIABLE) or os.environ.get(SOCKET_VARIABLE):
        raise InputError("a run does not revoke its own tickets: type it at another terminal")
    why = " ".join(reason.split())
    if not why or len(why) > MAX_REASON_CHARS or not why.isprintable():
        raise InputError(f"say why, in a line of at most {MAX_REASON_CHARS} characters")
    home = Home.find(os.environ)
    key = installation_key(home)
    ticket, sid = (name, None) if _TICKET.fullmatch(name) else _in_force(name, home, key)
    new, shared = revoke_everywhere(Revoked(ticket, why, time.time_ns()), home, key)
    if as_json:
        json_out({"ticket": ticket, "session": sid, "new": new, "shared": shared})
        return ALLOWED
    of = "" if sid is None else f" of session {sid}"
    if sid is None and not _is_named(ticket, home, key):
        err("warning: no session that runs here has recorded a ticket of that id: is it right?")
    if not new:
        err("it was revoked before; that stands, with its own reason")
    out(f"{paint('revoked', 'yellow')}: ticket {ticket}{printable(of)}")
    return ALLOWED


def _is_named(ticket: str, home: Home, key: Key) -> bool:
    """Whether a session that runs on this machine has recorded a ticket."""
    from broker.receipt.store import Receipts
    from broker.receipt.verify import read_entries
    from broker.sessions.alive import running

    receipts = Receipts(home, key)
    for sid in running(home.sessions):
        head = receipts.head_path(sid)
        with suppress(BrokerError):  # another session's fault is not what was asked about
            for entry in read_entries(receipts.path(sid), key, head, sid=sid):
                if entry.kind in ("ticket", "delegate") and entry.data.get("ticket") == ticket:
                    return True
    return False


def _in_force(name: str, home: Home, key: Key) -> tuple[str, str]:
    """Return the root ticket that a session works under, and the session's whole name."""
    from broker.receipt.store import Receipts
    from broker.receipt.verify import read_entries

    receipts = Receipts(home, key)
    sid = receipts.find(name)
    found = ""
    for entry in read_entries(receipts.path(sid), key, receipts.head_path(sid), sid=sid):
        if entry.kind == "seal":
            raise InputError(f"session `{sid}` is over: nothing is allowed under its tickets")
        if entry.kind == "ticket" and "beside" not in entry.data:
            found = str(entry.data.get("ticket"))
    return found, sid
