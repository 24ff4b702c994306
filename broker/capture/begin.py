"""
Whether a run is recorded: the one thing of this room that a launch knows.

Decided here: what a run that is not recorded does in place of a recording, which is nothing. It
loads none of the rest until a recording begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from broker.agents.adapter import Adapter, Launch, Prepared
from broker.events import Bus

if TYPE_CHECKING:
    from broker.sandbox.launching import Sandbox


class Recorded(Protocol):
    """A recording as a launch sees it, in the order of a run."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host patterns of what the agent must reach because of it."""

    @property
    def handed(self) -> Mapping[str, str]:
        """Variables that the agent's own servers need too, so that they can tell what they do."""

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the agent's process, from what it would be without us."""

    def within(self, walls: Sandbox) -> None:
        """Have what is recorded within walls reach it."""

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


class Begins(Protocol):
    """Begins a recording; see ``begin``."""

    def __call__(
        self,
        wanted: bool,
        runs: Path,
        launch: Launch,
        adapter: Adapter,
        say: Callable[[str], None],
        *,
        sid: str = "",
        workspace: Path | None = None,
        closed: Sequence[str] = (),
    ) -> Recorded:
        """Begin to record a run, or say why it is not recorded."""


class NotRecorded:
    """
    No recording.

    >>> NotRecorded().through(None, None, Prepared(("x",))).command
    ('x',)
    """

    hosts: tuple[str, ...] = ()
    handed: Mapping[str, str] = MappingProxyType({})

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment as it is."""
        return dict(environ)

    def within(self, walls: Sandbox) -> None:
        """Nothing is handed in."""

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
    workspace: Path | None = None,
    closed: Sequence[str] = (),
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
        workspace: the folder that snapshots are taken of; where it starts by default.
        closed: folders that are never looked into: the broker's own.
    """
    if not wanted:
        return NotRecorded()
    from broker.capture.recording import Recording  # noqa: PLC0415  TLS comes along

    begun = Recording.begin(runs, launch, adapter, say, sid=sid, workspace=workspace, closed=closed)
    return begun or NotRecorded()
