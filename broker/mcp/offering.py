"""
The broker's own MCP server from what was typed to its end: `broker mcp serve`.

Decided here: whose session is asked. Inside a run it is the live one, and a scope given here
narrows its ticket for this client; elsewhere a session is opened from what was typed, and sealed
when the client hangs up. Not decided here: what the tools answer (``broker.mcp.desk``).

Rules a maintainer keeps: standard output belongs to the protocol; what was begun is sealed, also
where a signal ends it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, TextIO

from broker.calls import Decision
from broker.config import load_config
from broker.errors import LaunchError
from broker.home import Home
from broker.intent import TypedLine
from broker.launchwords import Streams
from broker.mcp.desk import Consulted, Desk
from broker.mcp.serve import sealed
from broker.mcp.stdio import lines
from broker.service.client import SOCKET_VARIABLE, SessionClient
from broker.session import Session
from broker.sessions.records import DISTRIBUTION
from broker.ticket import describe

ACTOR = "mcp"


class OpenedSession:
    """Asks a session that this process opened."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        ticket: str | None,
        call_id: str,
        server: str | None,
        cwd: str | None,
    ) -> Decision:
        """Decide a call; see ``Session.decide``."""
        return self._session.decide(
            tool, arguments, ticket=ticket, call_id=call_id, server=server, cwd=cwd, actor=ACTOR
        )

    def attenuate(self, texts: Sequence[str], *, ticket: str | None) -> Mapping[str, object]:
        """Derive a narrower ticket; see ``Session.delegate``."""
        made = self._session.delegate(texts, parent=ticket, asked_by=ACTOR)
        return {"id": made.id, "ticket": made.wire(), "lines": list(describe(made))}

    def describe(self, *, ticket: str | None) -> Mapping[str, object]:
        """Say what a ticket permits and what was spent."""
        found = self._session.find(ticket)
        spent = self._session.spent(found)
        return {
            "sid": self._session.sid,
            "id": found.id,
            "ticket": found.wire(),
            "lines": list(describe(found)),
            "spent": None if spent is None else list(spent),
        }


class RunningSession:
    """Asks the session of the run that this process is in."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        ticket: str | None,
        call_id: str,
        server: str | None,
        cwd: str | None,
    ) -> Decision:
        """Decide a call; see ``SessionClient.decide``."""
        return self._under(ticket).decide(
            tool, arguments, call_id=call_id, server=server, cwd=cwd, actor=ACTOR
        )

    def attenuate(self, texts: Sequence[str], *, ticket: str | None) -> Mapping[str, object]:
        """Derive a narrower ticket; see ``SessionClient.delegate``."""
        return _told(self._under(ticket).delegate(*texts, asked_by=ACTOR).describe())

    def describe(self, *, ticket: str | None) -> Mapping[str, object]:
        """Say what a ticket permits and what was spent."""
        return _told(self._under(ticket).describe())

    def _under(self, ticket: str | None) -> SessionClient:
        return self._client if ticket is None else SessionClient(self._client.path, ticket)


def offer(
    texts: Sequence[str],
    *,
    workspace: Path,
    intent: str | None = None,
    quiet: bool = False,
    environ: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
    stderr: TextIO | None = None,
) -> int:
    """
    Answer one client on our streams until it hangs up; return the exit code.

    Raises:
        InputError, ScopeError, ConfigError: what was typed or configured is malformed.
        LaunchError: the broker is switched off.
        StoreError, UnverifiableError: no session can be asked, or no receipt kept.
    """
    given = dict(os.environ if environ is None else environ)
    streams = Streams(stderr or sys.stderr)
    source, sink = stdin or sys.stdin.buffer, stdout or sys.stdout.buffer
    asking = _asked(texts, given, streams, workspace=workspace, intent=intent, quiet=quiet)
    with asking as asked, _until_told():
        desk = Desk(asked, version(DISTRIBUTION))
        for line in lines(source):
            answer = desk.answer(line)
            if answer is not None:
                sink.write(answer + b"\n")
                sink.flush()
    return 0


@contextmanager
def _asked(
    texts: Sequence[str],
    environ: Mapping[str, str],
    streams: Streams,
    *,
    workspace: Path,
    intent: str | None,
    quiet: bool,
) -> Iterator[Consulted]:
    if environ.get(SOCKET_VARIABLE):
        client = SessionClient.find(environ)
        yield RunningSession(client.delegate(*texts, asked_by=ACTOR) if texts else client)
        return
    home = Home.find(environ)
    config = load_config(home.config)
    if not config.enabled:
        raise LaunchError("`enabled = false` in broker.toml: there is nothing to ask")
    session = Session.open(
        texts,
        workspace=workspace,
        home=home,
        intent=None if intent is None else TypedLine(intent, "argument"),
        agent=ACTOR,
        auditor=config.auditor(),
    )
    for warning in session.warnings:
        streams.say(f"warning: {warning}")
    complete = False
    try:
        yield OpenedSession(session)
        complete = True
    except (KeyboardInterrupt, BrokenPipeError):
        complete = True  # the client, or a signal, asked us to go
    finally:
        sealed(session, complete=complete, quiet=quiet, streams=streams)


@contextmanager
def _until_told() -> Iterator[None]:
    """Let a signal that asks us to go end the reading, so that the receipt is sealed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def told(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, told) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(found: Mapping[str, object]) -> dict[str, object]:
    kept = ("sid", "id", "ticket", "lines", "spent")
    return {name: found.get(name) for name in kept}
