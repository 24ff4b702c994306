"""
What a run does to the world around it, recorded: shells, MCP, files, spans, connections.

Decided here: of which layers the recording of a world is made, in which order they begin and end,
and what an agent's process is given for them. Not decided here: what each layer does.

A layer that cannot begin is off, which the trace and the person are told; the others go on.

Rules a maintainer keeps: ``begin`` starts no thread, since the agent's process is made after it;
``start`` comes once that is made; ``end`` comes before the run is sealed, and leaves nothing behind
but the run's own folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from broker.capabilities.clock import Clock
from broker.capture import door, spans
from broker.capture.calling import OpenCalls
from broker.capture.network import Network
from broker.capture.shims import Shims
from broker.capture.snapshots import Snapshots
from broker.errors import BrokerError, TraceError
from broker.service.client import RECORDER_VARIABLE
from broker.trace.writer import RunWriter

Say = Callable[[str], None]


class RecordedWorld:
    """
    The world of one run. ``begin``, ``start``, ``turned`` for each turn, ``end``.

    Args:
        run: what is written into.
        workspace: the folder that snapshots are taken of.
        environ: the environment that the agent would have.
        closed: folders that are never looked into: the broker's own.
        clock: what tells the time.
        say: tells the person a line.
        beside: the folder in which one is made for this run; the system's for such by default.
        open_calls: the model's, some of which shells carry out.

    ``variables`` are what the agent is given beside its environment, ``shown`` the folders that it
    must be able to read for that, ``shared`` what it must be able to write to or connect to, and
    ``network`` hears of connections.
    """

    def __init__(
        self,
        run: RunWriter,
        workspace: Path,
        environ: Mapping[str, str],
        *,
        closed: Iterable[str],
        clock: Clock,
        say: Say,
        beside: Path | None = None,
        open_calls: OpenCalls | None = None,
    ) -> None:
        self.variables: dict[str, str] = {}
        self.shown: tuple[str, ...] = ()
        self.shared: tuple[str, ...] = ()
        self.network = Network(run)
        self._run = run
        self._workspace = workspace
        self._environ = environ
        self._closed = tuple(closed)
        self._say = say
        self._beside = beside
        self._open_calls = open_calls
        self._place: Path | None = None
        self._door: door.Door | None = None
        self._shims: Shims | None = None
        self._spans: spans.Spans | None = None
        self._snapshots = Snapshots(run, workspace, self._closed, clock)

    def begin(self) -> None:
        """Begin what must be there before the agent is."""
        try:
            self._place = Path(tempfile.mkdtemp(prefix="broker-", dir=self._beside))
        except OSError as error:
            self._off("shell", f"no folder can be made: {error.strerror}")
        else:
            self.shown = (os.fspath(self._place),)
            self._try("shell", self._shells)
            self._try("spans", self._follow)
        self._try("files", self._snapshots.begin)
        if self._snapshots.off:
            self._off("files", self._snapshots.off)

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """
        Return the environment of the agent's process, which can now be made.

        It waits a moment for the first look at the workspace, which is to be before the agent's.

        Args:
            environ: what it would be without us; its ``PATH`` is kept, behind the shims.
        """
        self._snapshots.looked()
        found = {**environ, **self.variables}
        if "PATH" in self.variables and "PATH" in environ:
            shims = self.variables["PATH"].partition(os.pathsep)[0]
            found["PATH"] = f"{shims}{os.pathsep}{environ['PATH']}"
        return found

    def start(self) -> None:
        """Begin to hear and to write. The agent's process has been made."""
        for part in (self._door, self._spans, self._snapshots):
            if part is not None:
                part.start()

    def lost(self) -> str | None:
        """Return why the agent must not go on, or None; cheap to ask all the time."""
        return None if self._shims is None else self._shims.changed()

    def turned(self, turn: int) -> None:
        """Note that a turn begins; returns when its snapshot is there, or after a moment."""
        self._snapshots.turned(turn)

    def end(self) -> None:
        """Write what is left, and remove what was made for the run."""
        for part in (self._door, self._spans):
            if part is not None:
                part.stop()
        self._snapshots.end()
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)

    def _shells(self) -> None:
        assert self._place is not None  # noqa: S101 - it was made just now
        made = door.Door(self._run, self._place / "door", self._open_calls)
        shims = Shims(self._place, self._environ)
        shims.make()
        made.bind()
        self._door, self._shims = made, shims
        self.variables |= {**shims.environ(), RECORDER_VARIABLE: os.fspath(made.path)}
        self.shared += (os.fspath(made.path),)

    def _follow(self) -> None:
        assert self._place is not None  # noqa: S101 - it was made just now
        if self._environ.get(spans.VARIABLE):
            return  # somebody else follows it
        made = spans.Spans(self._run, self._place / "spans.jsonl")
        made.begin()
        self._spans = made
        self.variables[spans.VARIABLE] = os.fspath(made.path)
        self.shared += (os.fspath(made.path),)

    def _try(self, layer: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (BrokerError, OSError) as error:
            self._off(layer, str(error))

    def _off(self, layer: str, why: str) -> None:
        self._say(f"{_LAYERS[layer]} are not recorded: {why}")
        with suppress(TraceError):
            attrs = {"kind": "layer off", "layer": layer, "why": why}
            self._run.event("note", "orca", attrs=attrs)


_LAYERS = {"shell": "shells", "spans": "the agent's spans", "files": "snapshots"}
