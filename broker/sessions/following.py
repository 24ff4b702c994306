"""
A session that follows another one: what is left of the earlier ticket, for one that goes on.

A receipt is sealed when its session ends. So a person who goes on with a session begins a new one,
and its receipt names the one before: its name, its last ticket, and the digest of its last line
(ADR-0037).

Decided here: what is left. Every caveat stays, those of a narrowing too; a number of calls is what
has not been spent of it; an instant stays where it was. Not decided here: what is minted of it,
which takes a line that a person types.

Rules a maintainer keeps: what is left is read from verified entries alone; it never permits more
than the earlier ticket did; a session that some process runs has nothing left for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from broker.caveats import Caveat, calls
from broker.errors import InputError, UnverifiableError
from broker.home import Home
from broker.receipt.entry import Entry
from broker.receipt.keys import load_key
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries
from broker.scope import render
from broker.sessions.alive import running
from broker.sessions.custody import FIRST
from broker.sessions.ground import key_path
from broker.sessions.past import Past
from broker.sessions.revoking import Revocations
from broker.ticket import session_key


@dataclass(frozen=True, slots=True)
class Earlier:
    """
    A session that came before: where it worked, and what is left of its ticket as scope texts.

    ``after`` is what a following session's receipt says of it. ``entries`` are its verified ones.
    """

    sid: str
    workspace: str
    agent: str
    needs_enforcement: bool
    conceal: tuple[str, ...]
    texts: tuple[str, ...]
    after: Mapping[str, str]
    entries: tuple[Entry, ...]


def earlier_session(sid: str, home: Home) -> Earlier:
    """
    Return what is left of a session that nobody runs any more; ``sid`` is how its name begins.

    Raises:
        InputError: there is no such session, or some process runs it.
        Break: its receipt is not what was signed.
        UnverifiableError: its key or a file is missing or unsafe.
    """
    receipts = Receipts(home, load_key(key_path(home)))
    sid = receipts.find(sid)
    if sid in running(home.sessions):
        raise InputError(f"session `{sid}` is running: end it there, or wait until it has ended")
    key = receipts.key
    listed = receipts.ledger.read().sessions.get(sid)
    if listed is not None and listed.kid != key.kid:
        found = receipts.ledger.key_named(listed.kid)
        if found is None:
            raise UnverifiableError(f"the key of session `{sid}` is gone: `broker key show`")
        key = found
    past = Past(session_key(key.secret, sid), partial(session_key, key.secret))
    entries = []
    for entry in read_entries(receipts.path(sid), key, receipts.head_path(sid), sid=sid):
        past.take(entry.kind, entry.data, entry.at)
        entries.append(entry)
    if past.shared:
        raise InputError(
            f"session `{sid}` counts its calls with others, so what is left is theirs as well: "
            "type a scope"
        )
    held = past.holders.get(FIRST)
    ticket = past.root() if held is None else past.tickets[held]
    revoked = Revocations(home.revoked, receipts.key).of(ticket.line)
    if revoked is not None:
        raise InputError(f"session `{sid}` was revoked ({revoked.reason}): type a scope")
    spent = past.counts()
    left = [_left(link.id, caveat, spent) for link in ticket.links for caveat in link.caveats]
    return Earlier(
        sid,
        past.workspace,
        past.agent,
        past.needs_enforcement,
        past.conceal,
        tuple(render(left)),
        {"sid": sid, "ticket": ticket.id, "last": entries[-1].hash},
        tuple(entries),
    )


def _left(link: str, caveat: Caveat, spent: Mapping[str, int]) -> Caveat:
    """Return what is left of a caveat of a link."""
    if caveat.kind != "calls" or not isinstance(caveat.value, int):
        return caveat
    return calls(max(0, caveat.value - spent.get(link, 0)))
