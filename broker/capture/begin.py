"""
Whether a run is recorded: the one thing of this room that a launch knows.

Decided here: what a run that is not recorded does in place of a recording, which is nothing. It
loads none of the rest until a recording begins.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from broker.agents.adapter import Adapter, Launch, Prepared
from broker.events import Bus


class Recorded(Protocol):
    """A recording as a launch sees it, in the order of a run."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host patterns of what the agent must reach because of it."""

    def through(self, adapter: Adapter, launch: Launch, prepared: Prepared) -> Prepared:
        """Return how the agent is started so that it is recorded. No thread is started."""

    def start(self, bus: Bus) -> None:
        """Begin to record; the agent's process has been made."""

    def lost(self) -> str | None:
        """Return why the agent cannot work on, or None."""

    def ended(self, code: int) -> None:
        """Take in how the agent ended."""

    def end(self, *, quiet: bool) -> None:
        """Write what is left, and say what there is of it. Called however a run ends."""


class NotRecorded:
    """
    No recording.

    >>> NotRecorded().through(None, None, Prepared(("x",))).command
    ('x',)
    """

    hosts: tuple[str, ...] = ()

    def through(self, adapter: Adapter, launch: Launch, prepared: Prepared) -> Prepared:
        """Return the agent as it is."""
        return prepared

    def start(self, bus: Bus) -> None:
        """Nothing begins."""

    def lost(self) -> str | None:
        """Return None: nothing can be lost."""
        return None

    def ended(self, code: int) -> None:
        """Nothing is kept."""

    def end(self, *, quiet: bool) -> None:
        """Nothing is left."""


def begin(
    wanted: bool,
    runs: Path,
    launch: Launch,
    adapter: Adapter,
    say: Callable[[str], None],
    *,
    sid: str = "",
) -> Recorded:
    """
    Begin to record a run, or say why it is not recorded.

    Args:
        wanted: whether the person wants it.
        runs: the folder of all runs.
        launch: what is to be started.
        adapter: its agent.
        say: tells the person a line.
        sid: the session of the run; empty where there is none.
    """
    if not wanted:
        return NotRecorded()
    from broker.capture.recording import Recording  # noqa: PLC0415  TLS comes along

    return Recording.begin(runs, launch, adapter, say, sid=sid) or NotRecorded()
