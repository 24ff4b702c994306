"""
What Cline CLI's plugin and its net are answered.

Decided here: that a helper gets a ticket of its own when its task is let through, and that the net
ends a run whose plugin never spoke. Not decided here: who calls (``broker.agents.cline.crew``),
what a helper is handed down (``broker.agents.children``), and what passes (``broker.session``).

Rules a maintainer keeps: nothing is let through without a decision; a helper's ticket is recorded
before the helper may start; whatever cannot be read is refused in a shape that both readers take
for a refusal.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from broker.agents.children import Children, Commission
from broker.agents.cline.crew import Crew
from broker.agents.cline.hook import NET, RUNS, SPAWNS, SUBAGENT, ClineCall, ClineDialect
from broker.agents.hooks import MAIN_CALLS, explained, spawn_of
from broker.agents.plugin import CALL, START
from broker.authorize import ASK
from broker.calls import Refusal
from broker.errors import InputError, StoreError
from broker.service.protocol import HookRefusal
from broker.session import Session

_PLUGIN: Final = b'{"event":'  # as the plugin begins everything that it says
_ASK: Final = "do not work around this; ask the person"


class ClineHook:
    """
    The hook of one run. ``started`` is set when the plugin says that it is there.
    """

    def __init__(self, dialect: ClineDialect) -> None:
        self.started = threading.Event()
        self._dialect = dialect
        self._crew = Crew()
        self._children = Children()
        self._held: dict[str, tuple[str, ...]] = {}  # the tickets of helpers
        self._lock = threading.Lock()

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """
        Answer the plugin or the net: None says nothing, and leaves it to Cline's own rules.

        Raises:
            InputError: the net's payload cannot be read; the caller refuses.
        """
        try:
            told = self._dialect.read(payload)
        except InputError as error:
            if not payload.startswith(_PLUGIN):
                raise
            return self._dialect.deny(CALL, f"refused: {error}; {_ASK}")
        if told.call.event == START:
            self.started.set()
            return None
        if told.call.ended is not None:
            ended = told.call.ended
            with suppress(StoreError):  # it has run already: nothing is refused any more
                session.result(ended.call_id, ok=ended.ok, output=ended.output)
            return None
        if told.call.event == NET:
            if self.started.is_set():
                return None
            return self._dialect.deny(NET, f"the broker's plugin was not loaded; {_ASK}")
        reason = self._decided(told, session)
        return None if reason is None else self._dialect.deny(CALL, reason)

    def forget(self) -> None:
        """Forget every agent: from now on others are at work."""
        with self._lock:
            self._crew = Crew()
            self._held.clear()

    def refusal(self, reason: str) -> HookRefusal:
        """Return a refusal for a call that could not be read or decided."""
        return self._dialect.deny(NET, f"refused: {reason}; {_ASK}")

    def _decided(self, told: ClineCall, session: Session) -> str | None:
        """Decide a call, let the helper start that it asks for, or return why it is refused."""
        with self._lock:
            actor = self._crew.caller(told.agent, told.parent, told.tasks)
            held = self._held.get(actor or "", ())
        if actor is None:
            return f"refused: it cannot be told which agent makes this call; {_ASK}"
        call = told.call
        handed = self._handed(told, session, actor, held)
        decision = session.decide(
            call.tool,
            call.arguments,
            call_id=call.call_id,
            server=call.server,
            actor=actor,
            cwd=call.cwd,
            among=held,
            veto=handed if isinstance(handed, Refusal) else None,
        )
        if decision.refusal is not None:
            return explained(decision.refusal)
        self._begun(told, session, actor, handed)
        return None

    def _handed(
        self, told: ClineCall, session: Session, asked_by: str, held: Sequence[str]
    ) -> Commission | Refusal | None:
        """Derive what a helper is to hold, or say why it may not start; None where none is to."""
        task = _task_of(told)
        if task is None:
            return None
        given = told.given or {}
        if not isinstance(given.get(task), str):
            return Refusal("session", "", f"the helper's task is no text; {ASK}")
        try:
            spawn = spawn_of(told.call.tool, given, "agentId", task)
        except InputError as error:
            return Refusal("session", "", f"{error}; {ASK}")
        return self._children.hand_down(
            spawn, told.call.call_id, MAIN_CALLS, actor=asked_by, session=session, held=held
        )

    def _begun(
        self, told: ClineCall, session: Session, asked_by: str, handed: Commission | Refusal | None
    ) -> None:
        """Remember a helper that may start from now on, and that there may be teammates."""
        tool = told.call.tool
        of_team = told.call.server is None and tool.startswith("team_")
        with self._lock:
            if of_team:
                self._crew.gather()
            if not isinstance(handed, Commission):
                return
            actor = self._crew.next(_kind(tool, told.given))
            self._held[actor] = tuple(ticket.id for ticket in handed.tickets)
            self._crew.begin(actor, asked_by, handed.spawn.task, of_team=of_team)
            session.at_work([name for held in self._held.values() for name in held])


def _task_of(told: ClineCall) -> str | None:
    """Return which argument holds the task of the helper that a call starts, if it starts one."""
    tool = told.call.tool
    if told.call.server is not None:
        return None
    if tool.startswith(SUBAGENT):
        return "prompt"
    return "task" if tool in (SPAWNS, RUNS) else None


def _kind(tool: str, given: object) -> str:
    """Return what a helper is called: its own kind, its name in the team, or just a subagent."""
    if tool.startswith(SUBAGENT):
        return tool.removeprefix(SUBAGENT)
    name = given.get("agentId") if tool == RUNS and isinstance(given, dict) else None
    return name if isinstance(name, str) else "subagent"
