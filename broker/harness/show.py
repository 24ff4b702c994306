"""
A run in lines for a person: what the agent says, what it calls, and what becomes of that.

Decided here: how a run looks on a terminal. What comes from the model or from a file is shown
without control characters, so that no text can pretend to be the agent's own output.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from typing import Final

from broker.harness.outcome import Called, Ended, Said
from broker.harness.script import ToolCall

MARKS: Final = {"done": "ok", "failed": "failed", "refused": "REFUSED"}
_WIDTH: Final = 96
_LINES: Final = 4
_MARGIN: Final = " " * 10


def plain(text: str) -> str:
    """
    Return text that a terminal shows as it is.

    >>> plain("a\\x1b[2Jb\\u202ec")
    'a�[2Jb�c'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def short(text: str, width: int = _WIDTH) -> str:
    """Return text cut to ``width`` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def call_text(call: ToolCall, width: int | None = _WIDTH) -> str:
    """
    Return a call on one line, of at most ``width`` characters where that is a number.

    >>> call_text(ToolCall("read", {"path": "a.py"}))
    'read(path="a.py")'
    """
    arguments = (f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in call.arguments.items())
    text = plain(f"{call.tool}({', '.join(arguments)})")
    return text if width is None else short(text, width)


def printer(write: Callable[[str], object]) -> Callable[[Said | Called | Ended], None]:
    """Return a watcher that writes each event as lines."""

    def watch(event: Said | Called | Ended) -> None:
        if isinstance(event, Said):
            write(f"{event.actor}: {plain(event.text)}\n")
        elif isinstance(event, Ended):
            for line in ended_lines(event):
                write(f"{line}\n")

    return watch


def ended_lines(event: Ended) -> list[str]:
    """Return what became of a call: the call, and the beginning of its result below."""
    result = event.result
    lines = [f"  {MARKS[result.outcome]:7} {call_text(event.call)}"]
    text = [plain(line) for line in result.text.splitlines() if line.strip()]
    if result.outcome == "refused":
        lines += textwrap.wrap(
            " ".join(text), _WIDTH, initial_indent=_MARGIN, subsequent_indent=_MARGIN
        )
    else:
        lines += [f"{_MARGIN}| {short(line)}" for line in text[:_LINES]]
        if len(text) > _LINES:
            lines.append(f"{_MARGIN}| … {len(text) - _LINES} more lines")
    if not event.as_expected:
        lines.append(f"{_MARGIN}! the script expected: {event.call.expect}")
    return lines
