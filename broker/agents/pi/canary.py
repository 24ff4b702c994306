"""
How pi is started for its canary.

Decided here: what differs from the run: a folder of its own, whose one provider is ours, and no
saved session. All extensions of the run are there, in their order. Not decided here: when
(``launch``) and how it is played (``broker.agents.canary``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from broker.agents.adapter import Bait, Canary
from broker.agents.client import write_new
from broker.errors import LaunchError

_NAME: Final = "broker-canary"  # the name of its provider and its model


def canary(front: Sequence[str], bait: Bait, typed: Sequence[str]) -> Canary:
    """
    Return how the canary is started.

    Args:
        front: the program, and our extension.
        bait: what it reaches for.
        typed: what was typed behind the program's name.

    Raises:
        LaunchError: its settings cannot be written.
    """
    row = {"baseUrl": f"{bait.url}/v1", "api": "openai-completions", "apiKey": "none"}
    providers = {"providers": {_NAME: {**row, "models": [{"id": _NAME}]}}}
    folder = bait.file.with_name("pi")
    try:
        folder.mkdir(mode=0o700)
        write_new(folder / "models.json", json.dumps(providers).encode())
    except OSError as error:
        raise LaunchError(f"`{folder}` cannot be written: {error.strerror}") from error
    named = pairwise([*typed, ""])
    theirs = [value for option, value in named if option in ("-e", "--extension") and value]
    command = (
        *front,
        *(word for extension in theirs for word in ("-e", extension)),
        *("-p", "--mode", "json", "--no-session", "--provider", _NAME, "--model", _NAME),
        *("--tools", "read", bait.prompt),
    )
    environ = {
        "PI_CODING_AGENT_DIR": os.fspath(folder),
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
    }
    return Canary(command, environ, ("read", {"path": os.fspath(bait.file)}))
