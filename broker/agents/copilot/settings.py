"""
What could undo the broker's hook in a run of GitHub Copilot CLI, and where it would stand.

Decided here: which files are looked at, and whether one of them says so. Not decided here: what
follows (``broker.agents.copilot.launch`` refuses to start, or stops the run).

A repository's settings count whether or not it is trusted: that may change in the midst of a
run. Hooks of its own do not, since they run before ours and cannot undo a refusal.

Rules a maintainer keeps: a file that cannot be read, or not understood, is taken to say the
worst; the rules follow what Copilot 1.0.102 does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.agents.settingsfile import parse_settings, read_settings

_REPOSITORY: Final = (
    ".github/copilot/settings.json",
    ".github/copilot/settings.local.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)
SETTINGS: Final = ("settings.json", "config.json")
_EXTENSIONS: Final = ".github/extensions"


def user_folder(environ: Mapping[str, str]) -> Path:
    """Return Copilot's own folder."""
    given = environ.get("COPILOT_HOME")
    return Path(given) if given else Path(environ.get("HOME") or "/") / ".copilot"


def undoing(user: Path, workspace: Path) -> str | None:
    """Return what would undo the hook in a run that starts in a folder, or None."""
    for path in _settings(user, workspace):
        settings, why = read_settings(path)
        if why is not None or settings.get("disableAllHooks") not in (None, False):
            return f"`{path}` {why or 'sets `disableAllHooks`'}"
    for folder in (user / "extensions", *(f / _EXTENSIONS for f in _folders(workspace))):
        if _holds(folder):
            return f"`{folder}` holds extensions, which could change a call after it was judged"
    return None


def configured(user: Path, workspace: Path, typed: Iterable[str]) -> dict[str, object]:
    """
    Return the MCP servers that the person configured, in a file or as typed, by name.

    What cannot be read names none: tools are then judged under the names they come with.
    """
    found = [read_settings(user / "mcp-config.json")[0]]
    for text in typed:
        if text.startswith("@"):
            found.append(read_settings(workspace / os.path.expanduser(text[1:]))[0])
        else:
            found.append(parse_settings(text)[0])
    servers: dict[str, object] = {}
    for config in found:
        named = config.get("mcpServers")
        servers |= named if isinstance(named, dict) else {}
    return servers


def definitions(user: Path, workspace: Path) -> tuple[Path, ...]:
    """Return the folders that define agents: the person's, and those of the repository."""
    names = (".github/agents", ".claude/agents")
    found = (folder / name for folder in _folders(workspace) for name in names)
    return (user / "agents", *found)


def _settings(user: Path, workspace: Path) -> Iterator[Path]:
    yield from (user / name for name in SETTINGS)
    for folder in _folders(workspace):
        yield from (folder / name for name in _REPOSITORY)


def _folders(workspace: Path) -> Iterator[Path]:
    """Yield the folder that a run starts in, and those above it that are of its repository."""
    above = [workspace, *workspace.parents]
    root = next((at for at, path in enumerate(above) if (path / ".git").exists()), 0)
    yield from above[: root + 1]


def _holds(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
