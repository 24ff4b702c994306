"""
How opencode is started for its canary.

Decided here: what differs from the run: a provider of ours alone, and a folder of sessions of its
own. It is not fenced: it installs packages first, and takes long to believe that it cannot. Not
decided here: when (``launch``) and how it is played (``broker.agents.canary``).
"""

from __future__ import annotations

import json
import os
from typing import Final

from broker.agents.adapter import Bait, Canary
from broker.limits import MAX_SLOW_CANARY_S

_NAME: Final = "broker-canary"  # the name of its provider and its model
_NO_TRAFFIC: Final = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")


def canary(program: str, bait: Bait, variable: str, content: str) -> Canary:
    """
    Return how the canary is started.

    Args:
        program: as it was typed.
        bait: what it reaches for.
        variable: what opencode reads its configuration from.
        content: the configuration of the run, with our plugin.
    """
    environ = {
        variable: json.dumps(json.loads(content) | _model(f"{bait.url}/v1")),
        "XDG_DATA_HOME": os.fspath(bait.file.with_name("data")),
        **{f"OPENCODE_DISABLE_{name}": "1" for name in _NO_TRAFFIC},
    }
    return Canary(
        (program, "run", "--format", "json", "--title", _NAME, bait.prompt),
        environ,
        ("read", {"filePath": os.fspath(bait.file)}),
        MAX_SLOW_CANARY_S,
        fenced=False,
        helper=(
            "task",
            {"description": "a trial", "prompt": bait.errand, "subagent_type": "general"},
        ),
    )


def _model(url: str) -> dict[str, object]:
    """Return the settings of a provider with one model, for large and small questions."""
    row = {"name": _NAME, "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": _NAME,
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {_NAME: row},
    }
    named = f"{_NAME}/{_NAME}"
    return {
        "provider": {_NAME: provider},
        "enabled_providers": [_NAME],
        "model": named,
        "small_model": named,
        "share": "disabled",
        "autoupdate": False,
    }
