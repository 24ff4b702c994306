"""
`broker receipt adopt` and `broker receipt retire`: what a person decides about a finding.

Decided here: the words. Both ask nothing and need a reason, which stands in the ledger for good.
Not decided here: when they are refused (``broker.receipt.repair``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED
from broker.cli.output import json_out, out, printable
from broker.cli.typed import Json
from broker.errors import InputError

if TYPE_CHECKING:
    from broker.receipt import Receipts

ADOPT_EXAMPLES: Final = """\
\b
Examples:
  broker receipt adopt k3v --reason 'restored from the backup of Monday'
  broker receipt adopt --ledger --reason 'the disk lost it'

\b
Accepts a session as it is now: its lines verify, and are not what its head or the ledger says of
them. From then on that state is the one to keep, and every verdict says that it was adopted.
A receipt that does not verify by itself cannot be adopted. Of a forward-secure session only the
auditor can tell: bring --auditor-key FILE for as long as this takes, and take it away again.
With --ledger another ledger begins, in which every session that verifies is adopted; what is left
of the old one is kept beside it.
Exit code: 0 adopted, 1 it does not verify by itself, 2 nothing is wrong, or it cannot be done.
"""
RETIRE_EXAMPLES: Final = """\
\b
Examples:
  broker receipt retire k3v --reason 'deleted after a year, as agreed'

\b
Says that a session was taken away knowingly. Its receipt must be gone already; nothing is deleted
here. From then on it is told as RETIRED, and a receipt that is there again is a break.
Exit code: 0 retired, 2 nothing is missing, or it cannot be done.
"""

Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; stands in the ledger for good.")
]


def adopt(
    reason: Reason,
    id_: Annotated[
        str | None,
        typer.Argument(autocompletion=completing.session_ids, metavar="[ID]", show_default=False),
    ] = None,
    *,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Begin another ledger, and adopt what verifies.")
    ] = False,
    auditor_key: Annotated[
        str | None,
        typer.Option(
            "--auditor-key",
            metavar="FILE",
            help="Check the tags of a forward-secure session with this private key.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Accept a session as it is now, and say why."""
    from broker.receipt.repair import adopt as adopt_session
    from broker.receipt.repair import adopt_ledger
    from broker.receipt.sealing import load_auditor

    if ledger == (id_ is not None):
        raise InputError("name one session, or give --ledger")
    if ledger and auditor_key is not None:
        raise InputError("--auditor-key goes with one session: leave it out beside --ledger")
    receipts = _receipts()
    if id_ is None:
        adopted, left = adopt_ledger(receipts, reason=reason, at=time.time_ns())
        if as_json:
            json_out({"adopted": adopted, "left": left})
        else:
            out(f"another ledger begins; sessions adopted: {len(adopted)}")
            for sid in left:
                out(f"    not adopted, since it does not verify: {printable(sid)}")
        return ALLOWED
    sid = receipts.find(id_)
    auditor = None if auditor_key is None else load_auditor(Path(auditor_key))
    with _not_running(receipts, sid):
        found = adopt_session(receipts, sid, reason=reason, at=time.time_ns(), auditor=auditor)
    return _told("adopted", sid, found.reason, found.message, as_json)


def retire(
    id_: Annotated[str, typer.Argument(autocompletion=completing.session_ids, metavar="ID")],
    reason: Reason,
    as_json: Json = False,
) -> int:
    """Say that a session was taken away knowingly, and why."""
    from broker.receipt.repair import retire as retire_session

    receipts = _receipts()
    sid = receipts.find(id_)
    found = retire_session(receipts, sid, reason=reason, at=time.time_ns())
    return _told("retired", sid, found.reason, found.message, as_json)


def _told(done: str, sid: str, reason: str, message: str, as_json: bool) -> int:
    if as_json:
        json_out({done: sid, "found": {"reason": reason, "message": message}})
    else:
        out(f"{done} {sid}, found as: {printable(message)}")
    return ALLOWED


@contextmanager
def _not_running(receipts: Receipts, sid: str) -> Iterator[None]:
    """Keep the session's own broker away; what was abandoned stays so, for the next start."""
    from broker.sessions.alive import LOCK_NAME, Alive

    folder = receipts.path(sid).parent
    if not os.path.lexists(folder / LOCK_NAME):
        yield
        return
    lock = Alive.hold(folder, create=False)
    try:
        yield
    finally:
        lock.drop()


def _receipts() -> Receipts:
    from broker.cli.wires import installation_key
    from broker.home import Home
    from broker.receipt import Receipts

    home = Home.find(os.environ)
    return Receipts(home, installation_key(home))
