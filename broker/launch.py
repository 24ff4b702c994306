"""
Starts an agent under a ticket, serves its decisions, and ends the session with it.

Decided here: the order of a run, what the agent's process gets, and which signal does what. Not
decided here: what passes (``broker.session``), how each agent is held (``broker.agents``), what a
person reads of it (``broker.launchwords``).

The agent runs in the foreground: it has the terminal, its streams are untouched, and its exit
code is the run's. Ctrl-C reaches it from the terminal and the broker waits for it to end.
SIGTERM and SIGHUP are passed on, and the receipt is then sealed as interrupted. A killed broker
takes the process that it started with it where the kernel can (Linux); everywhere, hooks refuse
from then on.

Rules a maintainer keeps: nothing is started before its receipt has begun and its socket is
there; the agent gets no key; no thread runs when the agent's process is made; the receipt is
sealed however the run ends, or says why not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from broker.agents.adapter import Adapter, Launch, Plain, Prepared, adapter_for
from broker.asking import Asker, asker_for, check_asking
from broker.capture.begin import Begins, Recorded, begin
from broker.child import Child
from broker.config import Config, load_config
from broker.errors import BrokerError, LaunchError, StoreError
from broker.home import Home
from broker.intent import TypedLine
from broker.launchwords import Streams, say_begun, say_beside, say_keys
from broker.opinions.settings import typed_opinions
from broker.program import program_of, start_in
from broker.receipt.rotation import finish
from broker.receipt.sealing import load_auditor_key
from broker.sandbox.launching import Sandbox, Start, Wanted
from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE, TICKET_VARIABLE
from broker.service.place import Runtime
from broker.service.server import Server
from broker.session import CANARY, Session
from broker.sessions.asking import AskingSession
from broker.sessions.counting import files_of_counts
from broker.sessions.ground import Outside, key_path, own_key
from broker.sessions.recovery import seal_abandoned
from broker.telling import Telling, has_terminal

if TYPE_CHECKING:
    from broker.fleet.background import Mirroring

# How long a thread may keep the interpreter while another one waits for it. A decision gives it up
# at each step to the socket and the disk, and beside a recorder at work waits for it each time.
TURN_S: Final = 0.0005
ANCHORING_S: Final = 5.0  # at the end of a run; what takes longer is handed in later


def run(
    command: Sequence[str],
    *,
    texts: Sequence[str] = (),
    intent: str | None = None,
    workspace: Path | None = None,
    home: Home | None = None,
    environ: Mapping[str, str] | None = None,
    adapter: Adapter | None = None,
    outside: Outside | None = None,
    stderr: TextIO | None = None,
    require_enforcement: bool = False,
    forward: Path | None = None,
    conceal: Sequence[str] = (),
    quiet: bool = False,
    canary: bool | None = None,
    sandbox: Wanted | None = None,
    record: bool | None = None,
    begins: Begins = begin,
    ask: bool = False,
    handed: str | None = None,
    opinions: Sequence[str] = (),
) -> int:
    """
    Run ``command`` under the scope that a person typed, and return its exit code.

    This is what ``broker run`` does. It must be called from the main thread, by a person's own
    command: it mints a ticket.

    Args:
        command: the agent's program and its arguments.
        texts: the scope, as typed: ``KEY=VALUE`` and ``@policy`` texts. None permits everything.
        intent: the line that says why; the prompt on the agent's command line by default.
        workspace: the folder that paths are relative to; the current one by default. The agent
            starts in the current folder where that lies inside, and else in the workspace.
        home: the broker's folders; the user's by default.
        environ: the environment; this process's by default.
        adapter: how the agent is held; found by the program's name by default.
        outside: the clock, the randomness and the bus.
        stderr: where the broker's own lines go.
        require_enforcement: refuse a call that the scope names but nothing can hold.
        forward: the file of an auditor's public key, which makes the receipt forward-secure; by
            default the one that the configuration names, if it names one.
        conceal: what the receipt only commits to, such as ``arguments``.
        quiet: say only warnings and what went wrong.
        canary: try first whether the agent obeys a refusal; see ``broker.agents.canary``. By
            default the configuration decides, which says yes where it says nothing.
        sandbox: whether the kernel holds the ticket too; it does not by default.
        record: keep what was said and done; see ``broker.capture``. By default the configuration
            decides, which says yes where it says nothing.
        begins: begins the recording; a replay has one of its own.
        ask: ask the person about a call that a rule refuses, while the agent waits.
        handed: the wire form of another session's ticket, which ``texts`` narrow.
        opinions: who else must allow each call, besides those of the configuration: addresses of
            decision points, and files of policies.

    Returns:
        The agent's exit code; 128 + N when signal N ended it.

    Raises:
        InputError, ScopeError: what was typed is malformed; nothing was started.
        ConfigError: the configuration is malformed; nothing was started.
        LaunchError: the command cannot be started, or cannot be held to a ticket, or its canary
            was not refused.
        StoreError, UnverifiableError: no receipt can be kept; nothing was started.
    """
    given = dict(os.environ if environ is None else environ)
    found = Home.find(given) if home is None else home
    streams = Streams(stderr or sys.stderr)
    folder = Path(os.path.abspath(workspace or Path.cwd()))
    how = adapter or (adapter_for(command) if command else Plain())
    program = program_of(command, given)
    config = load_config(found.config)
    if not config.enabled:
        return _unguarded(command, program, given, start_in(folder), streams)
    if config.budget is not None:
        given.pop(config.budget.password, None)  # who has it could give calls back
    if given.get(SOCKET_VARIABLE) or given.get(SESSION_VARIABLE):
        raise LaunchError(
            "this is inside a run already: a new ticket is minted by a person only, and a "
            "narrower one with `broker ticket attenuate`"
        )
    how.check(command, given)
    if ask:
        check_asking(conceal)
    auditor = config.auditor() if forward is None else load_auditor_key(forward)
    others = typed_opinions(opinions, Path.cwd())
    line = how.prompt(command) if intent is None else intent
    outside = outside or Outside()
    telling = Telling(streams.say, live=not quiet and not has_terminal())
    outside.bus.subscribe(telling.hear)
    mirroring = _mirroring(found, config, folder)
    _clear_away(found, outside, streams)
    runtime = Runtime(found)
    with Child() as child, runtime:
        session = (AskingSession if ask else Session).open(
            texts,
            workspace=folder,
            home=found,
            intent=None if line is None else TypedLine(line, "argument"),
            agent=how.name,
            own=(*how.own(given), *runtime.own),
            outside=outside,
            needs_enforcement=require_enforcement,
            auditor=auditor,
            conceal=conceal,
            handed=handed,
            opinions=others,
        )
        say_begun(session, how, command[0], auditor, streams, quiet=quiet)
        launch = Launch(
            tuple(command), given, start_in(folder), session.folder, runtime.socket(session.sid)
        )
        tried = config.canary if canary is None else canary
        try:
            walls = Sandbox(
                sandbox or Wanted(),
                own=(*found.own(), *files_of_counts(found), *how.own(given), *runtime.own),
                secret=key_path(found),
                clock=outside.clock,
                say=streams.say,
            )
            walls.begin(session, how.name, given)
            recording = begins(
                config.record if record is None else record,
                found.runs,
                launch,
                how,
                streams.say,
                sid=session.sid,
                workspace=folder,
                closed=found.own(),
            )
            launch = replace(launch, environ={**given, **recording.handed})
            try:
                prepared = recording.through(how, launch, how.prepare(launch))
                asker = asker_for(session, found, streams.say, how.name)
                it = _Run(
                    session, launch, prepared, program, how, child, recording, asker, mirroring
                )
                return _held(it, walls, streams, tried=tried, quiet=quiet)
            finally:
                recording.end(quiet=quiet)
        finally:
            _sealed(session, child, streams, telling, quiet=quiet)
            _anchored(session.sid, found, config, streams)
            if mirroring is not None:
                mirroring.finish(streams.say)


def _held(it: _Run, walls: Sandbox, streams: Streams, *, tried: bool, quiet: bool) -> int:
    """Try whether the agent is held, and then start it; return its exit code."""
    try:
        _rehearse(it, streams, tried=tried, quiet=quiet)
        if not quiet and it.adapter.name != Plain.name:
            environ = {**it.launch.environ, **it.prepared.environ}
            say_keys(it.adapter.name, environ, it.prepared, streams)
            say_beside(it.prepared.beside, streams)
        return _guarded(it, walls)
    finally:
        for path in it.prepared.fleeting:
            with suppress(OSError):
                path.unlink()


@dataclass(frozen=True, slots=True)
class _Run:
    """What is started, and what holds it."""

    session: Session
    launch: Launch
    prepared: Prepared
    program: str
    adapter: Adapter
    child: Child
    recording: Recorded
    asker: Asker | None = None
    mirroring: Mirroring | None = None


def _rehearse(it: _Run, streams: Streams, *, tried: bool, quiet: bool) -> None:
    """Try whether the agent is held, where it has hooks and nobody said not to."""
    if not it.adapter.hooks():
        return
    if not tried:
        streams.say("no canary: whether this agent obeys a refusal was not tried")
        it.session.note("switched off: whether the agent obeys was not tried", source=CANARY)
        return
    from broker.agents.canary import Rehearsal  # noqa: PLC0415  an HTTP server comes along

    trying = f"canary: trying whether {it.adapter.name} obeys a refusal"
    Rehearsal(
        it.session,
        it.adapter,
        it.launch,
        it.prepared,
        it.program,
        interrupted=lambda: it.child.signalled,
        begun=(lambda: None) if quiet else partial(streams.say, trying),
    ).play()


def _guarded(it: _Run, walls: Sandbox) -> int:
    """Serve the session while its agent runs."""
    session, launch, child = it.session, it.launch, it.child
    turn_s = sys.getswitchinterval()
    server = Server(session, launch.socket, it.adapter.hooks())
    try:
        server.bind()
        variables = {
            **{k: v for k, v in launch.environ.items() if k != TICKET_VARIABLE},
            **it.prepared.environ,
            SOCKET_VARIABLE: os.fspath(launch.socket),
            SESSION_VARIABLE: session.sid,
        }
        cwd = it.prepared.cwd or launch.cwd
        around = it.recording.around(variables)
        start = Start(it.program, it.prepared.command, around, cwd, it.recording.hosts)
        it.recording.within(walls)
        walls.start(child, session, it.adapter.name, launch, start)
        sys.setswitchinterval(min(TURN_S, turn_s))
        server.start()
        if it.asker is not None:
            it.asker.begin()
        it.recording.start(session.bus)
        if it.mirroring is not None:
            it.mirroring.start()
        lost = (it.adapter.escaped, server.displaced, walls.over, it.recording.lost)
        code = child.wait(lambda: next((why for each in lost if (why := each()) is not None), None))
        it.recording.ended(code)
    finally:
        if it.asker is not None:
            it.asker.end()
        walls.stop(session)
        server.stop()
        sys.setswitchinterval(turn_s)
    with suppress(StoreError):
        if child.stopped:
            session.note(f"the agent was stopped: {child.stopped}", source="launch")
        session.note(f"the agent ended with exit code {code}", source="launch")
    return code


def _sealed(
    session: Session, child: Child, streams: Streams, telling: Telling, *, quiet: bool
) -> None:
    """Seal the receipt and say what was refused unseen, what happened and how to check it."""
    if child.stopped:
        streams.say(f"the agent was stopped: {child.stopped}")
    for line in () if quiet else telling.rest():
        streams.say(line)
    counts = f"{session.allowed} allowed, {session.refused} refused"
    if by := telling.counts():
        counts += f" ({by})"
    kept = (
        f"receipt {session.receipt_path}; check it with `broker receipt {session.sid[:8]} --verify`"
    )
    try:
        session.seal("complete" if child.ended and not child.signalled else "interrupted")
    except BrokerError as error:
        streams.say(f"{counts}; the receipt ends early: {error}; {kept}")
        return
    if quiet:
        return
    streams.say(f"{counts}; {kept}")


def _anchored(sid: str, home: Home, config: Config, streams: Streams) -> None:
    """Hand the checkpoints in where the owner of this machine cannot take them back."""
    if not config.anchors:
        return
    from broker.anchors.configured import in_background, queue  # noqa: PLC0415  most have none

    try:
        queue(home, [sid])
    except BrokerError as error:
        streams.say(f"warning: not anchored: {error}")
        return
    work = in_background(home, config.anchors)
    work.start()
    ended = work.finish(ANCHORING_S)
    for handed in work.handed:
        if handed.fault:
            streams.say(f"warning: not anchored by `{handed.anchor}` yet: {handed.fault}")
    if not ended or any(handed.fault for handed in work.handed):
        streams.say("what is not anchored yet is handed in by `broker receipt anchor`")


def _mirroring(home: Home, config: Config, workspace: Path) -> Mirroring | None:
    """Return what copies receipts elsewhere while the run goes on, if they are to be copied."""
    if not config.mirror:
        return None
    from broker.fleet.background import Mirroring  # noqa: PLC0415  most have none
    from broker.fleet.target import check_address  # noqa: PLC0415

    return Mirroring(home, check_address(config.mirror, workspace))


def _unguarded(
    command: Sequence[str], program: str, environ: Mapping[str, str], cwd: Path, streams: Streams
) -> int:
    """Run without veto and receipt, because the person's configuration says so."""
    streams.say("NOT ENABLED: `enabled = false` in broker.toml")
    streams.say(f"nothing is refused and nothing is recorded while `{command[0]}` runs")
    with Child() as child:
        child.start(program, command, environ, cwd)
        return child.wait(lambda: None)


def _clear_away(home: Home, outside: Outside, streams: Streams) -> None:
    """Finish and seal what earlier brokers could not."""
    finish(home)
    key = own_key(home, outside.randomness)
    for old in seal_abandoned(home, key, outside.clock):
        with suppress(OSError):
            (home.runtime / old.sid).unlink(missing_ok=True)
        if old.fault:
            streams.say(f"warning: abandoned session {old.sid}: {old.fault}")
