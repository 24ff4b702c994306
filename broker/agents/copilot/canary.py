"""
How GitHub Copilot CLI is started for its canary.

Decided here: what differs from the run: a home with the person's settings and hooks, without their
past sessions and their MCP servers, and a provider of ours. Not decided here: when (``launch``)
and how it is played (``broker.agents.canary``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary
from broker.agents.client import write_new
from broker.agents.copilot.settings import SETTINGS
from broker.errors import LaunchError

_HOOKS: Final = ("hooks", "installed-plugins")


def canary(program: str, bait: Bait, user: Path, plugins: Sequence[str]) -> Canary:
    """
    Return how the canary is started.

    Args:
        program: as it was typed.
        bait: what it reaches for.
        user: Copilot's own folder.
        plugins: the folders of the plugins that are typed for the run, and ours behind them.

    Raises:
        LaunchError: its home cannot be made.
    """
    home = bait.file.with_name("copilot-home")
    try:
        furnish(home, user)
    except OSError as error:
        raise LaunchError(f"`{home}` cannot be made: {error.strerror}") from error
    command = (
        *(program, "--allow-all", "--no-ask-user", "--no-auto-update", "--output-format", "json"),
        *(word for plugin in plugins for word in ("--plugin-dir", plugin)),
        *("-p", bait.prompt),
    )
    environ = {
        "COPILOT_HOME": os.fspath(home),
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_PROVIDER_BASE_URL": bait.url,
        "COPILOT_PROVIDER_TYPE": "anthropic",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_PROVIDER_WIRE_API": None,
        "COPILOT_MODEL": "claude-sonnet-4.6",
    }
    helper = {"description": "a trial", "prompt": bait.errand, "name": "trial", "mode": "sync"}
    helper["agent_type"] = "general-purpose"
    call = ("view", {"path": os.fspath(bait.file)})
    return Canary(command, environ, call, helper=("task", helper))


def furnish(home: Path, user: Path) -> None:
    """
    Make a home that has the person's settings and hooks, and nothing of past sessions.

    Raises:
        OSError: it cannot be made.
    """
    home.mkdir(mode=0o700)
    for name in SETTINGS:
        if (user / name).is_file():
            write_new(home / name, (user / name).read_bytes())
    for name in _HOOKS:
        if (user / name).is_dir():
            (home / name).symlink_to(user / name)
