"""
What Gemini CLI's hooks are answered.

Before a call it is decided under the tickets of all agents that may have made it: a call that two
subagents could have made passes only if the tickets of both let it through. After a
call it is checked that what ran is what was decided. Gemini CLI runs a call when a hook was
killed or timed out, and runs it with other arguments when another hook changed them; such a call
is decided when it has ended, and one that no ticket allows ends the run.

Decided here: that order. Not decided here: what a subagent is handed down
(``broker.agents.children``), what passes (``broker.session``).

Rules a maintainer keeps: nothing is let through without a decision; what is remembered of calls
is bounded; a subagent's ticket is recorded before the subagent may start.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Final

from broker.agents.children import Children, Commission
from broker.agents.gemini.hook import AFTER, BEFORE, DELEGATES, PROMPTED, GeminiCall, GeminiDialect
from broker.agents.gemini.nesting import Nesting
from broker.agents.hooks import MAIN_CALLS, explained, spawn_of
from broker.authorize import ASK
from broker.calls import Refusal
from broker.service.protocol import HookRefusal
from broker.session import MAIN, Session

MAX_PENDING: Final = 4096  # calls that were let through and have not ended
# What its tools fill in themselves between the two hooks.
_FILLED_IN: Final = {"grep_search": frozenset(("context",))}


class GeminiHook:
    """
    The hook of one run. ``started`` is set when the agent first calls it; ``lost`` says which
    call ran that no ticket allows.
    """

    def __init__(self) -> None:
        self.started = threading.Event()
        self.lost: str | None = None
        self._dialect = GeminiDialect()
        self._nesting = Nesting()
        self._children = Children()
        self._held: dict[str, tuple[str, ...]] = {}  # the tickets of subagents at work
        self._pending: dict[str, str] = {}  # call ids, and what was decided
        self._count = 0
        self._lock = threading.Lock()

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """
        Answer an event: None says nothing, and leaves it to the agent's own rules.

        Raises:
            InputError: the payload cannot be read; the caller refuses.
        """
        call = self._dialect.read(payload)
        self.started.set()
        if call.event == PROMPTED:
            with self._lock:
                self._nesting.forget()
                self._held.clear()
            session.at_work([])
        if not call.tool:
            return None
        decide = self._after if call.event == AFTER else self._before
        reason = decide(call, session)
        return None if reason is None else self._dialect.deny(call.event, reason)

    def refusal(self, reason: str) -> HookRefusal:
        """Return a refusal for a call that could not be read or decided."""
        text = f"refused: {reason}; do not work around this; ask the person"
        return self._dialect.deny(BEFORE, text)

    # ── before ──

    def _before(self, call: GeminiCall, session: Session) -> str | None:
        """Decide a call, and return why it is refused, or None."""
        if self.lost is not None:
            return f"refused: {self.lost}, and so the run ends"
        with self._lock:
            self._count += 1
            call_id = str(self._count)
            callers = self._nesting.callers(call.fired_ms)
        handed, veto, actor = None, None, MAIN
        if call.tool == DELEGATES and call.server is None:
            handed, veto, actor = self._handed(call, session, call_id, callers)
        reason = self._decided(call, session, call_id, callers, veto)
        if reason is None:
            with self._lock:
                if handed is not None:
                    self._held[actor] = tuple(ticket.id for ticket in handed.tickets)
                    # It cannot start before it is answered.
                    self._nesting.begin(actor, callers[0], _key(call), time.time_ns() // 1_000_000)
                    session.at_work([i for held in self._held.values() for i in held])
                self._pending[call_id] = _key(call)
                if len(self._pending) > MAX_PENDING:
                    del self._pending[next(iter(self._pending))]  # its end is decided again
        return reason

    def _handed(
        self, call: GeminiCall, session: Session, call_id: str, callers: Sequence[str]
    ) -> tuple[Commission | None, Refusal | None, str]:
        """Derive what a subagent is to hold, and name it; or say why it may not start."""
        if len(callers) != 1:
            why = f"it cannot be told which agent asks; start one subagent after another; {ASK}"
            return None, Refusal("session", "", why), ""
        given = call.given or {}
        spawn = spawn_of(call.tool, given, "agent_name", "prompt")
        with self._lock:
            actor = self._nesting.next(spawn.kind)
            held = self._held.get(callers[0], ())
        found = self._children.hand_down(
            spawn, call_id, MAIN_CALLS, actor=callers[0], session=session, held=held
        )
        return (None, found, "") if isinstance(found, Refusal) else (found, None, actor)

    # ── after ──

    def _after(self, call: GeminiCall, session: Session) -> str | None:
        """Record how a call ended, and return why its result is withheld, or None."""
        key = _key(call)
        with self._lock:
            call_id = next((i for i, k in self._pending.items() if k == key), "")
            self._pending.pop(call_id, None)
            callers = self._nesting.callers(None)
            if call.tool == DELEGATES:
                ended = self._nesting.end(key)
                self._held.pop(ended or "", None)
                session.at_work([i for held in self._held.values() for i in held])
        if not call_id:
            return self._unjudged(call, session, callers)
        session.result(call_id, ok=call.ok, output=call.output)
        return None

    def _unjudged(self, call: GeminiCall, session: Session, callers: Sequence[str]) -> str | None:
        """Decide a call that ran without a decision on what it ran with."""
        session.note(
            f"`{call.tool}` ran without this having been decided before: its hook failed, or "
            "another hook or a person changed its arguments",
            source="hook",
        )
        reason = self._decided(call, session, "", callers)
        if reason is not None:
            self.lost = f"`{call.tool}` ran although no ticket allows it"
        return reason

    def _decided(
        self,
        call: GeminiCall,
        session: Session,
        call_id: str,
        callers: Sequence[str],
        veto: Refusal | None = None,
    ) -> str | None:
        """Decide a call for all agents that may have made it, and return why it is refused."""
        with self._lock:
            among = [i for actor in callers for i in self._held.get(actor, ())]
        decision = session.decide(
            call.tool,
            call.arguments,
            call_id=call_id,
            server=call.server,
            actor=" or ".join(callers),
            cwd=call.cwd,
            among=among,
            veto=veto,
        )
        return None if decision.refusal is None else explained(decision.refusal)


def _key(call: GeminiCall) -> str:
    """Return what must be the same before a call and after it."""
    filled = _FILLED_IN.get(call.tool, frozenset())
    given = {k: v for k, v in (call.given or {}).items() if k not in filled}
    return json.dumps([call.tool, given], sort_keys=True)
