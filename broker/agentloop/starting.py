"""
A sitting put together: from what a person typed to the end of it.

Decided here: which parts a sitting has, in which order they come to be, and that its session is
sealed whatever ends it. Here the ways to the world are made that the others are handed. Not decided
here: what is done in it (``sitting``, ``talk``).

Rules a maintainer keeps: whatever is wrong with what was typed is said before a session begins; a
key is read here, given to the client, and kept nowhere.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final
from urllib.request import getproxies

from broker.agentloop.clients import OfficialClient, official_client, outbound
from broker.agentloop.conversation import Dialogue
from broker.agentloop.past import kept_conversation
from broker.agentloop.prompt import prompt_text
from broker.agentloop.providers import ModelChoice, chosen_model, endpoints
from broker.agentloop.registered import TURNS, agent_items
from broker.agentloop.servers import offered_servers
from broker.agentloop.sitting import Sitting, Surroundings
from broker.agentloop.streaming import Streamed
from broker.agentloop.talk import converse
from broker.capabilities.bundle import Capabilities
from broker.capabilities.credentials import Secret
from broker.errors import ConfigError, InputError
from broker.harness.composition import RECORDS, TRUSTED, Choices, compose, settle
from broker.harness.exits import DONE
from broker.harness.items import CallHook
from broker.harness.outcome import Called, Ended, Said
from broker.harness.projecthooks import project_hooks, trusted_hooks
from broker.harness.tools import TOOLS
from broker.harness.trust import Trust
from broker.home import Home
from broker.intent import TypedLine
from broker.permissions.depth import USUAL_DEPTH
from broker.plugins import with_added
from broker.receipt.rotation import finish
from broker.records.recorder import Recorder
from broker.records.store import read_records
from broker.records.transport import recording_transport
from broker.sessions.following import Earlier, earlier_session
from broker.sessions.ground import own_key
from broker.sessions.recovery import seal_abandoned

INTERRUPTED: Final = 130
_TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class AgentAsked:
    """
    What a person typed; see ``broker agent --help``.

    ``texts`` is None where they typed no scope and no file of the project gives one. ``quiet``
    shows nothing of the run as it goes on.
    """

    prompt: str | None = None
    texts: Sequence[str] | None = None
    model: str = ""
    root: str | None = None
    mode: str | None = None
    said_yes: Sequence[str] = ()
    verify: str | None = None
    depth: int = USUAL_DEPTH
    turns: int | None = None
    trust: bool = False
    resume: str | None = None
    stays: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """How a sitting ended: its exit code, and what a program may want to know of it."""

    code: int
    document: dict[str, object]


@dataclass(slots=True)
class _Watching:
    """What is shown of a run, and how many of its calls came out how."""

    shown: Streamed
    quiet: bool
    counts: dict[str, int] = field(default_factory=lambda: {"done": 0, "failed": 0, "refused": 0})

    def tell(self, actor: str, text: str) -> None:
        if not self.quiet:
            self.shown.tell(actor, text)

    def watch(self, event: Said | Called | Ended) -> None:
        if isinstance(event, Ended):
            self.counts[event.result.outcome] += 1
        if not self.quiet:
            self.shown.watch(event)


def run_agent(asked: AgentAsked, world: Capabilities) -> AgentEnded:
    """
    Sit one person down with the agent, and see the sitting to its end.

    Raises:
        BrokerError: what was typed is wrong, nothing can be held, or the one line that was given
            was not followed to its end; every session that began is sealed.
    """
    terminal = world.terminal
    stays = asked.stays or asked.prompt is None
    if stays and not terminal.is_tty():
        raise InputError("nobody sits at a terminal here: give a PROMPT")
    if asked.verify is not None and not asked.verify.strip():
        raise InputError("`--verify` names no command, and a check that says nothing passes")
    line = None if asked.prompt is None else TypedLine(asked.prompt, "argument")
    shown = Streamed(terminal.write, terminal.write_error)
    watching = _Watching(shown, asked.quiet)
    reason, said = "interrupted", ""
    with _terminated(), ExitStack() as stack:
        sitting = _seated(asked, world, watching, stack)
        try:
            if stays:
                reason = converse(sitting, terminal, shown, line)
            elif line is not None:
                said = sitting.say(line)
                reason = "complete"
        except KeyboardInterrupt:
            pass  # the person has stopped it, and the session is sealed so
        finally:
            shown.end()
            sitting.end(reason)
            for session in () if asked.quiet else sitting.ended:
                counts = f"{session.allowed} allowed, {session.refused} refused"
                check = f"check it with `broker receipt {session.sid[:8]} --verify`"
                terminal.write_error(f"broker: {counts}; receipt {session.receipt_path}; {check}\n")
    document: dict[str, object] = {
        "said": said,
        "reason": reason,
        "model": str(sitting.choice),
        "sessions": [session.sid for session in sitting.ended],
        "receipts": [os.fspath(session.receipt_path) for session in sitting.ended],
        "calls": watching.counts,
        "usage": sitting.usage,
    }
    return AgentEnded(DONE if reason == "complete" else INTERRUPTED, document)


def _seated(
    asked: AgentAsked, world: Capabilities, watching: _Watching, stack: ExitStack
) -> Sitting:
    """Put together what a person's lines are given to."""
    environ = world.process.environ
    choices = Choices(asked.mode, asked.said_yes, asked.depth, asked.verify or "")
    home, config, _ = settle(world, choices)
    if not config.enabled:
        raise ConfigError("`enabled = false` in broker.toml: this agent runs held, or not at all")
    before, talk = _earlier(asked, world, home)
    root = asked.root or (before.workspace if before is not None else world.process.cwd)
    wanted = asked.model or config.model
    found = with_added(endpoints(config.models, environ), wanted)
    choice = chosen_model(found, wanted, environ)
    secret = choice.secret(environ)
    there: list[Sitting] = []
    composition = compose(
        world,
        root,
        choices,
        (
            *TOOLS,
            *_workspace_hooks(asked, world, home, root),
            *agent_items(lambda: there[0], config, environ),
        ),
    )
    warn = _warner(world)
    offered_servers(composition, stack, warn)
    texts = asked.texts if asked.texts is not None else before.texts if before is not None else ()
    around = Surroundings(
        _client_maker(choice, secret), os.urandom, watching.tell, watching.watch, warn
    )
    turns = asked.turns or int(composition.registry.current.defaults[TURNS.name])
    sitting = Sitting(composition, choice, prompt_text(), around, texts, before, talk, turns)
    there.append(sitting)
    return sitting


def _earlier(asked: AgentAsked, world: Capabilities, home: Home) -> tuple[Earlier | None, Dialogue]:
    """Return the session that is gone on with, and what was said in it."""
    finish(home)
    for old in seal_abandoned(home, own_key(home), world.clock.now_ns):
        if old.fault:
            world.terminal.write_error(f"broker: abandoned session {old.sid}: {old.fault}\n")
    if asked.resume is None:
        return None, Dialogue()
    before = earlier_session(asked.resume, home)
    records = read_records(world.fs.below(os.path.join(home.sessions, before.sid, RECORDS)))
    return before, kept_conversation(records, before.sid)


def _workspace_hooks(
    asked: AgentAsked, world: Capabilities, home: Home, root: str
) -> tuple[CallHook, ...]:
    """Return the hooks that the workspace brings along and a person trusts."""
    found = project_hooks(world.fs.below(world.fs.real(root)), world.process)
    trust = Trust(world.fs.below(os.path.join(home.state, TRUSTED)))
    return trusted_hooks(found, trust, world.terminal, accept=asked.trust)


def _client_maker(
    choice: ModelChoice, secret: Secret | None
) -> Callable[[Recorder], OfficialClient]:
    def make(recorder: Recorder) -> OfficialClient:
        inner = outbound(choice.endpoint.url, getproxies)
        return official_client(choice, secret, recording_transport(inner, recorder))

    return make


def _warner(world: Capabilities) -> Callable[[str], object]:
    return lambda text: world.terminal.write_error(f"broker: warning: {text}\n")


@contextmanager
def _terminated() -> Iterator[None]:
    """End as on an exit when somebody terminates this process, so that what is open is sealed."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
