"""
A recording whose model is the recording of another run.

Decided here: that a replay is recorded like any run, with the server of the replay behind the one
that records, and what the trace of a replay says of each divergence. Not decided here: what is
recorded (``broker.capture``), what is matched (``broker.replay.playback``).

Rule a maintainer keeps: a request that stays unmatched ends the agent, unless it was handed on
live: what an agent does after an answer that nobody recorded is no replay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from broker.agents.adapter import Adapter, Launch, Prepared
from broker.capture.recording import Recording
from broker.errors import TraceError
from broker.events import Bus
from broker.replay.answering import Diverged, ResultsServer
from broker.replay.live import LiveModels
from broker.replay.matching import NAMES
from broker.replay.playback import Played
from broker.replay.serving import ReplayServer, Told
from broker.sandbox.launching import Sandbox

NO_KEY: Final = "broker-replay"  # what stands for a key: nobody is asked who would look at it


class Replaying:
    """
    The recording of a replay, as a launch sees it.

    Args:
        recording: of the replay itself.
        make: makes the server, once it is known who is told of what is matched.
        live: the models themselves; None where nothing leaves.
        loose: what is not matched is live, and does not end the agent.
        results: makes what gives tools their recorded results, once it is known who is told of
            those that are not on record; None where tools run.
    """

    def __init__(
        self,
        recording: Recording,
        make: Callable[[Told], ReplayServer],
        live: LiveModels | None = None,
        *,
        loose: bool = False,
        results: Callable[[Diverged], ResultsServer] | None = None,
    ) -> None:
        self.recording = recording
        self.halted = ""
        self._server = make(self._told)
        self.results = None if results is None else results(self._result)
        self._live = live
        if live is not None:
            live.told = self._translated
        self._loose = loose
        self._lock = threading.Lock()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host patterns of what the agent must reach because of it."""
        return self.recording.hosts

    @property
    def handed(self) -> Mapping[str, str]:
        """Variables that the agent's own servers need too."""
        return self.recording.handed

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the agent's process, from what it would be without us."""
        return self.recording.around(environ)

    def within(self, walls: Sandbox) -> None:
        """Have what is recorded within walls reach it."""
        self.recording.within(walls)

    @property
    def live(self) -> int:
        """How many requests were handed on to a model."""
        return self._server.live

    def through(self, adapter: Adapter, launch: Launch, prepared: Prepared) -> Prepared:
        """Return how the agent is started so that it asks the recording."""
        found = self.recording.through(adapter, launch, prepared)
        server = self._server
        before = self.recording.behind(
            lambda name: f"http://127.0.0.1:{server.port}{server.base(name)}"
        )
        if self._live is not None:
            self._live.upstreams = before
        stand_ins = [name for name, value in launch.environ.items() if value == NO_KEY]
        return replace(found, tokens=(*found.tokens, *stand_ins))

    def start(self, bus: Bus) -> None:
        """Begin to answer and to record; the agent's process has been made."""
        self._server.start()
        if self.results is not None:
            self.results.start()
        self.recording.start(bus)

    def lost(self) -> str | None:
        """Return why the agent cannot work on, or None."""
        with self._lock:
            halted = self.halted
        return halted or self.recording.lost()

    def ended(self, code: int) -> None:
        """Take in how the agent ended."""
        self.recording.ended(code)

    def end(self, *, quiet: bool) -> None:
        """Write what is left, and say what there is of it."""
        self._server.close()
        if self.results is not None:
            self.results.close()
        self.recording.end(quiet=quiet)

    def _told(self, asked: str, played: Played) -> None:
        match = played.match
        if self.results is not None and match.kept is not None and played.answer is not None:
            self.results.trees.asked(match.kept.seq)
        if played.aside and played.answer is not None:
            return
        if match.rung == 1 and played.answer is not None:
            return
        attrs = {
            "rung": match.rung,
            "severity": NAMES[match.rung],
            "asked": asked,
            "expected": -1 if match.kept is None else match.kept.seq,
            "distance": round(match.distance, 4),
            "why": match.why,
        }
        with suppress(TraceError):  # the recording says itself that it ended early
            self.recording.event("divergence", attrs)
        if played.answer is None and not self._loose:
            with self._lock:
                self.halted = self.halted or f"divergence at `{asked}`: {match.why}"

    def _result(self, kind: str, rung: int, seq: int, why: str) -> None:
        """Tell of a tool's result that is not the recorded one, or not on record."""
        attrs = {"kind": kind, "severity": NAMES[rung], "expected": seq, "why": why}
        with suppress(TraceError):
            self.recording.event("divergence", attrs)

    def _translated(self, attrs: Mapping[str, object]) -> None:
        """Tell of a request that another provider's model was asked."""
        with suppress(TraceError):
            self.recording.event("note", attrs)
