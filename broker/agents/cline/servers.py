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
    named = found.get(_SERVERS)
    servers = named if isinstance(named, dict) else {}
    entries = {name: each for name, each in servers.items() if isinstance(each, dict)}
    if any(_SIGNED_IN in entry for entry in entries.values()):
        return Servers(None, tuple(entries))
    plain = {name: _plain(entry) for name, entry in entries.items()}
    gateways = behind_gateway(plain, launch)
    beside = beside_gateway(plain, gateways)
    if not gateways:
        return Servers(None, beside)
    rewritten = {
        name: {**entries[name], _TRANSPORT: entry} if _TRANSPORT in entries[name] else entry
        for name, entry in gateways.items()
    }
    return Servers({**found, _SERVERS: {**servers, **rewritten}}, beside)


def _plain(entry: Mapping[str, object]) -> dict[str, object]:
    """Return an entry as other agents spell one: with its transport's fields, and its type."""
    inner = entry.get(_TRANSPORT)
    if isinstance(inner, dict):
        signs_in = {_SIGNS_IN: entry[_SIGNS_IN]} if _SIGNS_IN in entry else {}
        return {**inner, **signs_in}
    kind = entry.get("type", entry.get("transportType"))
    rest = {key: value for key, value in entry.items() if key not in ("type", "transportType")}
    return rest if kind is None else {**rest, "type": kind}
