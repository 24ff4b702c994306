"""
How Cline CLI is started for its canary.

Decided here: what differs from the run: a folder of data of its own, whose one provider is ours,
and no MCP server. The plugin and the folder around it are those of the run. Not decided here: when
(``launch``) and how it is played (``broker.agents.canary``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Final

from broker.agents.adapter import Bait, Canary
from broker.agents.client import write_new
from broker.agents.cline.hook import SPAWNS
from broker.errors import LaunchError

_PROVIDER: Final = "openai-compatible"
_MODEL: Final = "broker-canary"


def canary(front: Sequence[str], bait: Bait) -> Canary:
    """
    Return how the canary is started.

    Args:
        front: the program, where it works, and that its tools begin closed.
        bait: what it reaches for.

    Raises:
        LaunchError: its settings cannot be written.
    """
    data = bait.file.with_name("cline-data")
    chosen = {"provider": _PROVIDER, "apiKey": "none", "model": _MODEL, "baseUrl": f"{bait.url}/v1"}
    row = {"settings": chosen, "updatedAt": "2020-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": _PROVIDER, "providers": {_PROVIDER: row}}
    try:
        (data / "settings").mkdir(mode=0o700, parents=True)
        write_new(data / "settings/providers.json", json.dumps(providers).encode())
    except OSError as error:
        raise LaunchError(f"`{data}` cannot be written: {error.strerror}") from error
    environ: dict[str, str | None] = {
        "CLINE_DATA_DIR": os.fspath(data),
        "CLINE_NO_AUTO_UPDATE": "1",
        "CLINE_TELEMETRY_DISABLED": "1",
        "BROKER_CLINE_OPENS": "1",
        **{f"CLINE_{kind}_SETTINGS_PATH": None for kind in ("PROVIDER", "MCP", "GLOBAL")},
    }
    return Canary(
        (*front, "--json", "-P", _PROVIDER, "-m", _MODEL, bait.prompt),
        environ,
        ("read_files", {"files": [{"path": os.fspath(bait.file)}]}),
        helper=(SPAWNS, {"systemPrompt": "You try a refusal.", "task": bait.errand}),
    )
