"""
What the exit codes of `broker` mean. Scripts read them, so they never change.

`run` is the one exception: its exit code is the agent's own.
"""

from __future__ import annotations

from typing import Final

ALLOWED: Final = 0  # allowed, verified, or simply done
REFUSED: Final = 1  # refused, not verified, an expectation that does not hold
UNDECIDED: Final = 2  # bad input, or it could not be decided or verified safely
INTERRUPTED: Final = 130  # Ctrl-C, as shells spell it

MEANING: Final = (
    "Exit code: 0 allowed or verified, 1 refused or not verified, 2 bad input or could not decide."
)
