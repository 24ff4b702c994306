"""
Puts the walls around one run: before the agent is started, while it runs, and at its end.

Decided here: whether a run gets walls, by which engine, and what follows when they do not stand.
Not decided here: what they are (``walled``), how they are made (``engines``), what passes through
them (``egress``).

``auto`` gives walls where the ticket limits paths or hosts, the agent is proved to work within
them and an engine proves to hold; else it says why not, and the run goes on as without them.
``require`` gives walls or starts nothing. The agent's own canary (``broker.agents.canary``) comes
before, and outside of them: its model is ours, and stands on this machine's loopback.

Rules a maintainer keeps: no run begins before its walls are proved; the session says ``kernel``
only after that; what an engine does not hold is said before the agent starts, and is then never
called ``kernel``; what was made is removed at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from broker.agents.adapter import Launch, Plain
from broker.child import Child
from broker.errors import BrokerError, InputError, LaunchError, StoreError
from broker.home import every_name
from broker.sandbox import engines
from broker.sandbox.admission import Admission, unnamed
from broker.sandbox.carrying import Heard
from broker.sandbox.ceilings import FOR_EACH, Ceilings, ControlGroup, read_ceilings
from broker.sandbox.egress import Egress
from broker.sandbox.machine import CGROUPS, Machine, look
from broker.sandbox.needs import needs_of
from broker.sandbox.plan import make_plan
from broker.sandbox.showing import ShownPorts
from broker.sandbox.system import hidden, readable
from broker.sandbox.tree import guarded_in, listing
from broker.sandbox.walled import Needs, Walled, handed_over
from broker.session import Session

if TYPE_CHECKING:
    from broker.capture.upstream import ModelUpstream

Mode = Literal["auto", "require", "off"]
MODES: Final = ("auto", "require", "off")
SOURCE: Final = "sandbox"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was typed: whether there are walls, what a run may use, and which ports are shown."""

    mode: Mode = "off"
    ceilings: Ceilings = field(default_factory=Ceilings)
    ports: tuple[int, ...] = ()

    @classmethod
    def read(cls, mode: str, limits: Sequence[str] = (), ports: Sequence[int] = ()) -> Wanted:
        """
        Return what was typed.

        Raises:
            InputError: a word or a number is not understood.
        """
        ceilings = read_ceilings(limits)
        known: Mode | None = next((m for m in MODES if m == mode), None)
        if known is None:
            raise InputError(f"`--sandbox={mode[:40]}`: write auto, require or off")
        if any(not 0 < port < 65_536 for port in ports):
            raise InputError("a port is 1 to 65535")
        if known == "off" and (limits or ports):
            raise InputError("limits and ports are of the sandbox: add `--sandbox`")
        return cls(known, ceilings, tuple(dict.fromkeys(ports)))


@dataclass(frozen=True, slots=True)
class Start:
    """
    The agent's process as it would be started without walls.

    ``hosts`` are patterns of what it must reach for this run, beside its agent's own needs.
    """

    program: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    hosts: tuple[str, ...] = ()


class Sandbox:
    """
    The walls of one run, or none.

    ``begin`` before the adapter prepares its files, ``start`` in place of ``Child.start``, and
    ``stop`` at the end. ``over`` is asked while the agent runs.
    """

    def __init__(
        self,
        wanted: Wanted,
        *,
        own: Sequence[str],
        secret: Path,
        clock: Callable[[], int],
        say: Callable[[str], None],
        machine: Callable[[], Machine] = look,
    ) -> None:
        self._wanted = wanted
        self._own = own
        self._secret = secret
        self._clock = clock
        self._say = say
        self._machine = machine
        self._before: tuple[str, ...] = ()
        self._shown_too: tuple[str, ...] = ()
        self._shared_too: tuple[str, ...] = ()
        self._heard: Heard = lambda _: None
        self._models: MutableMapping[str, ModelUpstream] = {}
        self._scratch: Path | None = None
        self._egress: Egress | None = None
        self._shown: ShownPorts | None = None
        self._group: ControlGroup | None = None
        self._until: int | None = None
        self._began_s = 0.0
        self._watched: tuple[Walled, frozenset[str]] | None = None

    def begin(self, session: Session, agent: str, environ: Mapping[str, str]) -> None:
        """
        Note what lies in the session's folder, so that what comes after is the agent's.

        Raises:
            LaunchError: walls are required, and it is plain already that there will be none.
        """
        if self._wanted.mode == "require":
            try:
                self._needs(agent, environ)
                self._engines()
            except LaunchError as error:
                self._without(session, str(error))
        if self._wanted.mode != "off":
            self._before = tuple(os.listdir(session.folder))

    def hand_in(
        self,
        shown: Sequence[str],
        shared: Sequence[str],
        heard: Heard,
        models: MutableMapping[str, ModelUpstream],
    ) -> None:
        """
        Hand more into the walls before they are built, and have someone hear of connections.

        Args:
            shown: files and folders of ours that are read within.
            shared: files and sockets of ours that are written to within.
            heard: is told of each connection through the proxy.
            models: those that are asked through a server of ours. What a plain command may not
                reach goes out of it: only an agent that we know has a model of its own.
        """
        self._shown_too, self._shared_too, self._heard = tuple(shown), tuple(shared), heard
        self._models = models

    def start(self, child: Child, session: Session, agent: str, launch: Launch, it: Start) -> None:
        """
        Start the agent, within walls where they are wanted and hold.

        Raises:
            LaunchError: walls are required and do not stand; or the agent cannot be started.
        """
        self._began_s = time.monotonic()
        if self._wanted.mode != "off":
            try:
                if self._walls(child, session, agent, launch, it):
                    return
            except (BrokerError, OSError) as error:
                child.abandon()
                self._without(session, str(error))
        child.start(it.program, it.command, it.environ, it.cwd)

    def over(self) -> str | None:
        """Return why the agent must be stopped, or None."""
        if self._until is not None and self._clock() >= self._until:
            return "its ticket has ended (until)"
        wall_s = self._wanted.ceilings.wall_s
        if wall_s is not None and time.monotonic() - self._began_s > wall_s:
            return f"it ran longer than {wall_s} s (limit wall)"
        return None

    def stop(self, session: Session) -> None:
        """Close the way out, tell what was refused, and remove what was made."""
        if self._shown is not None:
            self._shown.stop()
        if self._egress is not None:
            self._egress.stop()
            if self._egress.refused:
                count = self._egress.refused
                self._note(session, f"{count} connections were refused by the walls")
        if self._group is not None:
            self._group.end()
        if self._watched is not None:
            self._look_back(session, *self._watched)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    # ── building ──

    def _walls(self, child: Child, session: Session, agent: str, launch: Launch, it: Start) -> bool:
        """Build walls and start the agent in them; False where there are to be none."""
        bounds = session.ticket.bounds
        if not bounds.seen and self._wanted == Wanted("auto"):
            return False  # nothing that walls could hold
        needs = self._needs(agent, it.environ)
        needs = replace(needs, hosts=tuple(dict.fromkeys((*needs.hosts, *it.hosts))))
        machine = self._engines()
        walled = self._walled(session, needs, launch, it)
        if self._wanted.ports and not machine.profiler:  # whose loopback is the person's own
            self._shown = ShownPorts(walled, self._wanted.ports)
            self._shown.bind()
        if walled.plan.writes is not None:
            # Looked at before anything runs within: what is made at once was made there too.
            self._watched = (walled, frozenset(self._guarded(walled)))
        broken = []
        for engine in machine.engines():
            try:
                held = self._try(child, session, engine, machine=machine, walled=walled, it=it)
            except (LaunchError, OSError) as error:
                broken.append(f"{engine}: {error}")
                child.abandon()
            else:
                own = self._close(walled) if agent == Plain.name else walled.needs.hosts
                self._told(session, held, walled, own)
                return True
        raise LaunchError("; ".join(broken))

    def _close(self, walled: Walled) -> tuple[str, ...]:
        """Close what no list of the ticket names of the models, and return the others' hosts."""
        if walled.plan.free:
            return ()
        closed = unnamed(Admission.of(walled.plan, ()), self._models)
        for name in closed:
            del self._models[name]
        if closed:
            self._say(
                f"sandbox: not named by the scope, and so not asked through the recording: "
                f"{', '.join(closed)}"
            )
        return tuple(f"{each.host}:{each.port}" for each in self._models.values())

    def _needs(self, agent: str, environ: Mapping[str, str]) -> Needs:
        needs = needs_of(agent, environ)
        if needs is None:
            raise LaunchError(
                f"`{agent}` is not proved to work within the sandbox, as it is set up"
            )
        return needs

    def _engines(self) -> Machine:
        machine = self._machine()
        if not machine.engines():
            raise LaunchError("this machine has nothing to build it of: see `broker doctor`")
        return machine

    def _walled(self, session: Session, needs: Needs, launch: Launch, it: Start) -> Walled:
        root = os.path.realpath(session.workspace)
        plan = make_plan(session.ticket.bounds, listing(root))
        self._scratch = Path(tempfile.mkdtemp(prefix="broker-"))
        for name in ("tmp", "var"):
            (self._scratch / name).mkdir(mode=0o700)
        sockets = [os.fspath(launch.socket)]
        if not plan.free:
            self._egress = Egress(
                self._scratch / "egress",
                Admission.of(plan, needs.hosts),
                lambda text: self._note(session, text),
                heard=self._heard,
            )
            self._egress.bind()
            sockets.append(os.fspath(self._egress.path))
        kept = {*needs.reads, *needs.writes}
        own = every_name(map(Path, self._own))
        closed = hidden(it.environ, own)
        return Walled(
            root,
            plan,
            os.path.realpath(it.environ.get("HOME") or "/"),
            os.fspath(self._scratch),
            readable(it.program, it.environ),
            needs,
            tuple(place for place in closed if place not in kept),
            (*handed_over(launch.folder, self._before), *self._shown_too),
            (*sockets, *self._shared_too),
            _there(launch.folder, needs.lent),
            _there(launch.folder, needs.kept),
        )

    def _try(
        self,
        child: Child,
        session: Session,
        engine: engines.Engine,
        *,
        machine: Machine,
        walled: Walled,
        it: Start,
    ) -> engines.Built:
        """Start the first process within the walls, hear whether they hold, and let it go on."""
        order = engines.Order(
            walled, it.program, it.command, it.environ, it.cwd, self._wanted.ceilings.limits(),
            os.fspath(self._secret), self._wanted.ports,
        )  # fmt: skip
        with engines.prepared(engine, machine, order) as start:
            held = start.held
            if self._wanted.mode == "require" and held.missing:
                raise LaunchError(f"it does not hold {held.missing[0]}")
            start.begin(child)
            self._grouped(session, start.pid)
            start.go()
        if held.missing:
            for missing in held.missing:
                self._say(f"sandbox: not held by this machine's {engine}: {missing}")
        else:
            session.sandboxed()
        if self._egress is not None:
            self._egress.start()
        if self._shown is not None:
            self._shown.start()
        self._until = session.ticket.until
        return held

    def _grouped(self, session: Session, pid: int) -> None:
        ceilings = self._wanted.ceilings
        if ceilings.memory_bytes is None and ceilings.processes is None:
            return
        group = ControlGroup(CGROUPS, f"broker-{session.sid}")
        if group.make(ceilings):
            self._group = group
            group.take(pid)
        elif why := ceilings.not_held(root=os.geteuid() == 0):
            if self._wanted.mode == "require":
                raise LaunchError(why)
            self._say(f"sandbox: {why}")
        else:
            self._say(f"sandbox: {FOR_EACH}")

    # ── telling ──

    def _told(
        self, session: Session, held: engines.Built, walled: Walled, own: Sequence[str]
    ) -> None:
        self._note(session, f"held by the kernel: {held.text}")
        self._say(f"sandbox: {held.text}")
        for note in walled.plan.notes:
            self._say(f"sandbox: narrower than the scope: {note}")
            self._note(session, f"narrower than the scope: {note}")
        if not walled.plan.free and own:
            text = f"reachable for the agent's model, and so for its tools too: {', '.join(own)}"
            self._say(f"sandbox: {text}")
            self._note(session, text)

    def _look_back(self, session: Session, walled: Walled, before: frozenset[str]) -> None:
        """Say which repositories were made below a writable tree: their hooks run as programs."""
        for place in sorted(set(self._guarded(walled)) - before):
            text = f"made within the walls, where the gate lets nothing be written: `{place}`"
            self._say(f"warning: {text}; look at it before you use git there")
            self._note(session, text)

    def _guarded(self, walled: Walled) -> list[str]:
        writes = walled.plan.writes
        trees = [] if writes is None else [p for p, s in walled.spots(writes) if s.kind == "folder"]
        return guarded_in(walled.root, trees)

    def _without(self, session: Session, why: str) -> None:
        """Say that there are no walls, or end here where they are required."""
        self._watched = None
        if self._shown is not None:
            self._shown.stop()  # the agent's own servers have the ports now
            self._shown = None
        if self._wanted.mode == "require":
            raise LaunchError(f"the sandbox is required, and does not stand: {why}")
        self._say(f"sandbox: none: {why}")
        self._note(session, f"no walls: {why}")

    def _note(self, session: Session, text: str) -> None:
        with suppress(StoreError):
            session.note(text, source=SOURCE)


def _there(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(place) for name in names if (place := folder / name).exists())
