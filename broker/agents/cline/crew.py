"""
Whose call it is, in a run where agents start agents.

Cline names the agent of each call, and the agent that started it, but for teammates, of whom it
says neither who started them nor that they are any. What each of them was given as its task it
does tell, word for word. So a helper is found by its task: by the latest one that was let
through with these words.

Decided here: which agent made a call. Not decided here: what it may (its ticket was derived when
its task was let through, see ``broker.agents.cline.answers``).

Rules a maintainer keeps: an agent that cannot be told is nobody, and its calls are refused, as
it could be a helper with a narrower ticket; once there is a team, an agent that nobody knows is
never taken for the person's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.session import MAIN

MAX_ERRANDS: Final = 4096  # tasks that are kept in mind
_NOT_OF_KINDS: Final = re.compile(r"[^A-Za-z0-9_.-]")
_KIND_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task that was let through: who does it, who asked for it, and its words."""

    actor: str
    asked_by: str
    task: str
    of_team: bool


class Crew:
    """
    The agents of one run.

    >>> crew = Crew()
    >>> crew.caller("a1", "", ["go"])
    'main'
    >>> crew.begin(crew.next("subagent"), "main", "look")
    >>> crew.caller("a2", "a1", ["look"]), crew.caller("a3", "a1", ["something else"])
    ('agent:subagent:1', None)
    """

    def __init__(self) -> None:
        self._errands: list[Assignment] = []
        self._actors: dict[str, str] = {}  # by the agent's id, as last told
        self._mains: set[str] = set()
        self._team = False
        self._count = 0

    def next(self, kind: str) -> str:
        """Return the actor that a helper of this kind will be; never the same one twice."""
        self._count += 1
        return f"agent:{_NOT_OF_KINDS.sub('_', kind)[:_KIND_CHARS] or 'unknown'}:{self._count}"

    def begin(self, actor: str, asked_by: str, task: str, *, of_team: bool = False) -> None:
        """A helper may start on a task from now on."""
        self._errands.append(Assignment(actor, asked_by, task.strip(), of_team))
        del self._errands[:-MAX_ERRANDS]

    def gather(self) -> None:
        """There are teammates from now on, whom nothing tells apart from the main agent."""
        self._team = True

    def caller(self, agent: str, parent: str, tasks: Iterable[str]) -> str | None:
        """
        Return who makes a call, or None when it cannot be told.

        Args:
            agent: the agent's id.
            parent: the id of the agent that started it; empty for a teammate and for the main.
            tasks: what the agent was told to do, the latest last.
        """
        if not parent and (agent in self._mains or not self._team):
            self._mains.add(agent)
            found: str | None = MAIN
        else:
            found = self._by_task(self._actors.get(parent), tasks, of_team=not parent)
        if found is not None:
            self._actors[agent] = found
        return found

    def _by_task(self, asked_by: str | None, tasks: Iterable[str], *, of_team: bool) -> str | None:
        for task in reversed([text.strip() for text in tasks]):
            for errand in reversed(self._errands):
                known = of_team or errand.asked_by == asked_by
                if errand.task == task and errand.of_team == of_team and known:
                    return errand.actor
        return None
