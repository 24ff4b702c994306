"""
The person's MCP servers in the system settings of a run of Qwen Code, behind the gateway.

Decided here: which servers are taken. Not decided here: how an entry is rewritten
(``broker.agents.servers``). Those of a workspace need the person's consent in Qwen Code, which
system settings would give; they stay where they are, and so does one of the person's that a
workspace has an entry for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker.agents.adapter import Launch
from broker.agents.servers import behind_gateway, beside_gateway
from broker.agents.settingsfile import read_settings

_SERVERS = "mcpServers"


def with_servers(
    launch: Launch, folder: Path, system: Path
) -> tuple[Mapping[str, object], tuple[str, ...]]:
    """
    Return the machine's system settings, with the person's servers in them, and the names of those
    with an address that stay beside the gateway.

    Args:
        launch: the run.
        folder: Qwen Code's own folder.
        system: the file of the machine's system settings.
    """
    found = read_settings(system)[0]
    present = _named(found)
    theirs = _named(read_settings(launch.cwd / ".qwen" / "settings.json")[0])
    own = _named(read_settings(folder / "settings.json")[0])
    mine = {name: entry for name, entry in own.items() if name not in {*present, *theirs}}
    gateways = behind_gateway(mine, launch)
    settings = {**found, _SERVERS: {**present, **gateways}} if gateways else found
    return settings, beside_gateway({**present, **own}, gateways)


def _named(settings: Mapping[str, object]) -> dict[str, object]:
    found = settings.get(_SERVERS)
    return found if isinstance(found, dict) else {}
