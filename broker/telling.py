"""
What a person is told of refusals: a line for each while the agent runs, and counts at the end.

Decided here: how a refusal reads on one line, and when it is said. An agent that has the terminal
to itself may have drawn a screen on it, which a line of ours would tear; then the lines are kept
and told when it has ended. Not decided here: what is written into the receipt, which holds all of
them in any case.

Rules a maintainer keeps: what an agent supplied is shortened, and shown only by ``say``, which
takes the control characters out; what is kept is bounded.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from broker.authorize import ASK
from broker.calls import Refusal
from broker.events import CallDecided, Event, OpinionFailed
from broker.session import CANARY, MAIN

MAX_LINE_CHARS: Final = 300
MAX_KEPT_LINES: Final = 10


class Stream(Protocol):
    """A stream that may be a terminal."""

    def isatty(self) -> bool:
        """Whether it is one."""


class Telling:
    """
    The refusals of one run, as a person is told of them.

    Args:
        say: says one line.
        live: say each as it comes; else the last ones are kept.
    """

    def __init__(self, say: Callable[[str], object], *, live: bool) -> None:
        self._say = say
        self._live = live
        self._counts: Counter[str] = Counter()
        self._kept: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        self._faults: set[str] = set()
        self._first: list[str] = []
        self._lock = threading.Lock()

    def hear(self, event: Event) -> None:
        """Take an event of the session's bus."""
        if isinstance(event, OpinionFailed):
            self._unheard(event)
            return
        if not isinstance(event, CallDecided) or event.decision.refusal is None:
            return
        if event.actor == CANARY:
            return  # it was to be refused, and is told of otherwise
        line = told(event.tool, event.decision.refusal, event.actor)
        with self._lock:
            self._counts[event.decision.refusal.caveat] += 1
            if not self._live:
                self._kept.append(line)
        if self._live:
            self._say(line)

    def _unheard(self, event: OpinionFailed) -> None:
        """Tell of an opinion that could not be had, once for each reason."""
        line = f"opinion `{event.name}` could not be had: {event.fault}"[:MAX_LINE_CHARS]
        with self._lock:
            if line in self._faults or len(self._faults) >= MAX_KEPT_LINES:
                return
            self._faults.add(line)
            if not self._live:
                self._first.append(line)
        if self._live:
            self._say(f"warning: {line}")

    def rest(self) -> tuple[str, ...]:
        """Return the lines that were kept, and before them how many were not."""
        with self._lock:
            lines = tuple(self._kept)
            more = 0 if self._live else sum(self._counts.values()) - len(lines)
            first = tuple(f"warning: {line}" for line in self._first)
        return (*first, f"{more} refusals before these", *lines) if more else (*first, *lines)

    def counts(self) -> str:
        """
        Return how many calls each caveat refused, the most first; empty where none was refused.

        >>> Telling(print, live=True).counts()
        ''
        """
        with self._lock:
            ranked = sorted(self._counts.items(), key=lambda found: (-found[1], found[0]))
        return ", ".join(f"{caveat} {count}" for caveat, count in ranked)


def told(tool: str, refusal: Refusal, actor: str = MAIN) -> str:
    """
    Return a refusal on one line, for a person.

    >>> told("fetch", Refusal("tools", "fetch", f"tool `fetch` is not in tools: read; {ASK}"))
    'refused (tools): fetch: tool `fetch` is not in tools: read'
    """
    who = "" if actor == MAIN else f" {actor}"
    reason = refusal.reason.removesuffix(f"; {ASK}")
    line = f"refused ({refusal.caveat}){who}: {tool}: {reason}"
    return line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…"


def has_terminal(streams: Iterable[Stream] | None = None) -> bool:
    """Return whether an agent that is given these streams (ours) may draw a screen on ours."""
    given = (sys.stdin, sys.stdout, sys.stderr) if streams is None else streams
    return all(stream.isatty() for stream in given)
