"""
``python -m broker.harness SCRIPT``: the reference agent as a command.

Under ``broker run`` it asks the live session. Alone it opens a session of its own, for which a
scope must be given: an agent that nobody holds does not start.

Exit code: 0 when every call came out as the script expects, 1 when one did not, 2 for bad input.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker.catalogs import load_catalogs
from broker.errors import BrokerError, InputError, ScopeError
from broker.harness.agent import Agent
from broker.harness.files import Files
from broker.harness.gate import Gate, Held
from broker.harness.held import EFFECTS, LiveSession, OwnSession, Rules
from broker.harness.script import load_script
from broker.harness.show import plain, printer
from broker.home import Home
from broker.intent import TypedLine
from broker.resolve import Resolver
from broker.service.client import SOCKET_VARIABLE, SessionClient
from broker.session import Session


def main(words: Sequence[str] | None = None) -> int:
    """Run a script and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    options = parser().parse_args(words)
    try:
        return run(options)
    except BrokerError as error:
        text = error.pointed() if isinstance(error, ScopeError) else plain(error.message)
        print(f"broker.harness: {text}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """Return the reader of the command line."""
    reader = argparse.ArgumentParser(
        prog="python -m broker.harness",
        description="Runs a scripted agent with real tools, every call held to a ticket.",
        epilog="Under `broker run` the live session decides. Alone, give at least one --scope.",
    )
    reader.add_argument("script", type=Path, help="a script of turns, JSON or TOML")
    reader.add_argument("--scope", action="append", default=[], metavar="KEY=VALUE")
    reader.add_argument("--intent", metavar="TEXT", help="what it is for")
    reader.add_argument("--workspace", type=Path, metavar="DIR")
    reader.add_argument(
        "--allow",
        default="",
        metavar="EFFECT,…",
        help=f"say yes beforehand to calls that the ticket allows: {', '.join(EFFECTS)}",
    )
    return reader


def run(options: argparse.Namespace) -> int:
    """Run the script that the options name."""
    script = load_script(options.script)
    with held_by(options) as (held, root):
        gate = Gate(held, Files(os.path.realpath(root)), os.environ)
        agent = Agent(gate, script, printer(sys.stdout.write))
        agent.run()
    return 1 if agent.surprises else 0


@contextmanager
def held_by(options: argparse.Namespace) -> Iterator[tuple[Held, str]]:
    """Yield the session that holds this run, and its workspace."""
    home = Home.find(os.environ)
    if os.environ.get(SOCKET_VARIABLE):
        if options.scope or options.intent or options.workspace:
            raise InputError("this is inside a run: its scope, intent and workspace are set")
        client = SessionClient.find(os.environ)
        root = str(client.describe()["workspace"])
        yield LiveSession(client, rules(options, root, home)), root
        return
    if not options.scope:
        raise InputError("no session: run this under `broker run`, or give it a --scope")
    root = os.path.abspath(options.workspace or Path.cwd())
    intent = TypedLine(options.intent, "argument") if options.intent else None
    session = Session.open(
        options.scope, workspace=Path(root), home=home, intent=intent, agent="reference-agent"
    )
    reason = "interrupted"
    try:
        yield OwnSession(session, rules(options, root, home)), root
        reason = "complete"
    finally:
        session.seal(reason)
    print(f"receipt {session.receipt_path}", file=sys.stderr)


def rules(options: argparse.Namespace, root: str, home: Home) -> Rules:
    """Return the permission rules of this run."""
    allowed = [effect for effect in options.allow.split(",") if effect]
    for effect in allowed:
        if effect not in EFFECTS:
            raise InputError(f"no such effect `{effect}`: one of {', '.join(EFFECTS)}")
    resolver = Resolver(root, load_catalogs(Path(root), home.config), own=home.own())
    return Rules(resolver, allowed, ask_person if sys.stdin.isatty() else None)


def ask_person(what: str) -> bool:
    """Ask at the terminal; anything but a clear yes is a no."""
    try:
        return input(f"  may it use {plain(what)}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


if __name__ == "__main__":
    sys.exit(main())
