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

Rules a maintainer keeps: only what the person configured, and only a server that is started; one
with an address keeps the sign-in that its agent has for it. What is not understood stays as it
is: the hook stands before its tools all the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch
from broker.errors import LaunchError
from broker.mcp.config import HOME_VARIABLE, gateway_command, wrap_servers
from broker.service.client import RECORDER_VARIABLE, SESSION_VARIABLE, SOCKET_VARIABLE

_STARTED: Final = frozenset((None, "stdio", "local"))


def behind_gateway(servers: object, launch: Launch) -> dict[str, object]:
    """
    Return the entries of those servers that are to stand behind the gateway, rewritten for a run.

    Args:
        servers: the agent's entries by name, as its configuration spells them; anything else
            holds none.
        launch: the run.
    """
    handed = {SOCKET_VARIABLE: os.fspath(launch.socket), SESSION_VARIABLE: launch.folder.name}
    given = {name: launch.environ.get(name) for name in (HOME_VARIABLE, RECORDER_VARIABLE)}
    environ = {**handed, **{name: value for name, value in given.items() if value}}
    found: dict[str, object] = {}
    for name, entry in servers.items() if isinstance(servers, Mapping) else ():
        if isinstance(name, str) and isinstance(entry, Mapping) and _is_started(entry):
            with suppress(LaunchError):
                found |= wrap_servers({name: entry}, environ)
    return found


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
