"""
The person's MCP servers of Cline CLI, behind the gateway for one run.

Cline takes its servers from one file, whose place a variable names. So a run gets a file of its
own that says what the person's says, with the gateway before each server.

Decided here: which spellings of an entry are taken, and that the person's file stays in its place
where Cline keeps a sign-in in it: one that is renewed would be lost with the run. Not decided
here: which servers stand behind the gateway (``broker.agents.servers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.agents.adapter import Launch
from broker.agents.servers import behind_gateway, beside_gateway

SERVERS_NAME: Final = "cline-servers.json"
_SERVERS: Final = "mcpServers"
_TRANSPORT: Final = "transport"
_TIMEOUT: Final = "timeout"
START_S: Final = 60  # a gateway starts before its server does; Cline waits less by itself
_SIGNED_IN: Final = "oauth"
_SIGNS_IN: Final = "oauthClient"


@dataclass(frozen=True, slots=True)
class Servers:
    """
    What a run's own file of servers says, and which servers stay beside the gateway.

    ``settings`` are None where the person's file stays in its place.
    """

    settings: dict[str, object] | None
    beside: tuple[str, ...] = ()


def with_gateways(found: Mapping[str, object], launch: Launch) -> Servers:
    """
    Return the servers of a run.

    Args:
        found: what the person's file says.
        launch: the run.
    """
    servers = _table(found.get(_SERVERS))
    entries = {name: each for name, each in servers.items() if isinstance(each, dict)}
    if any(_SIGNED_IN in entry for entry in entries.values()):
        return Servers(None, tuple(entries))
    plain = {name: _plain(entry) for name, entry in entries.items()}
    gateways = behind_gateway(plain, launch)
    beside = beside_gateway(plain, gateways)
    if not gateways:
        return Servers(None, beside)
    rewritten: dict[str, object] = {}
    for name, gateway in gateways.items():
        entry = entries[name]
        inside = {_TRANSPORT: gateway} if _TRANSPORT in entry else gateway
        rest = entry if _TRANSPORT in entry else {}
        rewritten[name] = {_TIMEOUT: START_S, **rest, **_table(inside)}
    return Servers({**found, _SERVERS: {**servers, **rewritten}}, beside)


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _plain(entry: Mapping[str, object]) -> dict[str, object]:
    """Return an entry as other agents spell one: with its transport's fields, and its type."""
    inner = entry.get(_TRANSPORT)
    if isinstance(inner, dict):
        signs_in = {_SIGNS_IN: entry[_SIGNS_IN]} if _SIGNS_IN in entry else {}
        return {**inner, **signs_in}
    kind = entry.get("type", entry.get("transportType"))
    rest = {key: value for key, value in entry.items() if key not in ("type", "transportType")}
    return rest if kind is None else {**rest, "type": kind}
