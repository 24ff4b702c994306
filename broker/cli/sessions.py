"""
`broker sessions`: which sessions there were, the latest first, and in what state each is.

Decided here: that the state shown is the verified one. The list itself comes from the folders,
so a session that was removed with its head is not in it.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from broker.cli.exits import ALLOWED
from broker.cli.output import json_out, out, table
from broker.cli.typed import Json
from broker.errors import Break, BrokerError

if TYPE_CHECKING:
    from broker.receipt import Key, Receipts, SessionInfo

EXAMPLES = """\
\b
Examples:
  broker sessions
  broker sessions --json
  broker receipt 7f2 --verify         what became of one of them

\b
STATE: SEALED complete; INTERRUPTED sealed early; OPEN running or killed; TORN cut off while
writing, with nothing lost that was acknowledged; BROKEN does not verify; UNKNOWN cannot be
verified here.
Exit code: 0 listed, 2 could not be listed.
"""

_INTENT_LINES = 4  # an intent stands among the first lines


@dataclass(frozen=True, slots=True)
class _Listed:
    sid: str
    changed_at: str
    state: str
    lines: int | None
    intent: str
    why: str


def sessions(as_json: Json = False) -> int:
    """List the sessions of this installation."""
    from broker.cli.wires import installation_key
    from broker.home import Home
    from broker.receipt import Receipts

    home = Home.find(os.environ)
    if not home.sessions.is_dir() and not home.heads.is_dir():
        found: list[_Listed] = []
    else:
        key = installation_key(home)
        receipts = Receipts(home, key)
        found = [_listed(receipts, key, info) for info in receipts.sessions()]
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


def _listed(receipts: Receipts, key: Key, info: SessionInfo) -> _Listed:
    from broker.instants import format_instant
    from broker.receipt import verify

    changed_at = format_instant(info.changed_at // 10**9 * 10**9)
    path, head = receipts.path(info.sid), receipts.head_path(info.sid)
    try:
        verdict = verify(path, key=key, head=head, sid=info.sid, now=time.time_ns())
    except Break as error:
        return _Listed(info.sid, changed_at, "BROKEN", None, "", f"{error.reason}: {error.message}")
    except BrokerError as error:
        return _Listed(info.sid, changed_at, "UNKNOWN", None, "", error.message)
    intent = _intent(receipts, key, info.sid)
    return _Listed(info.sid, changed_at, verdict.state, verdict.lines, intent, "")


def _intent(receipts: Receipts, key: Key, sid: str) -> str:
    """Return the line that a person typed, from the first lines of a receipt that verifies."""
    from broker.receipt import read_entries

    entries = read_entries(receipts.path(sid), key, receipts.head_path(sid), sid=sid)
    for entry in entries:
        line = entry.data.get("line") if entry.kind == "intent" else None
        if isinstance(line, str) or entry.n >= _INTENT_LINES:
            return line if isinstance(line, str) else ""
    return ""
