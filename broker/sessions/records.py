"""
What a session writes into its receipt: the data of each kind of entry.

Decided here: which facts of a decision, a ticket and a delegation are kept, how they are cut to
size, and how a ticket is rebuilt from them. Not decided here: the line, its chain and its
signature (``broker.receipt``).

Rules a maintainer keeps: whatever a model wrote is cut short, made well-formed and cleared of
secrets, so that an entry can always be written; arguments are kept as a digest; a ticket is
kept as its blocks without its MAC, so that who reads a receipt cannot use the ticket.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Final

from broker.calls import Call, Decision, PathSubject, Refusal, UrlSubject
from broker.errors import Break, TicketFormatError
from broker.intent import Intent
from broker.limits import (
    MAX_INTENT_CHARS,
    MAX_NAME_CHARS,
    MAX_SCOPE_CHARS,
    MAX_SUBJECTS_KEPT,
    MAX_TEXT_CHARS,
)
from broker.redaction.hiding import clipped
from broker.ticket import Ticket, verify_chain
from broker.wire import mac

DISTRIBUTION: Final = "capability-broker"

Data = dict[str, object]


def closed(why: str) -> Decision:
    """Return the refusal of a session that cannot decide."""
    return Decision(Refusal("session", "", f"{why}; no call is allowed; tell the person"))


def told(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """
    Return text that can be recorded: well-formed, of limited length, without secrets.

    >>> told("a" * 9, limit=4), told("x\\ud800")
    ('aaaa…', 'x\\\\ud800')
    """
    return clipped(wellformed(text[: 3 * limit + 1]), limit, "…")


def wellformed(text: str) -> str:
    """Return text that can be recorded, whole, with what is not Unicode spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def opening_data(
    agent: str,
    workspace: Path,
    needs_enforcement: bool = False,
    conceal: Sequence[str] = (),
    after: Mapping[str, str] | None = None,
    *,
    counts: str = "",
    joins: str = "",
    opinions: Mapping[str, str] | None = None,
) -> Data:
    """Return what the receipt's first entry says of who writes it, for whom, and where."""
    try:
        writer = version(DISTRIBUTION)
    except PackageNotFoundError:
        writer = "unknown"
    data: Data = {
        "writer": f"{DISTRIBUTION} {writer}",
        "agent": told(agent, MAX_NAME_CHARS),
        "workspace": wellformed(os.fspath(workspace)),
        "needs_enforcement": needs_enforcement,
    }
    if conceal:
        data["conceal"] = list(conceal)
    if after:
        data["previous"] = dict(after)
    if counts:
        data["counts"] = counts
    if joins:
        data["joins"] = joins
    if opinions:
        data["opinions"] = [{"name": name, "of": told(of)} for name, of in opinions.items()]
    return data


def intent_data(intent: Intent) -> Data:
    """Return the data of the ``intent`` entry; its digest is that of the line as typed."""
    return {"line": told(intent.line, MAX_INTENT_CHARS), "digest": intent.digest}


def decision_data(call: Call, decision: Decision, *, call_id: str, ticket: str, actor: str) -> Data:
    """Return the data of a ``decision`` entry."""
    refusal = decision.refusal
    data: Data = {
        "call": told(call_id, MAX_NAME_CHARS),
        "tool": told(call.tool, MAX_NAME_CHARS),
        "args": call.digest,
        "subjects": subjects(call),
        "ticket": ticket,
        "decision": "allow" if refusal is None else "refuse",
        "enforcement": decision.enforcement,
        "actor": told(actor, MAX_NAME_CHARS),
    }
    if call.server is not None:
        data["server"] = told(call.server, MAX_NAME_CHARS)
    cost = call.cost()
    if cost != 1:
        data["cost"] = cost
    if refusal is not None:
        data["caveat"] = told(refusal.caveat, MAX_NAME_CHARS)
        data["value"] = told(refusal.value)
        data["reason"] = told(refusal.reason)
    return data


def subjects(call: Call) -> list[Data]:
    """Return what a call touches, shortened, with that of the calls inside it."""
    found = iter(_subjects(call))  # each is cleared of secrets when it is taken, and none before
    kept = list(islice(found, MAX_SUBJECTS_KEPT))
    more = _size(call) - len(kept)
    if more:
        kept.append({"more": more})
    return kept


def _size(call: Call) -> int:
    """Return how many subjects a call and the calls inside it have."""
    own = len(call.paths) + len(call.urls) + (call.command is not None)
    return own + sum(map(_size, call.nested))


def _subjects(call: Call) -> Iterable[Data]:
    for path in call.paths:
        yield _path(path)
    for url in call.urls:
        yield _url(url)
    if call.command is not None:
        yield {"command": told(call.command)}
    for inner in call.nested:
        for subject in _subjects(inner):
            yield {"inside": told(inner.tool, MAX_NAME_CHARS), **subject}


def _path(path: PathSubject) -> Data:
    place = path.places[-1].rstrip("/") or "." if path.places else path.resolved or path.spelled
    data: Data = {"path": told(place), "access": path.access}
    if path.below:
        data["below"] = True
    if not path.places:
        data["outside"] = True
    return data


def _url(url: UrlSubject) -> Data:
    # Path, query and userinfo of a URL may be secrets, and no caveat looks at them.
    port = f":{url.port}" if url.port else ""
    return {"url": told(f"{url.scheme}://{url.host}{port}")}


def ticket_data(ticket: Ticket, texts: Iterable[str]) -> Data:
    """Return the data of the ``ticket`` entry: what was typed, and the chain."""
    return {
        "ticket": ticket.id,
        "caveats": [told(t, MAX_SCOPE_CHARS) for t in texts],
        "chain": [block.decode() for block in ticket.blocks],
    }


def minted_data(ticket: Ticket, texts: Iterable[str], *, replaces: str) -> Data:
    """Return the data of a ``ticket`` entry for a root that took the place of another."""
    return {**ticket_data(ticket, texts), "replaces": replaces}


def admitted_data(ticket: Ticket, texts: Iterable[str], *, beside: str, call: Call) -> Data:
    """Return the data of a ``ticket`` entry for one call beside another ticket."""
    one: Data = {"tool": told(call.tool, MAX_NAME_CHARS), "args": call.digest}
    if call.server is not None:
        one["server"] = told(call.server, MAX_NAME_CHARS)
    return {**ticket_data(ticket, texts), "beside": beside, "for": one}


def delegation_data(ticket: Ticket, texts: Iterable[str], *, asked_by: str, holder: str) -> Data:
    """Return the data of a ``delegate`` entry for a ticket that was derived."""
    data: Data = {
        "decision": "allow",
        "parent": ticket.line[-2],
        "asked_by": told(asked_by, MAX_NAME_CHARS),
        **ticket_data(ticket, texts),
    }
    if holder:
        data["holder"] = told(holder, MAX_NAME_CHARS)
    return data


def refused_delegation_data(
    parent: str, texts: Iterable[str], *, caveat: str, reason: str, asked_by: str
) -> Data:
    """Return the data of a ``delegate`` entry for a widening that was refused."""
    return {
        "decision": "refuse",
        "parent": parent,
        "asked_by": told(asked_by, MAX_NAME_CHARS),
        "caveats": [told(t) for t in list(texts)[:MAX_SUBJECTS_KEPT]],
        "caveat": told(caveat, MAX_NAME_CHARS),
        "reason": told(reason),
    }


def recorded_ticket(data: Mapping[str, object], key: bytes) -> Ticket:
    """
    Return the ticket of a verified ``ticket`` or ``delegate`` entry.

    Args:
        data: the entry's data, from a verified receipt.
        key: the session's ticket key.

    Raises:
        Break: the chain in the entry is not a chain, or is not the ticket that it names.
    """
    chain = data.get("chain")
    if not isinstance(chain, list) or not all(isinstance(b, str) for b in chain) or not chain:
        raise Break("schema", "an entry that holds a ticket has no chain")
    tag = key
    for block in chain:
        tag = mac(tag, block.encode())
    try:
        ticket = verify_chain("\n".join((*chain, tag.hex())), key)
    except TicketFormatError as error:
        raise Break("schema", f"an entry holds no ticket: {error}") from error
    if ticket.id != data.get("ticket"):
        raise Break("schema", "an entry names another ticket than its chain makes")
    return ticket
