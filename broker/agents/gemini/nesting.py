"""
Whose call it is, where no payload says so.

Gemini CLI tells its hooks of a subagent's calls, but not that they are a subagent's. What is
known is the order: the hooks of all calls that one agent makes at once are started before any of
those calls runs, and an agent waits for the subagents that it started. So a call that was made
after ``invoke_agent`` was let through, and before it ended, is a subagent's, and one that was
made earlier is not. Both instants are told by the clock of this machine.

Decided here: which agents may have made a call. Not decided here: what follows
(``broker.agents.gemini.answers``).

Rule a maintainer keeps: where several may have called, all of them are named, except those whose
ticket is wider than another's: an agent that waits for one of them, and the main agent. A call
without a readable time may be anybody's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from broker.session import MAIN

_NOT_OF_KINDS: Final = re.compile(r"[^A-Za-z0-9_.-]")
_KIND_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Errand:
    """A subagent that was let start: who it is, who waits for it, since when, and its task."""

    actor: str
    asked_by: str
    task: str
    begun_ms: int


class Nesting:
    """
    The subagents that may be at work.

    >>> nesting = Nesting()
    >>> nesting.begin(nesting.next("generalist"), MAIN, "look", 1000)
    >>> nesting.callers(999), nesting.callers(1001)
    (('main',), ('agent:generalist:1',))
    >>> nesting.end("look")
    'agent:generalist:1'
    >>> nesting.callers(1002)
    ('main',)
    """

    def __init__(self) -> None:
        self._open: list[Errand] = []
        self._count = 0

    def next(self, kind: str) -> str:
        """Return the actor that a subagent of this kind will be; never the same one twice."""
        self._count += 1
        return f"agent:{_NOT_OF_KINDS.sub('_', kind)[:_KIND_CHARS] or 'unknown'}:{self._count}"

    def begin(self, actor: str, asked_by: str, task: str, at_ms: int) -> None:
        """A subagent may start from now on."""
        self._open.append(Errand(actor, asked_by, task, at_ms))

    def end(self, task: str) -> str | None:
        """
        A subagent with this task has ended: return who it was, if it is known.

        Of several with the same one, the last that began: of those that wait for one another it
        is the first to end, and others were asked by the same agent in the same words.
        """
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at].task == task:
                return self._open.pop(at).actor
        return None

    def forget(self) -> None:
        """A person gave a new line to the main agent, so that nobody else is at work."""
        self._open.clear()

    def callers(self, fired_ms: int | None) -> tuple[str, ...]:
        """Return who may have made a call at an instant, without those who hold a wider ticket."""
        able = [e for e in self._open if fired_ms is None or fired_ms >= e.begun_ms]
        waiting = {e.asked_by for e in able}
        return tuple(e.actor for e in able if e.actor not in waiting) or (MAIN,)
