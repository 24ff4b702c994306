"""
The configuration that a workspace brings along, for agents and for the broker: listed, not used.

Decided here: which files of a workspace are configuration, and whether what is in them could run
something. Not decided here: whether anybody trusts them.

Rules a maintainer keeps: nothing is imported, parsed for its meaning or executed; no link is
followed; a folder without end costs no more than its first files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal

from broker.capabilities.fs import Folder

Role = Literal["catalog", "settings", "instructions", "unknown"]

MAX_FILES: Final = 256  # files that are listed
MAX_DEPTH: Final = 6  # folders below one of these
MAX_FILE_BYTES: Final = 4 * 2**20  # bytes of a file whose digest is taken
OURS: Final = ".broker"
CATALOGS: Final = f"{OURS}/catalogs/"

# Folders whose files an agent reads, and may run: hooks, plugins, servers, commands.
_FOLDERS: Final = (
    OURS,
    ".claude",
    ".cline",
    ".clinerules",
    ".codex",
    ".cursor",
    ".gemini",
    ".github/hooks",
    ".opencode",
    ".pi",
    ".qwen",
)
_FILES: Final = {
    ".mcp.json": "settings",
    "AGENTS.md": "instructions",
    "CLAUDE.md": "instructions",
    "GEMINI.md": "instructions",
    "QWEN.md": "instructions",
    "broker.toml": "settings",
    "opencode.json": "settings",
    "opencode.jsonc": "settings",
}
_INSTRUCTIONS: Final = (".md", ".mdc", ".txt")


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """
    One file, by its path below the workspace.

    ``sha256`` is None for what is no regular file, cannot be read or is too large.
    """

    path: str
    role: Role
    size_bytes: int
    sha256: str | None


def workspace_files(folder: Folder) -> list[WorkspaceFile]:
    """
    Return the configuration of a workspace, sorted by path; at most ``MAX_FILES``.

    >>> from broker.capabilities.memory import MemoryFiles
    >>> files = MemoryFiles({"/ws/.broker/catalogs/mine.toml": b"", "/ws/src/a.py": b""})
    >>> [(file.path, file.role) for file in workspace_files(files.below("/ws"))]
    [('.broker/catalogs/mine.toml', 'catalog')]
    """
    found: dict[str, WorkspaceFile] = {}
    for place in (*_FILES, *_FOLDERS):
        for file in _below(folder, place, 0):
            found[file.path] = file
            if len(found) == MAX_FILES:
                return [found[path] for path in sorted(found)]
    return [found[path] for path in sorted(found)]


def _below(folder: Folder, place: str, depth: int) -> Iterator[WorkspaceFile]:
    try:
        status = folder.status(place)
        names = folder.names(place) if status is not None and status.kind == "folder" else None
    except OSError:
        status, names = None, None
    if status is None or depth > MAX_DEPTH:
        return
    if names is not None:
        for name in names:
            yield from _below(folder, f"{place}/{name}", depth + 1)
        return
    digest = None
    if status.kind == "file":
        try:
            digest = sha256(folder.read(place, limit_bytes=MAX_FILE_BYTES)).hexdigest()
        except OSError:
            digest = None
    yield WorkspaceFile(place, _role(place), status.size_bytes, digest)


def _role(place: str) -> Role:
    if place.startswith(CATALOGS) and place.endswith(".toml"):
        return "catalog"
    if place in _FILES:
        return "settings" if _FILES[place] == "settings" else "instructions"
    if place.endswith(_INSTRUCTIONS):
        return "instructions"
    return "settings" if not place.startswith(f"{OURS}/") else "unknown"
