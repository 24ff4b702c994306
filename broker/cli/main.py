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


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line ``argv`` (the process's own when absent) and exit."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["hook"] and words[1:2] not in (["--help"], ["-h"]):
        from broker.hookclient import main as hook

        socket = os.environ.get("BROKER_SOCKET", "")
        sys.exit(hook(["broker", socket, *words[1:], HOOK_DEADLINE_MS]))

    from broker.cli.door import run

    sys.exit(run(words))
