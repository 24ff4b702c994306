"""
What could outvote the broker's hook in a run of Qwen Code, and where it would stand.

Qwen Code runs all hooks of a call and lets the last answer win. A hook that is ``sequential``
also changes what the hooks after it are told of the call, and not the call. So beside ours there
may be no hook before tool calls that comes from a workspace, an agent, a skill or an extension;
one of the person's own settings may stand there, before ours, unless it is sequential. An agent
whose definition names an ``executor`` runs in another process, where nothing of this holds.

Decided here: which files are looked at, and whether one of them holds such a thing. Not decided
here: what follows (``broker.agents.qwen.launch`` refuses to start, or the call, and stops the
run).

Rules a maintainer keeps: a file that cannot be read, or not understood, counts as a rival; the
rules follow what Qwen Code 0.24.4 does; a look costs a few system calls where nothing is there,
since it is taken before every call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.hooks import BEFORE
from broker.agents.settingsfile import plain_text, read_settings
from broker.agents.watch import stamp

Looked = Callable[[Path], str | None]

_FRONT: Final = re.compile(r"\A\ufeff?---\r?\n(.*?)\r?\n---", re.DOTALL)
_KEYS: Final = re.compile(r"\b(hooks|executor|executionBackend)\b[\"']?\s*:")
# Spellings of a key that a plain search would miss: escapes, aliases, and keys on their own line.
_HIDDEN: Final = re.compile(r"\"[^\"\n]*\\[^\"\n]*\"\s*:|^\s*\?(?:\s|$)|^\s*\*\w+\s*:", re.M)
_NAMED: Final = re.compile(r"^name:[ \t]*[\"']?([^\"'\r\n#]+?)[\"']?[ \t]*$", re.M)
_SKILLS: Final = (".qwen", ".agents")


class Rivals:
    """
    The files of one run that could outvote its hook, looked at again when they change.

    >>> Rivals(Path("/nowhere"), Path("/nowhere")).found(Path("/nowhere")) is None
    True
    """

    def __init__(self, folder: Path, home: Path, *, extensions: bool = True) -> None:
        """
        Begin with nothing seen.

        Args:
            folder: Qwen Code's own folder, usually ``~/.qwen``.
            home: the user's home.
            extensions: whether the run loads the user's extensions.
        """
        self._folder = folder
        self._home = home
        self._extensions = extensions
        self._seen: dict[Path, tuple[object, str | None]] = {}

    def found(self, workspace: Path) -> str | None:
        """Return what could outvote the hook in a run that starts in this folder, or None."""
        for path, look in self._places(workspace):
            why = self._look(path, look)
            if why is not None:
                return f"`{path}` {why}"
        return None

    def defines(self, workspace: Path, kind: str) -> bool:
        """Whether a file defines an agent of this name; that it has no executor was looked at."""
        for folder in self.definitions(workspace):
            for path in _files(folder, ".md"):
                front = _FRONT.match(plain_text(path) or "")
                if front is not None and kind in _NAMED.findall(front[1]):
                    return True
        return False

    def definitions(self, workspace: Path) -> tuple[Path, ...]:
        """Return the folders of the definitions of agents, but for those of extensions."""
        return workspace / ".qwen" / "agents", self._folder / "agents"

    def _look(self, path: Path, look: Looked) -> str | None:
        now = stamp((path,))
        before = self._seen.get(path)
        if before is not None and before[0] == now:
            return before[1]
        why = None if now == (None,) and not os.path.lexists(path) else look(path)
        self._seen[path] = (now, why)
        return why

    def _places(self, workspace: Path) -> Iterator[tuple[Path, Looked]]:
        own, theirs = self._folder, workspace / ".qwen"
        yield own / "settings.json", user_settings
        if os.path.realpath(theirs) != os.path.realpath(own):
            yield theirs / "settings.json", workspace_settings
        definitions = [own / "agents", theirs / "agents"]
        skills = [own / "skills", self._home / ".agents" / "skills"]
        skills += [workspace / name / "skills" for name in _SKILLS]
        for path in _entries(own / "extensions") if self._extensions else ():
            yield from ((path / name, manifest) for name in _MANIFESTS)
            yield path / "hooks" / "hooks.json", manifest
            definitions.append(path / "agents")
            skills.append(path / "skills")
        for folder in definitions:
            yield from ((path, definition) for path in _files(folder, ".md"))
        for folder in skills:
            for path in _entries(folder):
                yield path / "SKILL.md", definition


_MANIFESTS: Final = (
    "qwen-extension.json",
    "gemini-extension.json",
    ".claude-plugin/plugin.json",
)


def user_settings(path: Path) -> str | None:
    """Return what in the user's own settings keeps the hook from holding, or None."""
    settings, why = read_settings(path)
    if why is not None:
        return why
    if any(entry.get("sequential") for entry in before(settings)):
        return f"has a `sequential` hook for `{BEFORE}`, which changes what later hooks are told"
    return boxes(settings)


def workspace_settings(path: Path) -> str | None:
    """Return what in a workspace's settings keeps the hook from holding, or None."""
    settings, why = read_settings(path)
    if why is not None:
        return why
    if list(before(settings)):
        return f"has a hook for `{BEFORE}`, which could change what the broker is told"
    skills = settings.get("skills")
    if isinstance(skills, dict) and skills.get("directories"):
        return "names folders of skills that the broker does not look at"
    return None


def manifest(path: Path) -> str | None:
    """Return what in an extension keeps the hook from holding, or None."""
    settings, why = read_settings(path)
    if why is not None:
        return why
    if path.name == "hooks.json" or settings.get("hooks"):
        return "brings hooks, which could outvote the broker's: disable the extension"
    return None


def definition(path: Path) -> str | None:
    """Return what in an agent's or a skill's file keeps the hook from holding, or None."""
    text = plain_text(path)
    if text is None:
        return "cannot be read"
    front = _FRONT.match(text)
    head = text if front is None else front[1]
    named = _KEYS.search(head)
    if named is not None:
        return f"sets `{named[1]}`, which no ticket would hold"
    if _HIDDEN.search(head):
        return "spells its keys in a way that the broker does not read"
    return None


def boxes(settings: Mapping[str, object]) -> str | None:
    """Return the sandbox of Qwen Code's own that settings ask for; hooks do not run in there."""
    tools = settings.get("tools")
    for key in ("executionSandbox", "sandbox"):
        if isinstance(tools, dict) and tools.get(key) not in (None, False, "", "false", "0"):
            return f"sets `tools.{key}`, where no hook runs"
    return None


def before(settings: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the entries of hooks that run before a tool call."""
    hooks = settings.get("hooks")
    entries = hooks.get(BEFORE) if isinstance(hooks, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield entry


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _files(folder: Path, suffix: str) -> list[Path]:
    return [path for path in _entries(folder) if path.name.endswith(suffix)]


def no_extensions(arguments: Sequence[str]) -> bool:
    """Whether the person asked for none of their extensions."""
    return any(
        argument in ("-e=none", "--extensions=none")
        or (argument in ("-e", "--extensions") and [*arguments, ""][at + 1] == "none")
        for at, argument in enumerate(arguments)
    )
