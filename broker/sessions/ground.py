"""
What a session stands on, made anew or rebuilt from a receipt.

Decided here: the order in which a session comes to be: everything that was typed is read
before a file is made, then the lock, the receipt's first entry, the intent, the ticket. Not
decided here: what a session does with it (``broker.session``).

Rules a maintainer keeps: nothing is left locked when a step fails; only ``begin`` mints; what is
rebuilt comes from verified entries alone; the folder of a session is the user's, never the
workspace's.
"""

from __future__ import annotations

import os
import time
from base64 import b32encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from broker.budgets.shared import SharedBudget
from broker.calls import TypedText
from broker.catalogs import Catalogs, load_catalogs
from broker.config import load_config
from broker.errors import BrokerError, UnverifiableError
from broker.events import Bus, CheckpointFailed, Event, SessionSealed
from broker.guard import NONCE_BYTES, TicketGuard
from broker.home import Home
from broker.intent import Intent, Intents, TypedLine
from broker.opinions.counsel import Counsel
from broker.opinions.settings import OpinionSetting, check_still_there, files_of, named
from broker.opinions.settings import opinions as opinions_of
from broker.receipt.entry import Entry
from broker.receipt.keyring import line_key_path
from broker.receipt.keys import Key, load_key, load_or_create_key
from broker.receipt.rotation import finish, steady
from broker.receipt.sealing import AuditorKey
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries
from broker.receipt.writer import Receipt
from broker.resolve import Resolver
from broker.scope import Scope, parse_scope, render
from broker.sessions.alive import Alive
from broker.sessions.checkpointfiles import checkpointer
from broker.sessions.checkpointing import Checkpointer
from broker.sessions.conceal import Concealer, concealed_names
from broker.sessions.counting import SHARED, files_of_counts, new_counts, past_counts
from broker.sessions.custody import Custody
from broker.sessions.folders import check_folders
from broker.sessions.handing import handed_over
from broker.sessions.past import Past
from broker.sessions.records import Data, intent_data, opening_data, ticket_data
from broker.sessions.revoking import Revocations
from broker.sessions.typedscope import typed_scope
from broker.ticket import mint, session_key

LEVEL: Final = "signed"  # what a session promises of its receipt
SID_BYTES: Final = 16

Randomness = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Outside:
    """What a session is given from outside: time in nanoseconds, chance, and who is told."""

    clock: Callable[[], int] = time.time_ns
    randomness: Randomness = os.urandom
    bus: Bus = field(default_factory=Bus)


@dataclass(frozen=True, slots=True)
class Ground:
    """Everything that one session needs; ``at`` is the latest instant in its receipt."""

    workspace: Path
    catalogs: Catalogs
    resolver: Resolver
    custody: Custody
    receipt: Receipt
    checkpoints: Checkpointer
    alive: Alive
    outside: Outside
    at: int
    concealer: Concealer
    home: Home
    revocations: Revocations
    counsel: Counsel
    intent: Intent | None = None
    warnings: tuple[str, ...] = ()

    def scope(self, texts: Sequence[str], at: int, *, typed: bool = False) -> Scope:
        """
        Read a scope with what is known of tools here; only what a person typed names policies.

        Raises:
            ScopeError, PolicyError: a text is malformed, or names no policy.
        """
        if typed:
            return typed_scope(texts, at=at, home=self.home, catalogs=self.catalogs)
        known = self.catalogs
        return parse_scope(texts, at=at, groups=known.groups(), lookup=known.known)

    def append(self, kind: str, data: Data, at: int, durable: bool) -> Entry:
        """
        Write an entry, without what is concealed, and have it signed in its time.

        Raises:
            BrokerError: it cannot be written.
        """
        if self.concealer.conceals(kind):
            data = self.concealer.take(kind, data)
        return self.write(kind, data, at, durable)

    def write(self, kind: str, data: Data, at: int, durable: bool = True) -> Entry:
        """
        Write an entry as it is, and have it signed in its time.

        Raises:
            BrokerError: it cannot be written.
        """
        entry = self.receipt.append(kind, data, at=at, durable=durable)
        self.checkpoints.wrote(entry.n)
        return entry

    def seal(self, reason: str, at: int) -> tuple[Event, ...]:
        """
        Seal the receipt, sign the last checkpoint, tell the ledger, and give the lock back.

        Returns:
            What is to be told. Where the checkpoint cannot be signed, the ledger is not told and
            the lock's file stays, so that the next start finds the session and does both.

        Raises:
            StoreError: the seal cannot be written; the next start does it.
        """
        fault = ""
        # Set here and not before: whatever a dropped session leaves must not hold itself.
        self.receipt.on_seal = lambda _receipt, _entry: self.checkpoints.cover()
        try:
            self.receipt.seal(reason, at=at)
        except BrokerError as error:
            if error.code != "store.checkpoint":
                if self.receipt.sealed:  # by itself, as on a full disk: that seal is covered too
                    self.checkpoints.end()
                self.abandon()
                raise
            fault = error.message
        self.receipt.close()
        self._close_counts()
        sealed = SessionSealed(at, self.receipt.sid, reason)
        fault = fault or self.checkpoints.end()  # of the ledger, with the row of this end
        if fault:
            self.alive.drop()
            return sealed, CheckpointFailed(at, self.receipt.sid, fault)
        self.alive.release()
        return (sealed,)

    def abandon(self) -> None:
        """Give the lock back and leave the rest to the next start."""
        self._close_counts()
        self.checkpoints.stop()
        self.alive.drop()

    def _close_counts(self) -> None:
        if isinstance(self.custody.root.budget, SharedBudget):
            self.custody.root.budget.close()


def key_path(home: Home) -> Path:
    """Return where the installation's secret lies; it signs receipts and tickets."""
    return line_key_path(home)


def own_key(home: Home, randomness: Randomness = os.urandom) -> Key:
    """
    Return the installation's secret, made where there is none yet.

    Raises:
        UnverifiableError: it is unsafe; or it is gone and sessions that it signed are not, which
            a new one would make look forged.
        StoreError: it cannot be written.
    """
    path = key_path(home)
    if not os.path.lexists(path) and any(home.heads.glob("*")):
        raise UnverifiableError(
            f"the key `{path}` is gone, and sessions that it signed are there: put it back from a "
            "copy; where there is none, `broker key new --old-is-lost`",
            code="unverifiable.missing",
        )
    return load_or_create_key(path, randomness=randomness)


def new_sid(randomness: Randomness = os.urandom) -> str:
    """
    Return a name for a session: 16 random bytes in lower-case base32, 26 characters.

    >>> new_sid(lambda n: bytes(n))
    'aaaaaaaaaaaaaaaaaaaaaaaaaa'
    """
    return b32encode(randomness(SID_BYTES)).decode().rstrip("=").lower()


def begin(
    texts: Sequence[str],
    *,
    workspace: Path | str,
    home: Home,
    intent: TypedLine | None,
    agent: str,
    own: Sequence[str],
    outside: Outside,
    needs_enforcement: bool = False,
    auditor: AuditorKey | None = None,
    conceal: Sequence[str] = (),
    after: Mapping[str, str] | None = None,
    handed: str | None = None,
    opinions: Sequence[OpinionSetting] = (),
) -> Ground:
    """
    Read what was typed, mint its ticket and begin its receipt; see ``Session.open``.
    """
    at = outside.clock()
    conceal = concealed_names(conceal)
    check_folders(home)
    workspace = Path(os.path.abspath(workspace))
    catalogs = load_catalogs(workspace, home.config)
    scope = typed_scope(texts, at=at, home=home, catalogs=catalogs)
    opened = Intents().open(intent, at) if intent is not None else None
    asked = (*load_config(home.config).opinions, *opinions)
    others = opinions_of(asked, workspace)
    own = (*home.own(), *own, *files_of(asked), *files_of_counts(home))
    resolver = Resolver(workspace, catalogs, own=own)
    finish(home)
    own_key(home, outside.randomness)
    sid = new_sid(outside.randomness)
    ticket_key, root = handed_over(handed, scope, load_key(key_path(home)), outside.randomness)
    counts = new_counts(home, sid, "" if root is None else root.root_id)
    with steady(home):
        key = load_key(key_path(home))
        receipts = Receipts(home, key)
        folder = receipts.path(sid).parent
        alive = Alive.begin(folder)
    ticket_key = ticket_key or session_key(key.secret, sid)
    try:
        concealer = Concealer(conceal, folder, outside.randomness)
        typed = concealer.intent(intent_data(opened)) if opened else {}
        digest = str(typed.get("digest", ""))
        ticket = root or mint(
            scope.caveats,
            key=ticket_key,
            sid=sid,
            minted_at=at,
            intent=digest,
            nonce=outside.randomness(NONCE_BYTES).hex(),
        )
        if root is None:
            counts.begin(ticket.id)
        opening = {
            **opening_data(
                agent,
                workspace,
                needs_enforcement,
                conceal,
                after,
                counts=SHARED if counts.shared else "",
                joins="" if root is None else root.sid,
                opinions=named(asked),
            ),
            "level": LEVEL,
        }
        receipt = receipts.create(
            sid, opening=opening, at=at, auditor=auditor, randomness=outside.randomness
        )
        if typed:
            receipt.append("intent", typed, at=at)
        receipt.append("ticket", ticket_data(ticket, render(scope.caveats)), at=at)
        checkpoints = _checkpoints(home, receipts, receipt, outside)
        checkpoints.begin()
    except BrokerError:
        alive.drop()
        raise
    guard = TicketGuard(
        ticket,
        counts,
        resolver,
        needs_enforcement=needs_enforcement,
        randomness=outside.randomness,
        typed=TypedText(opened.line, digest) if opened is not None else None,
    )
    custody = Custody(guard, ticket_key)
    return Ground(
        workspace,
        catalogs,
        resolver,
        custody,
        receipt,
        checkpoints,
        alive,
        outside,
        at,
        concealer,
        home,
        Revocations(home.revoked, key),
        Counsel(others, sid, outside.randomness),
        opened,
        scope.warnings,
    )


def again(
    sid: str,
    *,
    home: Home,
    own: Sequence[str],
    outside: Outside,
    opinions: Sequence[OpinionSetting] = (),
) -> Ground:
    """
    Rebuild what an unsealed session stood on; see ``Session.resume``.
    """
    check_folders(home)
    with steady(home):
        key = load_key(key_path(home))
        receipts = Receipts(home, key)
        alive = Alive.hold(receipts.path(sid).parent)
    try:
        receipt = receipts.resume(sid, at=outside.clock())
        past = Past(session_key(key.secret, sid), partial(session_key, key.secret))
        for entry in read_entries(receipts.path(sid), key, receipts.head_path(sid), sid=sid):
            past.take(entry.kind, entry.data, entry.at)
        ticket = past.root()
        workspace = Path(past.workspace)
        concealer = Concealer(past.conceal, receipts.path(sid).parent, outside.randomness)
        typed = {name: concealer.typed(said) for name, said in past.intents.items()}
        catalogs = load_catalogs(workspace, home.config)
        counts = past_counts(home, sid, past)
        asked = (*load_config(home.config).opinions, *opinions)
        check_still_there(past.opinions, asked)
        others = opinions_of(asked, workspace)
        own = (*home.own(), *own, *files_of(asked), *files_of_counts(home))
        resolver = Resolver(workspace, catalogs, own=own)
        checkpoints = _checkpoints(home, receipts, receipt, outside)
        checkpoints.begin()
    except BrokerError:
        alive.drop()
        raise
    guard = TicketGuard(
        ticket,
        counts,
        resolver,
        needs_enforcement=past.needs_enforcement,
        randomness=outside.randomness,
        typed=typed.get(ticket.id),
    )
    replaced = [guard.rooted(old, typed.get(old.id)) for old in past.replaced]
    custody = Custody(guard, past.key, past.tickets, past.holders, replaced)
    return Ground(
        workspace,
        catalogs,
        resolver,
        custody,
        receipt,
        checkpoints,
        alive,
        outside,
        past.at,
        concealer,
        home,
        Revocations(home.revoked, key),
        Counsel(others, sid, outside.randomness),
    )


def _checkpoints(
    home: Home, receipts: Receipts, receipt: Receipt, outside: Outside
) -> Checkpointer:
    return checkpointer(
        home,
        receipts,
        receipt,
        bus=outside.bus,
        clock=outside.clock,
        randomness=outside.randomness,
    )
