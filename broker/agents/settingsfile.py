"""
Reading a settings file of an agent: JSON with comments, from a place that is not trusted.

Decided here: what counts as read. Not decided here: what a setting means, and what follows from
a file that says nothing (each agent's own room).

Rules a maintainer keeps: only a plain file of a sensible size is read, and a pipe is never waited
for; what cannot be read, or not understood, is told apart from what is missing, since an agent
may understand it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Final

from broker.limits import MAX_SETTINGS_BYTES

_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)

Found = tuple[dict[str, object], str | None]


def read_settings(path: Path) -> Found:
    """Return what a settings file says, and why it cannot be read; a missing file says nothing."""
    text = plain_text(path)
    if text is None:
        return {}, "cannot be read" if os.path.lexists(path) else None
    return parse_settings(text)


def parse_settings(text: str) -> Found:
    """
    Return what settings say, and why they cannot be understood.

    >>> parse_settings('{"a": "//"} // b')
    ({'a': '//'}, None)
    """
    try:
        found = json.loads(_COMMENT.sub(lambda m: m[1] or " ", text.removeprefix("\ufeff")))
    except (ValueError, RecursionError):
        return {}, "is not understood: it is not JSON with comments"
    return (found, None) if isinstance(found, dict) else ({}, "is not a JSON object")


def plain_text(path: Path) -> str | None:
    """Return the text of a plain file of a sensible size, or None."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            plain = stat.S_ISREG(os.fstat(fd).st_mode)
            content = file.read(MAX_SETTINGS_BYTES + 1) if plain else None
    except OSError:
        return None
    if content is None or len(content) > MAX_SETTINGS_BYTES:
        return None
    return content.decode("utf-8", "replace")
