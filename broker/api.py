"""
The broker in a few calls, for Python harnesses.

In one process, without a receipt: ``from_scope`` gives a guard, ``check`` asks it, ``narrowed``
gives one for a delegate. Under ``broker run``: ``attach`` gives the running session, which
records every decision, and the same ``check`` and ``narrowed`` ask it.

>>> guard = from_scope(["tools=read", "paths=src/**"], workspace=".")
>>> check(guard, "read", {"path": "src/a.py"}).allowed
True
>>> check(guard, "read", {"path": "/etc/passwd"}).refusal.caveat
'paths'
>>> narrowed(guard, "paths=**")
Traceback (most recent call last):
broker.errors.AttenuationError: `paths=**` widens `paths=src/**`: `**` is not within it

Rules a maintainer keeps: nothing here decides; ``check`` returns a decision and never raises for
a call that is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from broker.budget import Budget
from broker.calls import Call, Decision
from broker.catalogs import load_catalogs
from broker.guard import NONCE_BYTES, TicketGuard
from broker.home import Home
from broker.intent import digest, typed_text
from broker.receipt.entry import Entry
from broker.receipt.writer import Receipt
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.service.client import SessionClient
from broker.sessions.records import decision_data
from broker.ticket import KEY_BYTES, mint

Guarded = TicketGuard | SessionClient


def from_scope(
    texts: Sequence[str],
    *,
    workspace: str | os.PathLike[str] = ".",
    budget: Budget | None = None,
    at: int | None = None,
    intent: str = "",
) -> TicketGuard:
    """
    Mint a ticket from a scope, and return its guard. Its key lives and dies in this process.

    Args:
        texts: ``KEY=VALUE`` texts; the caller vouches that a person typed them.
        workspace: the folder that paths are relative to.
        budget: where calls are counted; in this process by default.
        at: the instant of minting, nanoseconds since the Unix epoch; now by default.
        intent: the line that the person typed, which `in intent` looks into.

    Raises:
        ScopeError: a text is malformed.
        InputError: the workspace is not a folder, or the scope looks into an intent that is empty.
        StoreError: shared counts cannot be begun.
    """
    now = time.time_ns() if at is None else at
    catalogs = load_catalogs(Path(workspace))
    scope = parse_scope(texts, at=now, groups=catalogs.groups(), lookup=catalogs.known)
    ticket = mint(
        scope.caveats,
        key=os.urandom(KEY_BYTES),
        sid="local",
        minted_at=now,
        intent=digest(intent) if intent else "",
        nonce=os.urandom(NONCE_BYTES).hex(),
    )
    own = Home.find(os.environ).own()
    resolver = Resolver(workspace, catalogs, own=own)
    if budget is not None:
        budget.begin(ticket.id)
    return TicketGuard(ticket, budget, resolver, typed=typed_text(intent) if intent else None)


def check(
    guarded: Guarded,
    tool: str,
    arguments: Mapping[str, object],
    *,
    call_id: str = "",
    server: str | None = None,
    cwd: str | None = None,
    at: int | None = None,
) -> Decision:
    """
    Decide a call; an allowed one is debited, and under ``broker run`` recorded.

    Args:
        guarded: from ``from_scope``, ``narrowed`` or ``attach``.
        tool: the tool's name.
        arguments: its arguments.
        call_id: the harness's own name for the call.
        server: the MCP server's name as the harness's own configuration spells it.
        cwd: the folder that relative paths start from.
        at: the instant for a guard, nanoseconds since the Unix epoch; now by default.
    """
    if isinstance(guarded, SessionClient):
        return guarded.decide(tool, dict(arguments), call_id=call_id, server=server, cwd=cwd)
    now = time.time_ns() if at is None else at
    return guarded.decide(tool, dict(arguments), now, server=server, cwd=cwd)[1]


def narrowed(guarded: Guarded, *texts: str) -> Guarded:
    """
    Return what to hand to a delegate: a narrower ticket on the same budget.

    Raises:
        AttenuationError: it would permit more; ``kind`` names the caveat.
        ScopeError: a text is malformed.
        StoreError: the running session cannot be asked.
    """
    if isinstance(guarded, SessionClient):
        return guarded.delegate(*texts)
    resolver = guarded.resolver
    catalogs = load_catalogs() if resolver is None else resolver.catalogs
    scope = parse_scope(texts, at=time.time_ns(), groups=catalogs.groups(), lookup=catalogs.known)
    return guarded.narrowed(*scope.caveats)


def attach(environ: Mapping[str, str] | None = None) -> SessionClient:
    """
    Return the session that ``broker run`` started this process in.

    Raises:
        InputError: it was not started by ``broker run``.
    """
    return SessionClient.find(os.environ if environ is None else environ)


def append(
    receipt: Receipt,
    call: Call,
    decision: Decision,
    *,
    ticket: str,
    call_id: str = "",
    actor: str = "main",
    at: int | None = None,
) -> Entry:
    """
    Record a decision in a receipt that the harness keeps itself; durable before it returns.

    Args:
        receipt: from ``Receipts.create``.
        call: what was decided.
        decision: what ``check`` returned for it.
        ticket: the id of the ticket that it was decided under.
        call_id: the harness's own name for the call.
        actor: which agent called.
        at: the instant, nanoseconds since the Unix epoch; now by default.

    Raises:
        StoreError: it could not be recorded; do not run the call.
    """
    now = time.time_ns() if at is None else at
    data = decision_data(call, decision, call_id=call_id, ticket=ticket, actor=actor)
    return receipt.append("decision", data, at=now)
