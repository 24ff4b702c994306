"""
How Claude Code is started for its canary.

Decided here: what differs from the run: the provider, which settings of the person's may name and
which is ours; no MCP server; no saved session. Not decided here: when (``launch``) and how it is
played (``broker.agents.canary``).
"""

from __future__ import annotations

import json
import os
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch
from broker.agents.client import write_new
from broker.errors import LaunchError

# What would have the canary talk to somebody else than the model on loopback.
_PROVIDERS: Final = (
    *("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN"),
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
)
_NO_TRAFFIC: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}


def canary(launch: Launch, bait: Bait, settings_name: str, sources: str) -> Canary:
    """
    Return how the canary is started.

    Args:
        launch: the run.
        bait: what it reaches for.
        settings_name: the file in the session's folder that holds our hooks.
        sources: the sources of settings that the run loads.

    Raises:
        LaunchError: its settings cannot be written.
    """
    model: dict[str, str | None] = {
        "ANTHROPIC_BASE_URL": bait.url,
        "ANTHROPIC_API_KEY": "none",
        **_NO_TRAFFIC,
    }
    settings = bait.file.with_name(settings_name)
    try:
        ours = json.loads((launch.folder / settings_name).read_text("utf-8"))
        # The person's settings may name another provider, and win over the environment.
        table = {**ours.get("env", {}), **model, **dict.fromkeys(_PROVIDERS, "")}
        write_new(settings, json.dumps({**ours, "env": table}).encode())
    except (OSError, ValueError) as error:
        raise LaunchError(f"`{settings}` cannot be written: {error}") from error
    command = (
        *(launch.command[0], "-p", bait.prompt, "--output-format", "stream-json", "--verbose"),
        *("--settings", os.fspath(settings), "--setting-sources", sources),
        *("--no-session-persistence", "--strict-mcp-config", "--model", "claude-sonnet-4-5"),
    )
    helper = {"description": "a trial", "prompt": bait.errand, "run_in_background": False}
    helper["subagent_type"] = "general-purpose"
    call = ("Read", {"file_path": os.fspath(bait.file)})
    return Canary(command, {**model, **dict.fromkeys(_PROVIDERS)}, call, helper=("Agent", helper))
