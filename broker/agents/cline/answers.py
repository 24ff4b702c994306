"""
What Cline CLI's plugin and its net are answered.

Decided here: that a helper gets a ticket of its own when its task is let through, narrowed by the
``scope: KEY=VALUE`` lines of that task; and that the net ends a run whose plugin never spoke. Not
decided here: who calls (``broker.agents.cline.crew``) and what passes (``broker.session``).

Rules a maintainer keeps: nothing is let through without a decision; a helper's ticket is recorded
before the helper may start; whatever cannot be read is refused in a shape that both readers take
for a refusal.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import Final

from broker.agents.cline.crew import Crew
from broker.agents.cline.hook import NET, RUNS, SPAWNS, SUBAGENT, ClineCall, ClineDialect
from broker.agents.hooks import explained
from broker.agents.plugin import CALL, START
from broker.errors import BrokerError, InputError, StoreError
from broker.service.protocol import HookRefusal
from broker.session import Session

_SCOPE: Final = re.compile(r"^[ \t]*scope:[ \t]*([a-z]+[ \t]*=.*?)[ \t]*$", re.IGNORECASE | re.M)
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

    def refusal(self, reason: str) -> HookRefusal:
        """Return a refusal for a call that could not be read or decided."""
        return self._dialect.deny(NET, f"refused: {reason}; {_ASK}")

    def _decided(self, told: ClineCall, session: Session) -> str | None:
        """Decide a call, and return why it is refused, or None."""
        with self._lock:
            actor = self._crew.caller(told.agent, told.parent, told.tasks)
        if actor is None:
            return f"refused: it cannot be told which agent makes this call; {_ASK}"
        call = told.call
        decision = session.decide(
            call.tool,
            call.arguments,
            call_id=call.call_id,
            server=call.server,
            actor=actor,
            cwd=call.cwd,
        )
        if decision.refusal is not None:
            return explained(decision.refusal)
        return self._delegated(told, session, actor) if call.server is None else None

    def _delegated(self, told: ClineCall, session: Session, asked_by: str) -> str | None:
        """Give a helper its ticket before it may start, and return why it may not."""
        tool, given = told.call.tool, told.given or {}
        team = tool.startswith("team_")
        with self._lock:
            if team:
                self._crew.gather()
            if tool not in (SPAWNS, RUNS) and not tool.startswith(SUBAGENT):
                return None
            actor = self._crew.next(_kind(tool, given))
        task = given.get("prompt" if tool.startswith(SUBAGENT) else "task")
        if not isinstance(task, str):
            return f"refused: the helper's task is no text; {_ASK}"
        try:
            session.delegate(asked_scope(task), asked_by=asked_by, holder=actor)
        except BrokerError as error:
            with suppress(StoreError):
                session.note(f"`{actor}` did not start: {error}", source=tool)
            return f"refused: the scope that this task asks for: {error}"
        with self._lock:
            self._crew.begin(actor, asked_by, task, of_team=team)
        return None


def asked_scope(task: str) -> tuple[str, ...]:
    """
    Return the caveats that a helper's task asks to be held to, a ``scope:`` line each.

    >>> asked_scope("Look around.\\n  scope: tools=read_files\\nScope: the parser only")
    ('tools=read_files',)
    """
    return tuple(_SCOPE.findall(task))


def _kind(tool: str, given: object) -> str:
    """Return what a helper is called: its own kind, its name in the team, or just a subagent."""
    if tool.startswith(SUBAGENT):
        return tool.removeprefix(SUBAGENT)
    name = given.get("agentId") if tool == RUNS and isinstance(given, dict) else None
    return name if isinstance(name, str) else "subagent"
