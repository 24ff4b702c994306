"""
GitHub Copilot CLI's hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor, and under which names it is judged. Not
decided here: what is answered (``broker.agents.hooks``), and how the hook gets into a run
(``broker.agents.copilot.launch``).

Held to: ``PreToolUse`` before every tool call. Under the event names of Claude Code its own tools
have the names of Claude Code's, with arguments of their own, which are translated here, so that
one scope holds for both. ``SessionStart`` carries no call; it shows that the hooks are alive. A
tool of an MCP server comes as ``SERVER-TOOL``; it is taken for one only where the person
configured a server of that name. No call has an id: each gets a number here, and the end of a
call, which ``PostToolUse`` and ``PostToolUseFailure`` tell, is that of the first one that runs
with the same agent, tool and arguments.

A subagent's payloads name who started it: another subagent, or the session of the main agent.
``SubagentStart`` and ``SubagentStop`` tell when it begins and ends.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from broker.agents.children import Children, News, Spawn, key_of
from broker.agents.hooks import (
    BEFORE,
    AgentHook,
    HookCall,
    Outcome,
    actor_of,
    arguments_of,
    caller_of,
    denied,
    event_of,
    spawn_of,
    text_of,
)
from broker.calls import Refusal
from broker.errors import InputError
from broker.service.protocol import HookRefusal, read_object
from broker.session import Session

NAME: Final = "copilot-cli"
STARTS: Final = "SessionStart"
BEGUN: Final = "SubagentStart"
OVER: Final = "SubagentStop"
AFTER: Final = "PostToolUse"
FAILED: Final = "PostToolUseFailure"
MAX_RUNNING: Final = 4096  # calls that were let through and have not ended
AGENT: Final = "Agent"

_TOOLS: Final = {
    "exit_plan_mode": "ExitPlanMode",
    "list_agents": "ListAgents",
    "skill": "Skill",
}
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Read": {"path": "file_path", "view_range": "offset", "forceReadLargeFiles": "limit"},
    "Write": {"path": "file_path", "file_text": "content"},
    "Edit": {"path": "file_path", "old_str": "old_string", "new_str": "new_string"},
    "Glob": {"paths": "path"},
    "Grep": {"paths": "path"},
}
_SHELL: Final = ("Bash", "read_bash", "write_bash", "stop_bash")
# What a definition calls a tool or a group of them, in small letters.
_LISTED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("execute", "shell", "bash"), _SHELL),
    **dict.fromkeys(("read", "view"), ("Read",)),
    "edit": ("Edit", "Write", "apply_patch"),
    "create": ("Write",),
    "search": ("Grep", "Glob"),
    **dict.fromkeys(("grep", "rg"), ("Grep",)),
    "glob": ("Glob",),
    **dict.fromkeys(("agent", "task", "custom-agent"), (AGENT,)),
    "web": ("WebFetch", "WebSearch"),
    **dict.fromkeys(("web_fetch", "fetch"), ("WebFetch",)),
    "web_search": ("WebSearch",),
    "todo": ("TodoWrite",),
}
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class CopilotCall(HookCall):
    """A call, and by what its end will be known."""

    key: str = ""


class CopilotDialect:
    """
    How GitHub Copilot CLI spells what it asks.

    >>> CopilotDialect().read(b'{"hook_event_name":"SessionStart","source":"new"}').event
    'SessionStart'
    """

    def __init__(self, servers: Iterable[str] = ()) -> None:
        self._servers: frozenset[str] = frozenset()
        self._agents: set[str] = set()
        self._numbers = itertools.count(1)
        self._running: dict[str, str] = {}  # the numbers of calls, and their keys
        self._lock = threading.Lock()
        self.know(servers)

    def know(self, servers: Iterable[str]) -> None:
        """Take these names for those of the MCP servers that the person configured."""
        self._servers = frozenset(_NOT_OF_NAMES.sub("_", name) for name in servers if name)

    def read(self, payload: bytes) -> HookCall:
        """
        Read what Copilot wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        told_so = "hook_event_name" not in found and "agentName" in found
        if told_so and not {"tool_name", "toolName"} & found.keys():  # a call is never taken for it
            return HookCall(BEGUN, news=replace(self._caller(found), what="begun"))
        event = event_of(found, (STARTS, BEFORE, OVER, AFTER, FAILED))
        if event == STARTS:
            return HookCall(event)
        caller = self._caller(found)
        if event == OVER:
            return HookCall(event, news=replace(caller, what="ended"))
        name, given = text_of(found, "tool_name"), found.get("tool_input")
        key = json.dumps([found.get("agent_id"), name, given], sort_keys=True)
        if event in (AFTER, FAILED):
            return HookCall(event, ended=self._ended(key, found))
        if name == "Edit" and isinstance(given, str):
            name, given = "apply_patch", {"patch": given}  # as others have the tool
        server, tool = self._named(name)
        arguments = _translated(tool, arguments_of(given))
        return CopilotCall(
            event,
            tool,
            arguments,
            str(next(self._numbers)),
            text_of(found, "cwd"),
            server,
            actor_of(found.get("agent_id"), found.get("agent_type")),
            caller,
            _spawn(tool, arguments),
            key=key,
        )

    def runs(self, call: HookCall) -> None:
        """Remember a call that was let through, until its end is told."""
        if isinstance(call, CopilotCall):
            with self._lock:
                self._running[call.call_id] = call.key
                if len(self._running) > MAX_RUNNING:
                    del self._running[next(iter(self._running))]  # its end is told of nobody

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; Copilot takes this shape under the event's name of Claude Code."""
        return denied(event, reason)

    def _caller(self, found: dict[str, object]) -> News:
        """Return who calls; whoever started it and is no subagent that was seen is the main one."""
        agent, parent = found.get("agent_id"), found.get("parent_agent_id")
        if isinstance(agent, str):
            self._agents.add(agent)
        above = key_of(parent if isinstance(parent, str) and parent in self._agents else None)
        return caller_of(agent, found.get("agent_type"), above)

    def _ended(self, key: str, found: Mapping[str, object]) -> Outcome | None:
        """Return how a call ended; None where none of those that run is meant."""
        with self._lock:
            number = next((n for n, each in self._running.items() if each == key), None)
            if number is None:
                return None
            del self._running[number]
        result = found.get("tool_result")
        if isinstance(result, dict):
            return Outcome(number, result.get("result_type") == "success", result)
        return Outcome(number, False, found.get("error"))

    def _named(self, name: str) -> tuple[str | None, str]:
        """Return the server and the name of a tool, as a scope and a catalog know them."""
        if name.startswith("mcp__"):
            # Copilot never spells a tool like this: it would pass for another server's.
            raise InputError(f"Copilot has no tool `{name[:80]}`")
        found = [s for s in self._servers if name.startswith(f"{s}-") and len(name) > len(s) + 1]
        if len(found) != 1:
            return None, _TOOLS.get(name, name)
        (server,) = found
        return server, f"mcp__{server}__{name[len(server) + 1 :]}"


class CopilotHook(AgentHook):
    """The hook of one run, which remembers the calls that run until they have ended."""

    def __init__(self, dialect: CopilotDialect, children: Children) -> None:
        super().__init__(dialect, children=children)
        self._calls = dialect

    def _decided(self, call: HookCall, session: Session) -> Refusal | None:
        refusal = super()._decided(call, session)
        if refusal is None:
            self._calls.runs(call)
        return refusal


def spelled(tool: str) -> tuple[str, ...]:
    """
    Return the patterns of a tool as a definition names it.

    >>> spelled("search"), spelled("bash"), spelled("notes/look")
    (('Grep', 'Glob'), ('Bash', 'read_bash', 'write_bash', 'stop_bash'), ('mcp__notes__look',))
    """
    server, slash, name = tool.partition("/")
    if slash:
        return (f"mcp__{_NOT_OF_NAMES.sub('_', server)}__{name}",)
    return _LISTED.get(tool.casefold(), (_TOOLS.get(tool, tool),))


def _spawn(tool: str, given: dict[str, object]) -> Spawn | None:
    if tool == AGENT:
        return spawn_of(tool, given, "agent_type", "prompt")
    return Spawn(tool, many=True) if tool == "Skill" else None


def _translated(tool: str, given: dict[str, object]) -> dict[str, object]:
    """
    Return arguments under the names that the catalog of Claude Code has for them.

    An argument that stands there under both names is ambiguous, and refuses.
    """
    names = _ARGUMENTS.get(tool)
    if names is None:
        return given
    translated: dict[str, object] = {}
    for key, value in given.items():
        to = names.get(key, key)
        if to in translated:
            raise InputError(f"the call has `{to}` twice")
        translated[to] = value
    return translated
