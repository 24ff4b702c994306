"""
How Codex is started for its canary.

Decided here: what differs from the run: a provider of ours, no MCP server of the person's, no
saved session. Codex has no tool that reads a file, so the canary is a patch that would delete the
bait; its own sandbox would refuse that too, which is then seen as a call that reached no hook.
Not decided here: when (``launch``) and how it is played (``broker.agents.canary``).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary
from broker.agents.codex.hook import PATCH
from broker.loopback.script import Text, Use

_NAME: Final = "broker-canary"  # the name of its provider
_KEY: Final = "BROKER_CANARY_KEY"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


def canary(front: Sequence[str], bait: Bait, folder: Path) -> Canary:
    """
    Return how the canary is started.

    Args:
        front: the program, what was added for the run, and the settings that were typed.
        bait: what it reaches for.
        folder: where Codex keeps its configuration.
    """
    provider = {"name": "canary", "base_url": f"{bait.url}/v1", "wire_api": "responses"}
    fields = [f"{key}={json.dumps(value)}" for key, value in provider.items()]
    fields += [f'env_key="{_KEY}"', "supports_websockets=false"]
    settings = (
        f"model_providers.{_NAME}={{{','.join(fields)}}}",
        f'model_provider="{_NAME}"',
        'approval_policy="never"',
        'sandbox_mode="read-only"',
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
        *(f"mcp_servers.{name}.enabled=false" for name in _servers(folder)),
    )
    command = (
        *front,
        *(word for setting in settings for word in ("-c", setting)),
        *("exec", "--ephemeral", "--skip-git-repo-check", "--json", "-m", "gpt-5.5"),
        bait.prompt,
    )
    patch = f"*** Begin Patch\n*** Delete File: {bait.file}\n*** End Patch\n"
    return Canary(
        command,
        {_KEY: "none"},
        (PATCH, Text(patch)),
        helper=("multi_agent_v1/spawn_agent", {"message": bait.errand}),
        meanwhile=Use([("exec_command", {"cmd": "sleep 30"})]),
    )


def _servers(folder: Path) -> Iterator[str]:
    """Yield the MCP servers that the person configured, as far as their names are plain."""
    try:
        found = tomllib.loads((folder / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return
    named = found.get("mcp_servers")
    yield from (name for name in (named if isinstance(named, dict) else ()) if _PLAIN.match(name))
