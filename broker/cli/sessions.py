"""
`broker sessions`: which sessions there were, the latest first, and in what state each is.

Decided here: that the list comes from the ledger, so that a session which was removed is in it, and
that a state is the one its rows give until somebody asks for more: reading every receipt would take
minutes where there are thousands. What is shown of a receipt is authentic all the same. Not decided
here: what a state is (``broker.receipt.audit``).
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED
from broker.cli.output import err, json_out, out, printable, table
from broker.cli.typed import Json
from broker.errors import Break, BrokerError

if TYPE_CHECKING:
    from broker.receipt import Key, Receipts, SessionInfo
    from broker.receipt.book import Book, Listed

EXAMPLES = """\
\b
Examples:
  broker sessions
  broker sessions --verify            with every receipt read, which takes longer
  broker sessions --json
  broker receipt 7f2 --verify         what became of one of them

\b
STATE as the ledger has it: SEALED complete; INTERRUPTED sealed early; OPEN running or killed;
RETIRED taken away by a person who said why; MISSING its receipt or head is gone; UNLISTED no row
names it. With --verify also TORN cut off while writing, with nothing lost that was acknowledged;
BROKEN does not verify; UNKNOWN cannot be verified here.
Exit code: 0 listed, 2 could not be listed.
"""

_INTENT_LINES = 4  # an intent stands among the first lines
_INTENT_BYTES = 65_536  # a line that is longer is not looked for


@dataclass(frozen=True, slots=True)
class _Row:
    sid: str
    changed_at: str
    state: str
    lines: int | None
    intent: str
    why: str
    verified: bool


Verify = Annotated[
    bool, typer.Option("--verify", help="Verify every receipt, not the ledger only.")
]


def sessions(verify: Verify = False, as_json: Json = False) -> int:
    """List the sessions of this installation."""
    from broker.cli.wires import installation_key
    from broker.home import Home
    from broker.receipt import Receipts

    home = Home.find(os.environ)
    found: list[_Row] = []
    if home.sessions.is_dir() or home.heads.is_dir() or home.ledger.is_dir():
        found = _found(Receipts(home, installation_key(home)), verify)
    if as_json:
        json_out([asdict(each) for each in found])
    elif not found:
        out("no session yet: `broker run` begins one")
    else:
        rows = [
            (f.sid, f.changed_at, f.state, str(f.lines) if f.lines else "", f.intent or f.why)
            for f in found
        ]
        for line in table(rows, ("session", "last change", "state", "lines", "intent")):
            out(line)
    return ALLOWED


def _found(receipts: Receipts, verify: bool) -> list[_Row]:
    from broker.receipt.book import Book

    infos = {info.sid: info for info in receipts.sessions()}
    try:
        book = receipts.ledger.read()
    except BrokerError as error:
        err(f"warning: the ledger cannot be read: {printable(error.message)}")
        book = Book()
    rows = [_row(receipts, infos.get(sid), listed) for sid, listed in book.sessions.items()]
    rows += [_row(receipts, info, None) for sid, info in infos.items() if sid not in book.sessions]
    rows.sort(key=lambda row: (row.changed_at, row.sid), reverse=True)
    if not verify:
        return rows
    whole = book if book.n else None
    return [_verified(receipts, row, whole) for row in rows]


def _row(receipts: Receipts, info: SessionInfo | None, listed: Listed | None) -> _Row:
    """Return what folders and rows say of a session."""
    from broker.instants import format_instant

    if info is not None:
        sid, changed_at = info.sid, format_instant(info.changed_at // 10**9 * 10**9)
    else:
        assert listed is not None  # noqa: S101  one of the two named it
        sid, changed_at = listed.sid, f"{listed.changed_at[:19]}Z"
    state, lines, why = "UNLISTED", None, ""
    if listed is not None:
        state, lines = "OPEN", listed.n if listed.n > 1 else None
        if listed.end is not None:
            state = "SEALED" if listed.end.reason == "complete" else "INTERRUPTED"
        why = listed.retired or listed.adopted
    if listed is not None and listed.retired:
        state = "RETIRED"
    elif info is None or not (info.has_receipt and info.has_head):
        state = "MISSING"
        gone = "receipt" if info is None or not info.has_receipt else "head"
        why = f"its {gone} is gone"
    intent = "" if state in ("MISSING", "RETIRED") else _intent(receipts, sid, listed)
    return _Row(sid, changed_at, state, lines, intent, why, verified=False)


def _verified(receipts: Receipts, row: _Row, book: Book | None) -> _Row:
    from broker.receipt.audit import RETIRED, audit

    try:
        verdict = audit(receipts, row.sid, book=book, now=time.time_ns())
    except Break as error:
        why = f"{error.reason}: {error.message}"
        return replace(row, state="BROKEN", lines=None, intent="", why=why)
    except BrokerError as error:
        if error.code == RETIRED:
            return row
        return replace(row, state="UNKNOWN", lines=None, intent="", why=error.message)
    return replace(row, state=verdict.state, lines=verdict.lines, verified=True)


def _intent(receipts: Receipts, sid: str, listed: Listed | None) -> str:
    """Return the line that a person typed, from the first lines of a receipt, if they verify."""
    key = receipts.ledger.key_named(listed.kid) if listed is not None else receipts.key
    try:
        return "" if key is None else _first_intent(receipts, sid, key)
    except (BrokerError, OSError):
        return ""


def _first_intent(receipts: Receipts, sid: str, key: Key) -> str:
    """
    Read an intent without the rest of the receipt.

    Raises:
        Break, UnverifiableError: a line before it does not verify, or the file is unsafe.
    """
    import json

    from broker.cli.kept import Kept
    from broker.receipt import disk
    from broker.receipt.chain import Chain

    fd = disk.open_checked(receipts.path(sid), "receipt", forbidden=disk.OTHERS_WRITE)
    try:
        lines = os.pread(fd, _INTENT_BYTES, 0).split(b"\n")[:-1]
    finally:
        os.close(fd)
    chain = Chain(sid, key, tree=False)
    for line in lines[:_INTENT_LINES]:
        chain.accept(line)
        if chain.kind == "intent":
            data = json.loads(chain.text)
            shown = Kept(receipts.path(sid).parent).shown(data)
            values = {**data, **(shown.values if shown else {})}
            return str(values.get("line", "(kept out)" if shown else ""))
    return ""
