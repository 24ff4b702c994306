"""
The MCP servers of an agent, behind our gateway for one run.

A hook sees the calls of a server's tools. The gateway sees all else that passes between an agent
and a server: it leaves out of lists what the ticket could never allow, decides what reads
resources, fills in prompts or asks the agent's model back, and records what a server says of its
tools. A call that the hook was asked about is neither decided nor debited again
(``broker.sessions.standing``).

Decided here: which servers are taken, and what their gateway is told of the run. Not decided
here: how an entry is rewritten (``broker.mcp.config``), where an agent's servers are configured
and how it is given others for a run (its own room).

A server with an address is taken where its entry says all that is sent there: it has headers, or
lies on this machine, and speaks streamable HTTP. The headers reach the gateway by its environment,
which an agent fills in as it would fill in headers. Any other server may ask for a sign-in, and a
sign-in belongs to the agent that made it: such a server keeps its place, which the launch says.

Rules a maintainer keeps: only what the person configured; no key on a command line; nobody is
asked over a network at a launch. What is not understood stays as it is: the hook stands before
its tools all the same.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch
from broker.errors import InputError, LaunchError
from broker.mcp.config import (
    ADDRESSES,
    HEADERS,
    HOME_VARIABLE,
    HTTP,
    gateway_command,
    wrap_servers,
)
from broker.mcp.upstream import read_address_of
from broker.service.client import (
    RECORDER_VARIABLE,
    REPLAY_VARIABLE,
    SESSION_VARIABLE,
    SOCKET_VARIABLE,
)

_STARTED: Final = frozenset((None, "stdio", "local"))
_OURSELVES: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_STREAMABLE: Final = "httpUrl"  # an address of this name is never of the older transport


def behind_gateway(servers: object, launch: Launch) -> dict[str, object]:
    """
    Return the entries of those servers that are to stand behind the gateway, rewritten for a run.

    Args:
        servers: the agent's entries by name, as its configuration spells them; anything else
            holds none.
        launch: the run.
    """
    handed = {SOCKET_VARIABLE: os.fspath(launch.socket), SESSION_VARIABLE: launch.folder.name}
    given = {
        name: launch.environ.get(name)
        for name in (HOME_VARIABLE, RECORDER_VARIABLE, REPLAY_VARIABLE)
    }
    environ = {**handed, **{name: value for name, value in given.items() if value}}
    found: dict[str, object] = {}
    for name, entry in servers.items() if isinstance(servers, Mapping) else ():
        if not isinstance(name, str) or not isinstance(entry, Mapping):
            continue
        if _is_started(entry) or _says_all(entry):
            with suppress(LaunchError):
                found |= wrap_servers({name: entry}, environ)
    return found


def beside_gateway(servers: object, gateways: Collection[str]) -> tuple[str, ...]:
    """
    Return the names of the servers with an address that an agent reaches without the gateway.

    Args:
        servers: the agent's entries by name.
        gateways: the names of those that stand behind it.

    >>> beside_gateway({"docs": {"url": "https://a.example/mcp"}, "git": {"command": "x"}}, ())
    ('docs',)
    """
    entries = servers.items() if isinstance(servers, Mapping) else ()
    return tuple(
        name
        for name, entry in entries
        if isinstance(name, str) and name not in gateways and _has_address(entry)
    )


def _has_address(entry: object) -> bool:
    return isinstance(entry, Mapping) and any(isinstance(entry.get(key), str) for key in ADDRESSES)


def _says_all(entry: Mapping[str, object]) -> bool:
    """Whether an entry has one address that is reached by all that the entry says."""
    found = [key for key in ADDRESSES if key in entry]
    if len(found) != 1:
        return False
    url, kind = entry[found[0]], entry.get("type", entry.get("transport"))
    if not isinstance(url, str) or not (kind in HTTP or found[0] == _STREAMABLE):
        return False
    try:
        host = read_address_of(url).host
    except InputError:
        return False
    return host in _OURSELVES or any(entry.get(key) for key in HEADERS)


def _is_started(entry: Mapping[str, object]) -> bool:
    """Whether an entry starts a server, and no gateway of ours already."""
    command, arguments = entry.get("command"), entry.get("args") or []
    words = [*(command if isinstance(command, list) else [command])]
    words += arguments if isinstance(arguments, list) else []
    if not words[0:1] or not isinstance(words[0], str) or not words[0]:
        return False
    ours = list(gateway_command())
    if words[: len(ours)] == ours or (Path(words[0]).name == "broker" and "mcp" in words[1:]):
        return False
    return entry.get("type", entry.get("transport")) in _STARTED
