"""
What the recording of one run is made of, and when each part of it begins and ends.

Decided here: the order in which parts begin and end, and that a recording which cannot go on is
said and ends alone. Not decided here: what each part does.

The trace is no proof, and nothing is decided by it: a run whose recording cannot begin, or breaks,
goes on, and the person is told in one line. What must not fail is the receipt.

Rules a maintainer keeps: ``begin`` starts no thread, since the agent's process is made after it;
``start`` comes once that is made; ``end`` comes however the run ends, and writes what is left
before it seals; the agent reaches its model for as long as it runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.agents.adapter import Adapter, Launch, Prepared
from broker.capabilities.clock import Clock, SystemClock
from broker.capture.calling import OpenCalls
from broker.capture.proxy import ModelProxy
from broker.capture.redirect import Pointed, pointed
from broker.capture.repository import git_state
from broker.capture.scribe import Scribe
from broker.capture.upstream import ModelUpstream
from broker.capture.world import RecordedWorld
from broker.errors import BrokerError, LaunchError, TraceError
from broker.events import Bus
from broker.home import every_name
from broker.sandbox.launching import Sandbox
from broker.service.client import RECORDER_VARIABLE
from broker.trace.about import About, Parent, StartedBy
from broker.trace.writer import RunWriter

_WORD_BYTES: Final = 16
_DIRECT: Final = ("127.0.0.1", "localhost")
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")

Say = Callable[[str], None]


class Recording:
    """
    The recording of one run; ``begin`` makes one.

    ``run_id`` is the run's name, ``folder`` its folder.
    """

    def __init__(
        self, run: RunWriter, world: RecordedWorld, say: Say, open_calls: OpenCalls | None = None
    ) -> None:
        self.run_id = run.run_id
        self.folder = run.folder
        self._run = run
        self._world = world
        self._say = say
        self._scribe = Scribe(run, world.turned, open_calls)
        self._proxy: ModelProxy | None = None
        self._code: int | None = None
        self._stands_in = False  # other servers answer in place of the models
        self._unsubscribe: Callable[[], None] = lambda: None

    @classmethod
    def begin(
        cls,
        runs: Path,
        launch: Launch,
        adapter: Adapter,
        say: Say,
        *,
        sid: str = "",
        workspace: Path | None = None,
        closed: Sequence[str] = (),
        parent: Parent | None = None,
        clock: Clock | None = None,
        randomness: Callable[[int], bytes] = secrets.token_bytes,
    ) -> Recording | None:
        """
        Begin to record a run, or say why it is not recorded and return None.

        Args:
            runs: the folder of all runs.
            launch: what is to be started.
            adapter: its agent.
            say: tells the person a line.
            sid: the session of the run; empty where there is none.
            workspace: the folder that snapshots are taken of; where it starts by default.
            closed: folders that are never looked into: the broker's own.
            parent: the run that this one replays or was forked from.
            clock: what tells the time.
            randomness: so many random bytes.
        """
        known = About(
            StartedBy(adapter.name),
            launch.command,
            str(launch.cwd),
            launch.environ,
            session=launch.folder if sid else None,
            git=git_state(workspace or launch.cwd),
            sid=sid,
            parent=parent,
        )
        clock = clock or SystemClock()
        try:
            run = RunWriter.create(runs, known, clock=clock, randomness=randomness)
            attrs = {"adapter": adapter.name, "argv": list(launch.command), "cwd": str(launch.cwd)}
            run.event("run.start", "orca", attrs=attrs | ({"sid": sid} if sid else {}))
        except BrokerError as error:
            say(f"warning: not recorded: {error}")
            return None
        calls = OpenCalls()
        world = RecordedWorld(
            run,
            workspace or launch.cwd,
            launch.environ,
            closed=(*closed, *every_name([runs])),
            clock=clock,
            say=say,
            # Where a run's socket lies no tool may write.
            beside=launch.socket.parent if sid else None,
            open_calls=calls,
        )
        world.begin()
        return cls(run, world, say, calls)

    def through(self, adapter: Adapter, launch: Launch, prepared: Prepared) -> Prepared:
        """
        Point an agent at a server of ours, and return how it is then started.

        Where its model cannot be told, or is reached in another way, that is said, and the rest of
        the run is recorded all the same.
        """
        word = secrets.token_hex(_WORD_BYTES)
        proxy = ModelProxy(word, launch.environ, self.folder, self._scribe)
        try:
            proxy.bind()
            found = pointed(adapter, launch, prepared, proxy.url)
        except LaunchError as error:
            found = Pointed(prepared, off=str(error))
        if found.off:
            self._say(f"model calls are not recorded: {found.off}")
            with suppress(TraceError):
                attrs = {"kind": "layer off", "layer": "model", "why": found.off}
                self._run.event("note", "orca", attrs=attrs)
            proxy.stop()
            return prepared
        proxy.upstreams.update({each.name: each for each in found.upstreams})
        self._proxy = proxy
        environ = {**found.prepared.environ, **_around_proxies(launch.environ)}
        return replace(found.prepared, environ=environ)

    def behind(self, address: Callable[[str], str]) -> dict[str, ModelUpstream]:
        """Have other servers answer in place of the models, by their names; return the models."""
        if self._proxy is None:
            return {}
        before = dict(self._proxy.upstreams)
        self._stands_in = True
        for name in before:
            self._proxy.upstreams[name] = ModelUpstream.read(name, address(name))
        return before

    def event(self, kind: str, attrs: Mapping[str, object]) -> int:
        """
        Write an event of whoever stands around the recording, and return its number.

        Raises:
            InputError, TraceError: as ``RunWriter.event``.
        """
        return self._run.event(kind, "orca", attrs=attrs)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host patterns of what the agent must reach because of it: our server."""
        return () if self._proxy is None else (f"127.0.0.1:{self._proxy.port}",)

    @property
    def handed(self) -> Mapping[str, str]:
        """Variables that the agent's own servers need too, so that they can tell what they do."""
        found = self._world.variables
        return {name: found[name] for name in (RECORDER_VARIABLE,) if name in found}

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the agent's process, which is made next, from its own one."""
        return self._world.around(environ)

    def within(self, walls: Sandbox) -> None:
        """Have what is recorded within walls reach us."""
        real = None if self._stands_in else self._proxy
        models = {} if real is None else real.upstreams
        walls.hand_in(self._world.shown, self._world.shared, self._world.network.hear, models)

    def start(self, bus: Bus) -> None:
        """Begin to serve and to write; the agent's process has been made."""
        self._world.start()
        self._scribe.start()
        self._unsubscribe = bus.subscribe(self._scribe.hear)
        if self._proxy is not None:
            self._proxy.start()

    def lost(self) -> str | None:
        """Return why the agent cannot work on, or None."""
        return self._world.lost() or (None if self._proxy is None else self._proxy.lost())

    def ended(self, code: int) -> None:
        """Take in how the agent ended."""
        self._code = code

    def end(self, *, quiet: bool) -> None:
        """Write what is left, seal the run, and say on one line what there is of it."""
        if self._proxy is not None:
            self._proxy.stop()
        self._unsubscribe()
        whole = self._scribe.stop()
        self._world.end()
        attrs: dict[str, object] = {} if self._code is None else {"exit_code": self._code}
        if not whole:
            attrs["left_out"] = "what had not been written when its time was over"
        with suppress(BrokerError):  # why it is broken is said below
            self._run.event("run.end", "orca", attrs=attrs)
            self._run.seal(self._code)
        shown = f"`broker runs show {self.run_id}`"
        if self._run.broken or not whole:
            why = self._run.broken or "it was not written in time"
            self._say(f"warning: the recording ends early: {why}; {shown}")
        elif not quiet:
            counts = f"{_so_many(self._scribe.requests, 'request')}, "
            counts += _so_many(self._scribe.calls, "call")
            self._say(f"recorded {self.run_id}: {counts}; {shown}")


def _so_many(count: int, what: str) -> str:
    """
    Return a count of things in words.

    >>> _so_many(1, "call"), _so_many(2, "call")
    ('1 call', '2 calls')
    """
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _around_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what keeps an agent from asking a proxy of its environment for this machine."""
    if not any(environ.get(name) or environ.get(name.upper()) for name in _PROXIES):
        return {}
    said = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    listed: Sequence[str] = [*filter(None, map(str.strip, said.split(","))), *_DIRECT]
    joined = ",".join(dict.fromkeys(listed))
    return {"no_proxy": joined, "NO_PROXY": joined}
