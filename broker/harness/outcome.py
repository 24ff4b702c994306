"""
What becomes of a call: for the model, and for whoever watches.

Decided here: the shapes. Not decided here: how a call comes to its end (``pipeline``).

A rule a maintainer keeps: a report says what ran as text, so that nobody who reads it later can
have changed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from broker.harness.script import ToolCall
from broker.permissions.modes import DEFAULT, Mode

Outcome = Literal["done", "failed", "refused"]
Stop = Literal[
    "",  # it ran, and did what it does
    "unknown_tool",
    "invalid_arguments",
    "blocked",
    "hook_failed",
    "hook_timeout",
    "ticket",
    "permission",
    "session",  # the decision or the result could not be recorded
    "moved",  # a link was changed while the call was decided
    "tool",  # it ran, and failed
    "broken",  # something broke on the way that nobody foresaw
]

STAGES: Final = (
    "resolve",
    "validate",
    "hooks",
    "snapshot",
    "revalidate",
    "ticket",
    "permission",
    "execute",
    "result hooks",
    "finalize",
)


@dataclass(frozen=True, slots=True)
class Result:
    """
    What became of a call, as the model reads it.

    ``caveat`` names what refused it; ``changed`` says that it ran and may have changed something.
    """

    outcome: Outcome
    text: str
    caveat: str = ""
    stop: Stop = ""
    changed: bool = False

    def meets(self, expected: str) -> bool:
        """
        Whether this is what a script expects of the call.

        >>> Result("refused", "…", "paths").meets("refused paths")
        True
        """
        said = f"{self.outcome} {self.caveat}" if " " in expected else self.outcome
        return not expected or said == expected


@dataclass(frozen=True, slots=True)
class Caller:
    """
    The agent that makes a call: its name, its ticket (empty: the run's own) and its mode.

    ``delegate`` runs a subagent on a prompt, in a mode; it is given what narrows the ticket.
    """

    actor: str
    ticket: str
    delegate: Callable[[str, Callable[[str], str], str | None], str]
    mode: Mode = DEFAULT


@dataclass(frozen=True, slots=True)
class CallReport:
    """
    One call, for whoever watches: what was asked, what ran, and how it ended.

    ``asked`` and ``ran`` are JSON texts; ``ran`` is None when the call was stopped before its
    arguments were frozen, and ``digest`` is the hash of what ran. ``changed`` are the places,
    as JSON pointers, that hooks changed before that; ``ignored`` those that somebody changed
    after it, which had no effect. ``stages`` are those that it went through, the last one being
    where it was stopped, and before ``finalize``, which is always there. ``spilled`` is the file
    that holds a result which was too long.
    """

    call: str
    actor: str
    tool: str
    asked: str
    ran: str | None
    digest: str | None
    changed: tuple[str, ...]
    ignored: tuple[str, ...]
    outcome: Outcome
    stop: Stop
    reason: str
    stages: tuple[str, ...]
    spilled: str | None = None
    spent_ns: int = 0


Watch = Callable[[CallReport], object]


@dataclass(frozen=True, slots=True)
class Said:
    """The model said something."""

    actor: str
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call is about to be handled."""

    actor: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Ended:
    """A call was handled; ``as_expected`` is false when the script expected something else."""

    actor: str
    call: ToolCall
    result: Result
    as_expected: bool


Watcher = Callable[[Said | Called | Ended], None]
