"""
The console command `broker`.

Decided here: which door a command line goes through, and how an error leaves. `broker hook` is
started for every tool call of an agent, so it goes to the hook's client before anything else is
imported. Everything else is a typer command.

Rules a maintainer keeps: this module imports nothing heavy at its top; an error is one line on
stderr (a scope's error also shows the text with a caret), never a traceback, unless
BROKER_DEBUG is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

HOOK_DEADLINE_MS = "15000"  # what `broker run` gives a hook, too
UNANSWERED = 2  # agents take it for a refusal


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line ``argv`` (the process's own when absent) and exit."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["hook"] and words[1:2] not in (["--help"], ["-h"]):
        sys.exit(_hook(words[1:]))

    from broker.cli.door import run

    sys.exit(run(words))


def _hook(words: Sequence[str]) -> int:
    """Answer an agent's hook; where even that cannot begin, refuse by the exit code."""
    try:
        from broker.hookclient import main as hook
    except (ImportError, KeyboardInterrupt):
        os.write(2, b"refused: the hook of the broker cannot run here; ask the person\n")
        return UNANSWERED
    socket = os.environ.get("BROKER_SOCKET", "")
    return hook(["broker", socket, *words, HOOK_DEADLINE_MS])
