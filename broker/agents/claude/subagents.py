"""
Where Claude Code finds the definitions of its subagents in a run, and how they spell tools.

Decided here: the folders and the option that define subagents. Not decided here: how a file is
read (``broker.agents.definitions``), and what follows (``broker.agents.children``). Those of the
workspace are not loaded in a run, and those of plugins are not looked at: Claude Code holds them
to their lists by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from broker.agents.claude.settings import config_folder
from broker.agents.definitions import Definitions, Listing, listed_in
from broker.errors import LaunchError


def definitions(environ: Mapping[str, str], typed: str | None) -> Definitions:
    """
    Return the definitions of a run.

    Args:
        environ: the run's environment.
        typed: the value of ``--agents``, JSON or the name of a file with it.

    Raises:
        LaunchError: that value cannot be read.
    """
    folders = (config_folder(environ) / "agents",)
    return Definitions(folders, spelled, _typed(typed) if typed else {}, deep=True)


def spelled(tool: str) -> tuple[str, ...]:
    """
    Return the pattern of a tool as a definition names it.

    >>> spelled("Task"), spelled("mcp__notes"), spelled("Read")
    (('Agent', 'Task'), ('mcp__notes__*',), ('Read',))
    """
    if tool in ("Agent", "Task"):
        return "Agent", "Task"
    if tool.startswith("mcp__") and tool.count("__") == 1:
        return (f"{tool}__*",)
    return (tool,)


def _typed(value: str) -> dict[str, Listing]:
    try:
        text = value if value.lstrip().startswith("{") else Path(value).read_text("utf-8")
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise LaunchError(f"`--agents {value[:80]}` cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise LaunchError(f"`--agents {value[:80]}` is not a JSON object")
    return {kind: _listing(kind, said) for kind, said in found.items()}


def _listing(kind: str, said: object) -> Listing:
    tools = said.get("tools") if isinstance(said, dict) else None
    without = said.get("disallowedTools", []) if isinstance(said, dict) else []
    lists = [each for each in (tools, without) if each is not None]
    if not all(isinstance(each, str) or _texts(each) for each in lists):
        raise LaunchError(f"`--agents`: the tools of `{kind}` are no list of names")
    names = None if tools is None else listed_in(tools)
    return Listing(None if names is not None and "*" in names else names, listed_in(without))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
