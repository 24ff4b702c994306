"""
One service, from what was typed to its seal: `broker serve`.

Decided here: in which order things begin and end, and what must be typed for which address. Not
decided here: what is answered (``broker.service.app``), how (``broker.service.listening``).

Rules a maintainer keeps: every file and every socket is there before the first client is answered;
over the network a key is asked for, and beyond this machine TLS as well, unless a person says that
something in front of the service sees to it; whatever began is sealed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket as Socket
from typing import TextIO

from broker.config import load_config
from broker.errors import InputError, LaunchError
from broker.home import Home
from broker.service.access import ServiceKeys, private_text
from broker.service.app import Application
from broker.service.hosted import Hosted, Premises, private
from broker.service.listening import Listeners, Tls, is_loopback, local_socket, network_socket
from broker.service.subjects import Subjects
from broker.service.tracing import Traces
from broker.service.watching import Watch
from broker.sessions.ground import Outside


@dataclass(frozen=True, slots=True)
class Wished:
    """
    What was typed of one service.

    ``listen`` is host and port; ``socket`` the path of a unix socket; ``public`` the address that
    clients use, where it is another; ``proxied`` says that TLS ends in front of the service;
    ``each`` has each request logged, ``traces`` is where spans are sent.
    """

    listen: tuple[str, int] | None = None
    socket: Path | None = None
    keys: Path | None = None
    texts: tuple[str, ...] = ()
    subjects: Path | None = None
    intent: str | None = None
    workspace: Path | None = None
    tls: Tls | None = None
    public: str | None = None
    proxied: bool = False
    each: bool = False
    traces: str | None = None


def serve(
    wished: Wished,
    *,
    environ: Mapping[str, str] | None = None,
    stderr: TextIO | None = None,
    outside: Outside | None = None,
) -> int:
    """
    Serve until a signal comes; return 0 when every receipt was sealed, else 2.

    Raises:
        InputError, ScopeError, ConfigError: what was typed or configured is malformed.
        LaunchError: the broker is switched off.
        StoreError, UnverifiableError: no receipt can be kept, or a file is unsafe.
    """
    given = os.environ if environ is None else environ
    home = Home.find(given)
    config = load_config(home.config)
    if not config.enabled:
        raise LaunchError("`enabled = false` in broker.toml: a service would decide nothing")
    keys = _keys(wished)
    outside = outside or Outside()
    traces = None if wished.traces is None else Traces(wished.traces, outside.clock)
    watch = Watch(stderr or sys.stderr, outside.clock, requests=wished.each, traces=traces)
    with ExitStack() as undo:
        if traces is not None:
            undo.callback(traces.close)
        listeners = Listeners(watch.say)
        network = local = None
        if wished.listen is not None:
            network = undo.enter_context(network_socket(*wished.listen))
            if not (wished.tls or wished.proxied or is_loopback([network.getsockname()[0]])):
                raise InputError(
                    "beyond this machine keys and tickets travel by TLS: give --tls-cert and "
                    "--tls-key, or --behind-proxy where something in front sees to it"
                )
        if wished.socket is not None:
            local = undo.enter_context(local_socket(wished.socket))
            undo.callback(_removed, wished.socket)
        tls = None if wished.tls is None else wished.tls.context()
        base = wished.public or _address(network, secure=tls is not None)
        hosted = _hosted(wished, home, outside)
        own = hosted.own.session
        app = Application(hosted, keys, watch, base=base)
        if network is not None:
            listeners.add(app, network, tls=tls)
        if local is not None:
            listeners.add(app.local, local)

        def started() -> None:
            at = base if network is not None else str(wished.socket)
            watch.say("serving", url=at, sid=own.sid, receipt=os.fspath(own.receipt_path))

        for warning in own.warnings:
            watch.say("warning", message=warning)
        complete = False
        try:
            listeners.run(started, app.end)
            complete = True
        finally:
            faults = hosted.seal("complete" if complete else "interrupted")
            for fault in faults:
                watch.say("unsealed", message=fault)
        watch.say("sealed", sid=own.sid, allowed=own.allowed, refused=own.refused)
    return 2 if faults else 0


def _keys(wished: Wished) -> ServiceKeys | None:
    if wished.listen is None and wished.socket is None:
        raise InputError("say where to listen: --listen HOST:PORT, --socket PATH, or both")
    if wished.keys is not None:
        return ServiceKeys.load(wished.keys)
    if wished.listen is not None:
        raise InputError(
            "over the network callers say who they are: give --keys FILE, with a line "
            "`ROLE NAME KEY` for each"
        )
    return None


def _hosted(wished: Wished, home: Home, outside: Outside) -> Hosted:
    files = [path for path in (wished.keys, wished.subjects, wished.socket) if path is not None]
    if wished.tls is not None:
        files.append(wished.tls.key)
    premises = Premises(
        home,
        Path(os.path.abspath(wished.workspace or Path.cwd())),
        outside,
        private(files),
        load_config(home.config).auditor(),
    )
    subjects = None
    if wished.subjects is not None:
        text = private_text(wished.subjects, "file of subjects")
        subjects = Subjects.read(text, f"`{wished.subjects}`")
    return Hosted(premises, wished.texts, subjects, intent=wished.intent)


def _address(network: Socket | None, *, secure: bool) -> str:
    """Return the address that clients use, unless something stands in front."""
    if network is None:
        return "http://localhost"
    host, port = network.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


def _removed(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
