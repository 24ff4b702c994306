"""
Which MCP servers Claude Code would use in a run, and how it is given others in their place.

Decided here: where servers are configured, and that ours stand behind the person's on the command
line, since of two with one name the later one counts. Not decided here: which of them stand behind
the gateway (``broker.agents.servers``). Servers of plugins, and those that the provider's account
brings, stay as they are.

Rule a maintainer keeps: nothing is started that Claude Code would not have started by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch
from broker.agents.settingsfile import parse_settings, read_settings

OPTION: Final = "--mcp-config"
_STRICT: Final = "--strict-mcp-config"


def configured(launch: Launch, arguments: Sequence[str]) -> dict[str, object]:
    """
    Return the servers that the person configured, by name: their own, and those typed.

    What cannot be read names none; Claude Code says so itself.
    """
    found: dict[str, object] = {}
    if _STRICT not in arguments:
        own = read_settings(_own(launch.environ))[0]
        off = _table(_table(own, "projects"), os.fspath(launch.cwd)).get("disabledMcpServers")
        found |= _table(own, "mcpServers")
        for name in off if isinstance(off, list) else ():
            found.pop(name, None)
    for text in typed_values(arguments)[0]:
        if text.lstrip().startswith("{"):
            settings = parse_settings(text)[0]
        else:
            settings = read_settings(launch.cwd / text)[0]
        found |= _table(settings, "mcpServers")
    return found


def typed_values(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """
    Return the values of the option, which takes as many words as follow it, and the other words.

    >>> typed_values(["--mcp-config", "a", "b", "-p", "go", "--mcp-config=c"])
    (['a', 'b', 'c'], ['-p', 'go'])
    """
    values: list[str] = []
    rest: list[str] = []
    taking = False
    for word in _up_to_end(arguments):
        if word == OPTION:
            taking = True
        elif word.startswith(OPTION + "="):
            values.append(word.partition("=")[2])
            taking = False
        elif taking and not (word.startswith("-") and len(word) > 1):
            values.append(word)
        else:
            taking = False
            rest.append(word)
    return values, [*rest, *arguments[len(list(_up_to_end(arguments))) :]]


def _up_to_end(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words before ``--``, behind which nothing is an option."""
    for word in arguments:
        if word == "--":
            return
        yield word


def _own(environ: Mapping[str, str]) -> Path:
    folder = environ.get("CLAUDE_CONFIG_DIR") or environ.get("HOME") or "/"
    return Path(folder) / ".claude.json"


def _table(holder: Mapping[str, object], key: str) -> dict[str, object]:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}
