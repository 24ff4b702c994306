"""
The sessions that one service holds: its own, and one for each line that an operator mints by.

Decided here: which session a question belongs to, what a subject's ticket is, who may mint, and
that all are sealed at the end. Not decided here: what a caller may ask (``broker.service.access``),
how answers are grouped (``broker.service.clerk``).

The service's own session holds the tickets of the subjects in its file. Every other session is
minted by a person: an operator's key, the line that they typed, a scope. A ticket names its
session, so whoever holds a ticket's wire form needs to say no more.

The root of the service's own session is handed to nobody: without a scope it permits everything,
and only what is derived from it is ever used.

Rules a maintainer keeps: over HTTP a ticket is its wire form, which only its holder has, and never
its id, which stands in receipts; who has no ticket is refused, and that is recorded; nothing is
minted without a typed line and a scope; a session that ends takes its tickets with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.budgets.store import Revoked
from broker.calls import Decision, Refusal
from broker.errors import BrokerError, InputError, LimitError, StoreError
from broker.home import Home
from broker.intent import TypedLine
from broker.limits import MAX_SERVED_SESSIONS, MAX_TEXT_CHARS
from broker.receipt.keys import load_key
from broker.receipt.sealing import AuditorKey
from broker.service.access import KeyHolder
from broker.service.authzen import Evaluation
from broker.service.clerk import Clerk
from broker.service.subjects import Subjects
from broker.session import Session
from broker.sessions.counting import revoke_everywhere
from broker.sessions.ground import Outside, key_path
from broker.ticket import UnverifiedTicket

_THREADS: Final = 8  # that wait for the disk, each for one session
_ASK: Final = "present a ticket, or ask the person who runs the service to name the subject"


@dataclass(frozen=True, slots=True)
class Premises:
    """What every session of a service is opened with."""

    home: Home
    workspace: Path
    outside: Outside
    own: tuple[str, ...] = ()
    auditor: AuditorKey | None = None
    conceal: tuple[str, ...] = ()


class Hosted:
    """
    The sessions of one service. Safe among threads.

    Args:
        premises: what sessions are opened with.
        texts: the scope of the service's own root ticket, as typed.
        subjects: whose tickets are kept.
        intent: why the service runs, if that was typed.

    Raises:
        ScopeError, InputError, AttenuationError: what was typed or written is malformed, or a
            subject's ticket would be wider than the root.
        StoreError, UnverifiableError: no receipt can be kept.
    """

    def __init__(
        self,
        premises: Premises,
        texts: Sequence[str] = (),
        subjects: Subjects | None = None,
        *,
        intent: str | None = None,
    ) -> None:
        self._premises = premises
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="clerk")
        self._lock = threading.Lock()
        self._clerks: dict[str, Clerk] = {}
        self._over = False
        named = subjects or Subjects()
        scope = [*named.texts, *texts]
        line = None if intent is None else TypedLine(intent, "argument")
        own = self._opened(scope, line, "serve")
        self.own: Final = Clerk(own, self._pool)
        self._clerks[own.sid] = self.own
        self._subjects: dict[tuple[str, str], str] = {}
        try:
            self._name(own, named)
        except BrokerError:
            self.seal("interrupted")
            raise

    def _name(self, own: Session, named: Subjects) -> None:
        for each in named.tickets:
            ticket = own.delegate(each.texts, asked_by="serve")
            for subject in each.subjects:
                kind, _, ident = subject.partition(":")
                self._subjects[kind, ident] = ticket.id

    # ── whose session it is ──

    def clerk_of(self, wire: str) -> Clerk:
        """
        Return the clerk of the session that a ticket is of; the ticket is not believed by this.

        Raises:
            InputError: not a ticket, or of no session that is held here.
        """
        if not wire:
            return self.own
        return self.clerk(UnverifiedTicket.parse(wire).sid)

    def clerk(self, sid: str) -> Clerk:
        """
        Return the clerk of a session by its name.

        Raises:
            InputError: none of that name is held here.
        """
        with self._lock:
            found = self._clerks.get(sid)
        if found is None:
            raise InputError("the ticket's session is not held here, or has ended", code="session")
        return found

    def decide(self, session: Session, asked: Evaluation) -> Decision:
        """Decide one evaluation in the session that its ticket is of; durable with the group."""
        ticket: str | None = asked.ticket or self._subjects.get(asked.subject)
        veto = None
        if ticket is None:
            veto = Refusal("subject", asked.actor, f"`{asked.actor}` has no ticket here; {_ASK}")
        return session.decide(
            asked.tool,
            asked.arguments,
            call_id=asked.call_id,
            ticket=ticket,
            server=asked.server,
            actor=asked.actor,
            cwd=asked.cwd,
            veto=veto,
            durable=False,
        )

    # ── what changes them ──

    def mint(self, texts: Sequence[str], *, line: str, by: KeyHolder) -> Session:
        """
        Open another session, for what an operator typed.

        Args:
            texts: the whole scope; at least one text.
            line: the line that the person typed, which says why.
            by: the operator; that it is one, the caller has seen to.

        Raises:
            InputError, ScopeError: the scope or the line is malformed.
            LimitError: MAX_SERVED_SESSIONS are held.
            StoreError: its receipt cannot begin.
        """
        if not texts:
            raise InputError("say what the ticket permits: with no scope at all it is everything")
        with self._lock:
            if self._over:
                raise StoreError("the service is ending")
            if len(self._clerks) >= MAX_SERVED_SESSIONS:
                raise LimitError(f"the service holds {MAX_SERVED_SESSIONS} sessions: end one")
        session = self._opened(texts, TypedLine(line, "operator"), f"serve:{by.name}")
        with self._lock:
            late = self._over
            if not late:
                self._clerks[session.sid] = Clerk(session, self._pool)
        if late:
            session.seal("interrupted")
            raise StoreError("the service is ending")
        return session

    def taken(self, sid: str) -> Clerk:
        """
        Hold a minted session no more, and return its clerk, so that it can be sealed.

        Raises:
            InputError: no such session, or it is the service's own.
        """
        clerk = self.clerk(sid)
        if clerk is self.own:
            raise InputError("this is the service's own session: it ends with the service")
        with self._lock:
            self._clerks.pop(sid, None)
        return clerk

    def revoke(self, ticket: str, reason: str) -> bool:
        """
        Take a ticket back, with all that was narrowed from it; false: it was revoked before.

        It holds from the next decision on, in every session of this installation, and on every
        machine where counts are shared.

        Raises:
            InputError: the reason is no readable line.
            StoreError, ConfigError: it could not be written everywhere.
        """
        why = " ".join(reason.split())
        if not why or len(why) > MAX_TEXT_CHARS or not why.isprintable():
            raise InputError(f"say why, in a line of at most {MAX_TEXT_CHARS} characters")
        given = self._premises
        revoked = Revoked(ticket, why, given.outside.clock())
        return revoke_everywhere(revoked, given.home, load_key(key_path(given.home)))[0]

    def seal(self, reason: str = "complete") -> list[str]:
        """Seal every session, once what waits is decided; return why some could not be."""
        with self._lock:
            self._over = True
        self._pool.shutdown(wait=True)
        faults = []
        for clerk in list(self._clerks.values()):
            try:
                clerk.session.seal(reason)
            except BrokerError as error:
                faults.append(f"{clerk.session.sid}: {error}")
        return faults

    @property
    def sessions(self) -> list[Session]:
        """Every session that is held, the service's own first."""
        with self._lock:
            return [clerk.session for clerk in self._clerks.values()]

    def _opened(self, texts: Sequence[str], line: TypedLine | None, agent: str) -> Session:
        given = self._premises
        return Session.open(
            texts,
            workspace=given.workspace,
            home=given.home,
            intent=line,
            agent=agent,
            own=given.own,
            outside=given.outside,
            auditor=given.auditor,
            conceal=given.conceal,
        )


def private(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of files of the service, which no tool may touch."""
    return tuple(name for path in paths for name in (os.path.abspath(path), os.path.realpath(path)))
