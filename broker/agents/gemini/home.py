"""
A home for Gemini CLI that is the person's own, with the broker's hooks in its settings.

Gemini CLI takes hooks from settings files only, and the one of the machine counts only where it
belongs to root. So a run gets a home in the session's folder: its ``settings.json`` says what the
person's says and names the hooks, and everything else in it is a link to what the person has.

Decided here: what lies in that home, and whether its settings still name the hooks. Not decided
here: which settings keep a hook from running (``broker.agents.gemini.settings``).

Rules a maintainer keeps: the person's files are read and linked, never written; the hooks' name
is a new one for each run, because a workspace may switch a hook off by its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from broker.agents.client import write_new
from broker.agents.gemini.settings import EVENTS, FOLDER, SETTINGS, Settings, read_settings
from broker.errors import LaunchError

HOME_NAME: Final = "gemini-home"
_BESIDE: Final = (".env", ".agents")  # what it looks for in the home itself


def furnish(home: Path, real: Path, settings: Settings, *, leave: Collection[str] = ()) -> Path:
    """
    Make the home of a run, and return its settings file.

    Args:
        home: the folder to make.
        real: the person's home.
        settings: what its settings file is to say.
        leave: what of the person's is not in it.

    Raises:
        OSError: it cannot be made.
    """
    ours, theirs = home / FOLDER, real / FOLDER
    home.mkdir(mode=0o700)
    ours.mkdir(mode=0o700)
    for name in _BESIDE:
        if (real / name).exists():
            (home / name).symlink_to(real / name)
    for name in sorted(os.listdir(theirs)) if theirs.is_dir() else ():
        if name != SETTINGS and name not in leave:
            (ours / name).symlink_to(theirs / name)
    write_new(ours / SETTINGS, json.dumps(settings, indent=1).encode())
    return ours / SETTINGS


def with_hooks(settings: Settings, name: str, command: str, timeout_ms: int) -> dict[str, object]:
    """
    Return settings with the broker's hooks first at every event that it answers.

    >>> list(with_hooks({}, "broker-1", "true", 30000)["hooks"])
    ['BeforeTool', 'AfterTool', 'SessionStart', 'BeforeAgent']
    """
    theirs = settings.get("hooks", {})
    merged: dict[str, object] = dict(theirs) if isinstance(theirs, dict) else {}
    for event in EVENTS:
        present = merged.get(event, [])
        rest = present if isinstance(present, list) else []
        merged[event] = [_ours(event, name, command, timeout_ms), *rest]
    return {**settings, "hooks": merged}


def names_hooks(path: Path, settings: Settings) -> bool:
    """Return whether a settings file, which Gemini CLI may have written, still has the hooks."""
    try:
        found = read_settings(path)
    except LaunchError:
        return False
    # `/hooks disable` writes there, and takes effect at once.
    return all(found.get(key) == settings.get(key) for key in ("hooks", "hooksConfig"))


def _ours(event: str, name: str, command: str, timeout_ms: int) -> Mapping[str, object]:
    hook = {"type": "command", "name": name, "command": command, "timeout": timeout_ms}
    return {"hooks": [hook]} if event not in EVENTS[:2] else {"matcher": "*", "hooks": [hook]}
