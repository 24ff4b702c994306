"""
One session: an intent, a ticket, a receipt and a budget, tied together.

Decided here: the order in which things happen. A call is read, judged with the counts of its
line, written into the receipt, debited, and only then answered; a ticket is recorded before
it is used. Not decided here: what passes (``broker.authorize``), how lines are signed
(``broker.receipt``), how an agent asks (``broker.service``).

Rules a maintainer keeps: no receipt, no action, so a decision that cannot be recorded is a
refusal by the caveat ``session`` and so is every later one; counts are rebuilt from the receipt
alone; only ``open`` and ``replace`` mint, each from a typed line; time never runs backwards within
a session; the folder of a session is the user's, never the workspace's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.calls import Call, Decision, Refusal
from broker.errors import BrokerError, StoreError
from broker.events import (
    IntentOpened,
    SessionOpened,
    TicketDelegated,
    TicketReplaced,
)
from broker.home import Home
from broker.intent import TypedLine
from broker.receipt.entry import Entry
from broker.receipt.sealing import AuditorKey
from broker.sessions.custody import FIRST
from broker.sessions.deciding import Decides, Undecided
from broker.sessions.ground import Ground, Outside, again, begin
from broker.sessions.holding import InHand
from broker.sessions.minting import replace_root
from broker.sessions.records import Data
from broker.sessions.revoking import Revoking
from broker.ticket import Ticket

if TYPE_CHECKING:
    from broker.opinions.settings import OpinionSetting

MAIN: Final = FIRST  # the actor that a person started
CANARY: Final = "canary"  # the actor of every call while ``rehearsing``
SEALED: Final = "the session is over"


class Session(Decides):
    """
    A running session. Made by ``open`` and ``resume``; safe among threads.

    ``allowed`` and ``refused`` count the decisions of this process; ``warnings`` are for whoever
    typed the scope. While ``rehearsing``, each call is the canary's and is not counted.
    """

    def __init__(self, ground: Ground) -> None:
        self.workspace, self.warnings = ground.workspace, ground.warnings
        self.bus = ground.outside.bus
        self.allowed, self.refused, self.rehearsing = 0, 0, False
        self._ground, self._untold = ground, []
        self._receipt, self._custody = ground.receipt, ground.custody
        self._latest, self._over = ground.at, ""
        self._tickets = InHand(ground.custody, self._derived)
        self._revoking = Revoking(ground.revocations, self._append)
        self._lock = threading.RLock()

    # ── how a session comes to be ──

    @classmethod
    def open(
        cls,
        texts: Sequence[str],
        *,
        workspace: Path | str,
        home: Home,
        intent: TypedLine | None = None,
        agent: str = "",
        own: Sequence[str] = (),
        outside: Outside | None = None,
        needs_enforcement: bool = False,
        auditor: AuditorKey | None = None,
        conceal: Sequence[str] = (),
        after: Mapping[str, str] | None = None,
        handed: str | None = None,
        opinions: Sequence[OpinionSetting] = (),
    ) -> Session:
        """
        Mint the ticket that a person typed, begin its receipt, and return the session.

        Args:
            texts: the scope, as typed; none at all permits everything.
            workspace: the folder that patterns are relative to.
            home: where the broker keeps its files.
            intent: the typed line, if one was typed.
            agent: which agent runs, for the receipt.
            own: more paths that no tool may touch, beside the broker's own folders.
            outside: the clock, the randomness and the bus.
            needs_enforcement: refuse a call that nothing holds to the paths and hosts of the
                scope, even where the scope names its tool. Kept on resuming, as is ``conceal``.
            auditor: makes the receipt forward-secure, for whoever holds the private half.
            conceal: what the receipt only commits to; see ``broker.sessions.conceal``.
            after: names the session that this one follows; see ``broker.sessions.following``.
            handed: a ticket of another session, narrowed here; see ``broker.sessions.handing``.
            opinions: others that must allow a call too, besides those that are configured.

        Raises:
            ScopeError, InputError: the scope, the intent or the workspace is malformed.
            ConfigError: the configuration is malformed.
            StoreError: the receipt cannot begin.
            UnverifiableError: the key's file is unsafe.
        """
        given = outside or Outside()
        ground = begin(
            texts, workspace=workspace, home=home, intent=intent, agent=agent, own=own,
            outside=given, needs_enforcement=needs_enforcement, auditor=auditor, conceal=conceal,
            after=after, handed=handed, opinions=opinions,
        )  # fmt: skip
        session = cls(ground)
        ticket, at = session.ticket, ground.at
        given.bus.publish(SessionOpened(at, session.sid, ticket.id, os.fspath(workspace)))
        if ground.intent is not None:
            given.bus.publish(IntentOpened(at, session.sid, ground.intent.line))
        return session

    @classmethod
    def resume(
        cls,
        sid: str,
        *,
        home: Home,
        own: Sequence[str] = (),
        outside: Outside | None = None,
        opinions: Sequence[OpinionSetting] = (),
    ) -> Session:
        """
        Go on with a session that has no seal: its tickets and counts come from its receipt.

        All ``opinions`` that it began with must be there, configured or given.

        Raises:
            Break: the receipt is not what was signed.
            UnverifiableError: the key or a file is missing or unsafe.
            StoreError: sealed, running in another process, or the disk refuses.
            InputError, ConfigError: an opinion that it began with is not there.
        """
        given = outside or Outside()
        return cls(again(sid, home=home, own=own, outside=given, opinions=opinions))

    # ── what it is ──

    @property
    def sid(self) -> str:
        """The session's name."""
        return self._receipt.sid

    @property
    def ticket(self) -> Ticket:
        """The root ticket that is in force."""
        return self._custody.root.ticket

    @property
    def folder(self) -> Path:
        """The session's own folder, closed to every tool."""
        return self._receipt.path.parent

    @property
    def receipt_path(self) -> Path:
        """Where the receipt lies."""
        return self._receipt.path

    @property
    def head(self) -> str:
        """How many lines there are and the last one's hash, as ``--expect-head`` takes them."""
        n, last = self._receipt.last
        return f"{n}:{last}"

    def find(self, name: str | None = None) -> Ticket:
        """
        Return a ticket of this session by its id or wire form; by default the root.

        Raises:
            InputError, VerificationError: no ticket of this session.
        """
        with self._lock:
            return self._custody.find(name, MAIN).ticket

    def holds(self, actor: str, among: Sequence[str] = ()) -> tuple[Ticket, ...]:
        """Return the tickets that judge an actor's calls; see ``among`` of ``decide``."""
        with self._lock:
            return tuple(guard.ticket for guard in self._custody.of(actor, among))

    def at_work(self, tickets: Sequence[str]) -> None:
        """Take these ids for the tickets of all subagents: they judge what nobody is named for."""
        self._tickets.living = tuple(tickets)

    def sandboxed(self) -> None:
        """Say that a sandbox holds the root ticket from here on."""
        self._custody.root.sandboxed = True

    def spent(self, ticket: Ticket | None = None) -> tuple[int, ...] | None:
        """Return the counted calls of a ticket's line; None when they cannot be told."""
        return self._custody.root.budget.spent((ticket or self.ticket).line)

    # ── what it does ──

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        call_id: str = "",
        ticket: str | None = None,
        server: str | None = None,
        actor: str = MAIN,
        cwd: str | None = None,
        again: bool = False,
        among: Sequence[str] = (),
        veto: Refusal | None = None,
        heard: Callable[[Call], object] | None = None,
        durable: bool = True,
    ) -> Decision:
        """
        Decide a call and record the decision; the answer is durable before it is returned.

        Args:
            tool: the tool's name, as the agent gave it.
            arguments: the call's arguments, any JSON value.
            call_id: the agent's own name for the call.
            ticket: the id or the wire form of a ticket of this session; by default the one
                that ``actor`` holds.
            server: the MCP server's name as our own configuration spells it.
            actor: which agent calls, as its adapter knows it.
            cwd: the folder that relative paths start from, where the agent says so.
            again: a hook may have asked before; see ``broker.sessions.standing``.
            among: the ids of tickets that must all let the call through, where it is not sure
                which one the actor holds; what was kept for the actor holds as well.
            veto: a refusal that the adapter found by itself, to be recorded in place of a decision.
            heard: is told what the call was resolved to, before it is decided.
            durable: False leaves that to ``flush``, before which nobody may hear the answer.

        Returns:
            The decision. A call that cannot be recorded, or comes when the session is over, is
            refused by the caveat ``session``.
        """
        read = partial(self._ground.resolver.resolve, tool, arguments, server=server, cwd=cwd)
        call = read()
        if heard is not None:
            heard(call)
        actor = CANARY if self.rehearsing else actor
        asked = Undecided(call, call_id, ticket, actor, again, among, veto, durable)
        return self._decided(asked, read)

    def delegate(
        self,
        texts: Sequence[str],
        *,
        parent: str | None = None,
        asked_by: str = MAIN,
        holder: str = "",
    ) -> Ticket:
        """
        Derive a narrower ticket, record it, and return it. A widening is recorded too.

        Args:
            texts: the caveats to add, as ``KEY=VALUE`` texts.
            parent: the id or wire form of the ticket to narrow; by default the one that
                ``holder`` holds already, so that a holder is only ever narrowed.
            asked_by: the actor that asks.
            holder: the actor that the ticket is kept for; its calls are then held to it.

        Raises:
            ScopeError: a text is malformed.
            AttenuationError: it would widen; ``kind`` names the caveat.
            LimitError: the session has MAX_TICKETS tickets.
            StoreError: it cannot be recorded, or the session is over.
        """
        with self._lock:
            at = self._now()
            self._still_open()
            guard = self._tickets.found(parent or self._custody.held(holder), asked_by, at)
            self._custody.check_holder(holder, guard)
            scope = self._ground.scope(texts, at)
            said = (texts, scope.caveats)
            child = self._tickets.derive(guard, said, at, asked_by=asked_by, holder=holder)
        self.bus.publish(
            TicketDelegated(at, self.sid, child.ticket.id, guard.ticket.id, asked_by, holder)
        )
        return child.ticket

    def replace(self, texts: Sequence[str], *, line: TypedLine) -> Ticket:
        """
        Mint another root from what the person typed; it is in force from here on.

        Its calls are counted from none. A ticket that was handed down before permits what both it
        and the new root do. ``warnings`` are those of the new scope.

        Args:
            texts: the whole new scope, as typed; at least one.
            line: the line that the person typed, at depth 0; never what a model or a hook says.

        Raises:
            ScopeError, InputError, LimitError: the scope or the line is malformed; the old root
                stays in force.
            StoreError: it cannot be recorded, or the session is over.
        """
        with self._lock:
            at, old = self._now(), self.ticket
            self._still_open()
            try:
                root, intent, scope = replace_root(self._ground, texts, line, at)
            except StoreError as error:
                self._over = f"the receipt cannot be written: {error}"
                raise
            self._tickets.replaced()
            self.warnings = scope.warnings
        self.bus.publish(IntentOpened(at, self.sid, intent.line))
        self.bus.publish(TicketReplaced(at, self.sid, root.ticket.id, old.id))
        return root.ticket

    def seal(self, reason: str = "complete") -> None:
        """
        End the session: nothing is decided any more, and the receipt gets its last line.

        The ``reason`` is ``complete`` or ``interrupted``. The last checkpoint covers the seal;
        where it cannot be signed that is told on the bus, and the next start signs it.

        Raises:
            StoreError: the seal cannot be written; the receipt stays open.
        """
        with self._lock:
            if self._over == SEALED:
                return
            at = self._now()
            self._over = self._over or SEALED
            told_of = self._ground.seal(reason, at)
        for event in told_of:
            self.bus.publish(event)

    # ── inside the lock ──

    def _now(self) -> int:
        # A clock that is set back would revive what `until` has ended.
        self._latest = max(self._latest, self._ground.outside.clock())
        return self._latest

    def _still_open(self) -> None:
        if self._over:
            raise StoreError(self._over)

    def _append(self, kind: str, data: Data, at: int, *, durable: bool = True) -> Entry | None:
        """Write an entry; None when it cannot be written, and then the session is over."""
        try:
            return self._ground.append(kind, data, at, durable)
        except BrokerError as error:
            self._over = f"the receipt cannot be written: {error}"
            return None

    def _record(self, kind: str, data: Data) -> int:
        with self._lock:
            self._still_open()
            at = self._now()
            self._append(kind, data, at, durable=False)
            self._still_open()
            return at

    def _derived(self, data: Data, at: int) -> None:
        self._append("delegate", data, at)
        self._still_open()
