"""
opencode's calls, as the broker's plugin tells them.

Decided here: which of its tools are the same as another agent's under other names of arguments,
and which call is one of an MCP server. Not decided here: what is answered
(``broker.agents.hooks``), and how the plugin gets into a run (``broker.agents.opencode.launch``).

opencode calls a server's tool ``SERVER_TOOL``. The plugin tells the servers when it starts, so
such a call becomes ``mcp__SERVER__TOOL``, as in every scope; one that two servers could have, or
a server and a tool of opencode's own, is refused. Its ``grep`` in a file searches the folder that
the file is in, and its ``glob`` for a name without a slash searches every folder below.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from broker.agents.children import Spawn, key_of
from broker.agents.hooks import HookCall, spawn_of, spelled_server
from broker.agents.plugin import read_spoken, refused, respelled
from broker.errors import InputError
from broker.service.protocol import HookRefusal

NAME: Final = "opencode"

_NAMES: Final = {
    "read": {"filePath": "path"},
    "write": {"filePath": "path"},
    "edit": {"filePath": "path", "oldString": "old", "newString": "new"},
    "bash": {"workdir": "cwd"},
    "apply_patch": {"patchText": "patch"},
}
_OWN: Final = frozenset(
    (
        *("apply_patch", "bash", "edit", "glob", "grep", "invalid", "list_mcp_resources"),
        *("list_mcp_resource_templates", "lsp", "plan_exit", "question", "read"),
        *("read_mcp_resource", "skill", "task", "todowrite", "webfetch", "websearch", "write"),
    )
)


class OpencodeDialect:
    """
    How opencode spells what it asks; it remembers the MCP servers that the plugin told.

    >>> OpencodeDialect().read(b'{"event":"start","servers":["notes"]}').event
    'start'
    """

    def __init__(self, is_folder: Callable[[str], bool] = os.path.isdir) -> None:
        self._is_folder = is_folder
        self._servers: frozenset[str] = frozenset()

    def read(self, payload: bytes) -> HookCall:
        """
        Read what the plugin wrote.

        Raises:
            InputError: a field is missing, or it is not clear which tool is meant.
        """
        spoken = read_spoken(payload)
        # Only ever more of them: a later start could otherwise free a server's tools of its name.
        self._servers |= frozenset(spoken.servers)
        call = spoken.call
        if not call.tool or not isinstance(call.arguments, dict):
            return call
        tool, server = self._named(call.tool)
        if server is not None:
            return replace(call, tool=tool, server=server)
        spawn = None
        if tool == "task":
            spawn = _task(tool, call.arguments)
        elif tool == "skill":
            spawn = Spawn(tool, many=True)
        return replace(call, arguments=self._meant(call, call.arguments), spawn=spawn)

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; opencode shows the model its reason alone."""
        return refused(reason)

    def _named(self, tool: str) -> tuple[str, str | None]:
        """Return the tool's full name and its server; a tool of opencode's own has none."""
        found = set()
        for server in self._servers:
            spelled = spelled_server(server)
            rest = tool.removeprefix(f"{spelled}_")
            if rest and rest != tool:
                found.add((f"mcp__{spelled}__{rest}", spelled))
        if found and (len(found) > 1 or tool in _OWN):
            raise InputError(f"`{tool}` may be a tool of more than one MCP server, or of none")
        return found.pop() if found else (tool, None)

    def _meant(self, call: HookCall, arguments: dict[str, object]) -> dict[str, object]:
        found = respelled(arguments, _NAMES.get(call.tool, {}))
        path, pattern = found.get("path"), found.get("pattern")
        if call.tool == "grep" and isinstance(path, str):
            if not self._is_folder(os.path.join(call.cwd, path)):
                found["path"] = [path, os.path.dirname(path.rstrip("/")) or "."]
        if call.tool == "glob" and isinstance(pattern, str) and "/" not in pattern:
            found["pattern"] = f"**/{pattern}"
        return found


def _task(tool: str, given: dict[str, object]) -> Spawn:
    """Return what a task starts; with the id of a session, that session goes on instead."""
    before = given.get("task_id") or ""
    if not isinstance(before, str):
        raise InputError("a task's `task_id` is a text")
    found = spawn_of(tool, given, "subagent_type", "prompt")
    return replace(found, resumes=key_of(before)) if before else found
