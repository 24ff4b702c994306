"""
How Qwen Code is started for its canary.

Decided here: what differs from the run: a provider of ours, no MCP server, no record of the chat.
Not decided here: when (``launch``) and how it is played (``broker.agents.canary``).
"""

from __future__ import annotations

import os
from typing import Final

from broker.agents.adapter import Bait, Canary

_NAME: Final = "broker-canary"  # the name of its model, which no settings of the person's know


def canary(program: str, bait: Bait) -> Canary:
    """Return how the canary is started."""
    command = (
        *(program, "--auth-type", "openai", "--openai-api-key", "none"),
        *("--openai-base-url", f"{bait.url}/v1", "-m", _NAME, "--chat-recording=false"),
        *("--allowed-mcp-server-names=none", "-o", "stream-json", "--yolo", bait.prompt),
    )
    environ = {
        "OPENAI_BASE_URL": f"{bait.url}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_MODEL": _NAME,
        "NO_BROWSER": "1",
    }
    helper = {"description": "a trial", "prompt": bait.errand, "run_in_background": False}
    helper["subagent_type"] = "general-purpose"
    call = ("read_file", {"file_path": os.fspath(bait.file)})
    return Canary(command, environ, call, helper=("agent", helper))
