"""
One gateway, from what was typed to its end: `broker mcp`.

Decided here: whose session is asked, and in which order things begin and end. Not decided here:
what passes (the session), how messages travel (``broker.mcp.stdio``, ``bridge``, ``front``).

Inside a run the live session is asked, and a scope given here narrows its ticket for this
server. Elsewhere the gateway mints a ticket from what was typed, has a session and a receipt of
its own, and seals it when the client hangs up.

Rules a maintainer keeps: standard output belongs to the protocol, and our own lines go to
standard error; nothing is started before its session is there; what was begun is sealed.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from broker.capture.telling import RecorderClient
from broker.catalogs import load_catalogs
from broker.config import load_config
from broker.errors import BrokerError, InputError, LaunchError
from broker.home import Home
from broker.launchwords import Streams
from broker.mcp.bridge import Bridge
from broker.mcp.front import Front
from broker.mcp.gateway import Gateway
from broker.mcp.judge import Judge
from broker.mcp.offer import Offer, bounds_of
from broker.mcp.standin import StandIn
from broker.mcp.stdio import CarriedServer, LineWriter, ServerProcess, relay
from broker.mcp.tee import TeedGateway
from broker.mcp.upstream import Upstream, read_address_of
from broker.service.client import REPLAY_SERVERS_VARIABLE, SOCKET_VARIABLE, SessionClient
from broker.session import Session

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Served:
    """
    What was typed of one gateway.

    ``command`` starts a server; else ``url`` leads to one, and ``headers`` go there. ``listen``
    is the port that clients ask over HTTP; without it, there is one client on our streams.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    headers: Mapping[str, str] | None = None
    listen: int | None = None
    server: str | None = None
    texts: tuple[str, ...] = ()
    workspace: Path | None = None
    quiet: bool = False


def serve(
    typed: Served, *, environ: Mapping[str, str] | None = None, stderr: TextIO | None = None
) -> int:
    """
    Stand between a client and a server until one of them ends; return the exit code.

    Raises:
        InputError, ScopeError, ConfigError: what was typed or configured is malformed.
        LaunchError: the server cannot be started.
        StoreError, UnverifiableError: no session can be asked, or no receipt kept.
    """
    given = dict(os.environ if environ is None else environ)
    streams = Streams(stderr or sys.stderr)
    name = server_name(typed)
    home = Home.find(given)
    over = threading.Event()
    with (
        _until_told(over),
        _judged(typed, name, home, given, streams) as judge,
        _gateways(judge, given) as gateway,
    ):
        prefix = f"mcp:{name}:{os.urandom(4).hex()}"
        recording = given.get(REPLAY_SERVERS_VARIABLE)
        if typed.url is None or (recording and typed.listen is None):
            # In a replay nothing is started or reached: the recording answers.
            server = _server(typed, name, given, recording)
            stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
            return relay(gateway(prefix), server, stdin, LineWriter(stdout), over)
        upstream = Upstream(typed.url, typed.headers)
        if typed.listen is None:
            _bridge(gateway(prefix), upstream, over)
        else:
            front = _front(typed.listen, gateway, prefix, upstream)
            if not typed.quiet:
                streams.say(f"`{name}` is at {front.url}")
            over.wait()
            front.shutdown()
            front.server_close()
    return 0


def server_name(typed: Served) -> str:
    """
    Return the server's name: as typed, else after its program or its host.

    >>> server_name(Served(("/usr/bin/mcp-server-git",))), server_name(Served(url="http://a.b/m"))
    ('mcp-server-git', 'a_b')

    Raises:
        InputError: no name, or neither or both of a command and an address.
    """
    if bool(typed.command) == (typed.url is not None):
        raise InputError("name the server's command behind `--`, or its address with `--url`")
    if typed.url is None and typed.listen is not None:
        raise InputError("`--listen` is for a server with an address: give it with `--url`")
    if typed.server is not None:
        if _NAME.fullmatch(typed.server) is None:
            raise InputError(f"`{typed.server}` is no name for a server: use a-z, 0-9, _ and -")
        return typed.server
    plain = Path(typed.command[0]).name if typed.url is None else read_address_of(typed.url).host
    return _NOT_OF_NAMES.sub("_", plain)[:64]


@contextmanager
def _judged(
    typed: Served, name: str, home: Home, environ: Mapping[str, str], streams: Streams
) -> Iterator[Judge]:
    """Find or open the session that is asked, and seal what was opened."""
    # A server on this machine starts where we do, so its relative paths start here.
    cwd = os.getcwd() if typed.url is None else None
    if environ.get(SOCKET_VARIABLE):
        client = SessionClient.find(environ)
        if typed.texts:
            client = client.delegate(*typed.texts, asked_by=f"mcp:{name}")
        told = client.describe()
        wire, workspace = told.get("ticket"), told.get("workspace")
        if not isinstance(wire, str) or not isinstance(workspace, str):
            raise InputError("the session does not say what its ticket allows")
        offer = Offer(bounds_of(wire), load_catalogs(Path(workspace), home.config), name)
        yield Judge(client, offer, name, cwd=cwd, again=True, say=streams.say)
        return
    config = load_config(home.config)
    if not config.enabled:
        raise LaunchError("`enabled = false` in broker.toml: start the server without `broker mcp`")
    folder = Path(os.path.abspath(typed.workspace or Path.cwd()))
    session = Session.open(
        typed.texts, workspace=folder, home=home, agent=f"mcp:{name}", auditor=config.auditor()
    )
    for warning in session.warnings:
        streams.say(f"warning: {warning}")
    complete = False
    try:
        offer = Offer(session.ticket.bounds, load_catalogs(folder, home.config), name)
        yield Judge(session, offer, name, cwd=cwd, say=streams.say)
        complete = True
    finally:
        sealed(session, complete=complete, quiet=typed.quiet, streams=streams)


def sealed(session: Session, *, complete: bool, quiet: bool, streams: Streams) -> None:
    """Seal the receipt, and say in one line what happened and how to check it."""
    counts = f"{session.allowed} allowed, {session.refused} refused"
    check = f"check it with `broker receipt {session.sid[:8]} --verify`"
    try:
        session.seal("complete" if complete else "interrupted")
    except BrokerError as error:
        streams.say(f"{counts}; the receipt ends early: {error}; {check}")
        return
    if not quiet:
        streams.say(f"{counts}; receipt {session.receipt_path}; {check}")


def _bridge(gateway: Gateway, upstream: Upstream, over: threading.Event) -> None:
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    bridge = Bridge(gateway, upstream, LineWriter(stdout))

    def carry() -> None:
        try:
            bridge.run(stdin)
        finally:
            over.set()

    threading.Thread(target=carry, daemon=True).start()
    over.wait()
    bridge.end()


def _server(
    typed: Served, name: str, environ: Mapping[str, str], recording: str | None
) -> CarriedServer:
    return StandIn(recording, name) if recording else ServerProcess(typed.command, environ)


@contextmanager
def _gateways(judge: Judge, environ: Mapping[str, str]) -> Iterator[Callable[[str], Gateway]]:
    """Find what makes a gateway: one that tells the run's recorder, where there is one."""
    recorder = RecorderClient.find(environ)
    if recorder is None:
        yield partial(Gateway, judge)
        return
    try:
        yield lambda prefix: TeedGateway(judge, prefix, recorder.tell)
    finally:
        recorder.close()
        if recorder.left_out:
            judge.say(f"warning: {recorder.left_out} messages of MCP were not recorded")


def _front(port: int, gateway: Callable[[str], Gateway], prefix: str, upstream: Upstream) -> Front:
    """Begin to serve clients over HTTP."""
    made = itertools.count(1)

    def fresh() -> Gateway:
        return gateway(f"{prefix}:{next(made)}")

    front = Front(port, upstream.address.path, upstream, fresh)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    return front


@contextmanager
def _until_told(over: threading.Event) -> Iterator[None]:
    """Let a signal that asks us to go end the relay, so that the receipt is sealed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def told(*_: object) -> None:
        # In a thread, since this one may hold the event's lock at the moment.
        threading.Thread(target=over.set, daemon=True).start()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, told) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
