"""
``python -m broker.harness SCRIPT``: the reference agent as a command.

Under ``broker run`` it asks the live session. Alone it opens a session of its own, for which a
scope must be given: an agent that nobody holds does not start.

Audits of its calls are kept beside the receipt. How it ends is said by ``broker.harness.exits``.
"""

from __future__ import annotations

import argparse
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from broker.boundary import contained
from broker.capabilities.bundle import Capabilities, real_capabilities
from broker.config import load_config
from broker.errors import BrokerError, InputError, ScopeError
from broker.harness.composition import RECORDS, TRUSTED, Choices, compose, settle
from broker.harness.exits import DONE, UNEXPECTED, exit_code
from broker.harness.held import Held, LiveSession, OwnSession
from broker.harness.items import CallHook
from broker.harness.outcome import Watch
from broker.harness.pipeline import nobody_watches
from broker.harness.projecthooks import PLACE, project_hooks, trusted_hooks
from broker.harness.script import load_script
from broker.harness.show import plain, printer
from broker.harness.tools import TOOLS
from broker.harness.trust import Trust
from broker.home import Home
from broker.intent import TypedLine
from broker.permissions.depth import USUAL_DEPTH
from broker.permissions.effects import EFFECTS
from broker.permissions.modes import MODES
from broker.records.audits import ToolAudits
from broker.records.store import RecordStore
from broker.service.client import SOCKET_VARIABLE, SessionClient
from broker.session import Session


@dataclass(frozen=True, slots=True)
class _Holding:
    """What holds this run, its workspace, and its name."""

    held: Held
    root: str
    sid: str


class _Reader(argparse.ArgumentParser):
    """A reader of the command line that shows itself on the run's own terminal."""

    world: Capabilities

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}\n{self.format_usage().strip()}")

    def print_help(self, file: object = None) -> None:
        self.world.terminal.write(self.format_help())


def main(world: Capabilities | None = None) -> int:
    """Run the script that the command line names, and return the exit code."""
    given = world or real_capabilities()
    try:
        reader = parser()
        reader.world = given
        return run(reader.parse_args(list(given.process.argv)), given)
    except BrokerError as error:
        text = error.pointed() if isinstance(error, ScopeError) else error.message
        shown = "\n".join(plain(line) for line in text.splitlines())
        given.terminal.write_error(f"broker.harness: {shown}\n")
        return exit_code(error)


def parser() -> _Reader:
    """Return the reader of the command line."""
    reader = _Reader(
        prog="python -m broker.harness",
        description="Runs a scripted agent with real tools, every call held to a ticket.",
        epilog="Under `broker run` the live session decides. Alone, give at least one --scope.",
    )
    reader.add_argument("script", help="a script of turns, JSON or TOML")
    reader.add_argument("--scope", action="append", default=[], metavar="KEY=VALUE")
    reader.add_argument("--intent", metavar="TEXT", help="what it is for")
    reader.add_argument("--workspace", metavar="DIR")
    reader.add_argument(
        "--mode", metavar="MODE", help=f"how much runs without a question: {', '.join(MODES)}"
    )
    reader.add_argument(
        "--allow",
        default="",
        metavar="EFFECT,…",
        help=f"say yes beforehand to calls that the ticket allows: {', '.join(EFFECTS)}",
    )
    reader.add_argument(
        "--depth",
        type=int,
        default=USUAL_DEPTH,
        metavar="N",
        help=f"how many agents may stand above a subagent ({USUAL_DEPTH} if not given)",
    )
    reader.add_argument(
        "--verify", metavar="COMMAND", help="must pass before a run that changed something ends"
    )
    reader.add_argument(
        "--trust", action="store_true", help=f"run the hooks of {PLACE}, as they are now"
    )
    return reader


def run(options: argparse.Namespace, world: Capabilities) -> int:
    """Run the script that the options name."""
    said_yes = [effect for effect in options.allow.split(",") if effect]
    if options.verify is not None and not options.verify.strip():
        raise InputError("`--verify` names no command, and a check that says nothing passes")
    choices = Choices(options.mode, said_yes, options.depth, options.verify or "")
    script = load_script(world.fs, posixpath.join(world.process.cwd, options.script))
    # What is wrong with a choice is said before anything begins.
    home, _, _ = settle(world, choices)
    with held_by(options, world, home) as holding:
        hooks = brought_along(options, world, home, holding.root)
        composition = compose(world, holding.root, choices, (*TOOLS, *hooks))
        watcher = printer(world.terminal.write)
        watch = contained(partial(audited, world, home, holding.sid), unaudited)
        agent = composition.agent(holding.held, holding.sid, script, watcher, watch)
        agent.run()
    return UNEXPECTED if agent.surprises else DONE


def audited(world: Capabilities, home: Home, sid: str) -> Watch:
    """Return what keeps the audits of a session, beside its receipt."""
    records = world.fs.below(posixpath.join(str(home.sessions), sid, RECORDS))
    return ToolAudits(RecordStore(records), world.clock).watch


def unaudited(error: Exception) -> Watch:
    """Go on without audits: what a call depends on is the receipt, and they explain it."""
    return nobody_watches


def brought_along(
    options: argparse.Namespace, world: Capabilities, home: Home, root: str
) -> tuple[CallHook, ...]:
    """Return the hooks that the workspace brings along and a person trusts."""
    found = project_hooks(world.fs.below(world.fs.real(root)), world.process)
    trust = Trust(world.fs.below(posixpath.join(str(home.state), TRUSTED)))
    return trusted_hooks(found, trust, world.terminal, accept=options.trust)


@contextmanager
def held_by(options: argparse.Namespace, world: Capabilities, home: Home) -> Iterator[_Holding]:
    """Yield the session that holds this run, and its workspace."""
    environ = world.process.environ
    if environ.get(SOCKET_VARIABLE):
        if options.scope or options.intent or options.workspace:
            raise InputError("this is inside a run: its scope, intent and workspace are set")
        client = SessionClient.find(environ)
        described = client.describe()
        yield _Holding(LiveSession(client), str(described["workspace"]), str(described["sid"]))
        return
    if not options.scope:
        raise InputError("no session: run this under `broker run`, or give it a --scope")
    root = posixpath.normpath(posixpath.join(world.process.cwd, options.workspace or "."))
    intent = TypedLine(options.intent, "argument") if options.intent else None
    session = Session.open(
        options.scope,
        workspace=root,
        home=home,
        intent=intent,
        agent="reference-agent",
        auditor=load_config(home.config).auditor(),
    )
    reason = "interrupted"
    try:
        yield _Holding(OwnSession(session), root, session.sid)
        reason = "complete"
    finally:
        session.seal(reason)
    world.terminal.write_error(f"receipt {session.receipt_path}\n")


if __name__ == "__main__":
    raise SystemExit(main())
