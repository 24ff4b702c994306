"""
How Gemini CLI is started for its canary.

Decided here: what differs from the run: a home without the person's past sessions, whose settings
ask no provider but ours, and no MCP server. Not decided here: when (``launch``) and how it is
played (``broker.agents.canary``).
"""

from __future__ import annotations

import os
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch
from broker.agents.gemini.home import HOME_NAME, furnish
from broker.agents.gemini.hook import DELEGATES
from broker.agents.gemini.settings import Settings, home_of
from broker.errors import LaunchError
from broker.loopback.script import Use

_PAST: Final = frozenset(("tmp", "history", "projects.json"))  # what it keeps of past sessions


def canary(launch: Launch, bait: Bait, settings: Settings) -> Canary:
    """
    Return how the canary is started.

    Args:
        launch: the run.
        bait: what it reaches for.
        settings: those of the run, with our hooks.

    Raises:
        LaunchError: its home cannot be made.
    """
    home = bait.file.with_name(HOME_NAME)
    try:
        furnish(home, home_of(launch.environ), offline(settings), leave=_PAST)
    except OSError as error:
        raise LaunchError(f"`{home}` cannot be made: {error.strerror}") from error
    command = (
        *(launch.command[0], "-p", bait.prompt, "-m", "gemini-2.5-pro", "-o", "stream-json"),
        *("--yolo", "--allowed-mcp-server-names", "none"),
        *("--include-directories", os.fspath(bait.file.parent)),  # it looks before it asks
    )
    environ = {
        "GEMINI_CLI_HOME": os.fspath(home),
        "GOOGLE_GEMINI_BASE_URL": bait.url,
        "GEMINI_API_KEY": "none",
        "GOOGLE_API_KEY": None,
        "GOOGLE_GENAI_USE_VERTEXAI": None,
        "GOOGLE_GENAI_USE_GCA": None,
    }
    return Canary(
        command,
        environ,
        ("read_file", {"file_path": os.fspath(bait.file)}),
        helper=(DELEGATES, {"agent_name": "generalist", "prompt": bait.errand}),
        report=Use([("complete_task", {"result": {"response": "done"}})]),
    )


def offline(settings: Settings) -> dict[str, object]:
    """
    Return settings under which only a model that is named by the environment is asked.

    >>> offline({"security": {"auth": {"selectedType": "oauth-personal"}}})["security"]
    {'auth': {'selectedType': 'gemini-api-key'}}
    """
    given = settings.get("security")
    security = {**(given if isinstance(given, dict) else {})}
    security["auth"] = {"selectedType": "gemini-api-key"}
    usage = {"usageStatisticsEnabled": False}
    return {**settings, "security": security, "privacy": usage, "telemetry": {"enabled": False}}
