"""
Claude Code's own hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor. Not decided here: what is answered
(``broker.agents.hooks``), and how the hook gets into a run (``broker.agents.claude.launch``).

Held to: ``PreToolUse`` before every tool call, and ``PreSkillShellCommand`` before a command that
a skill's text runs by itself, which is judged like any other ``Bash`` call. ``SessionStart``
carries no call; it shows that the hooks are alive.
"""

from __future__ import annotations

from typing import Final

from broker.agents.hooks import (
    BEFORE,
    HookCall,
    actor_of,
    arguments_of,
    denied,
    event_of,
    server_of,
    text_of,
)
from broker.service.protocol import HookRefusal, read_object
from broker.sessions.records import wellformed

NAME: Final = "claude-code"
CALLS: Final = frozenset((BEFORE, "PreSkillShellCommand"))
STARTS: Final = "SessionStart"


class ClaudeDialect:
    """
    How Claude Code spells what it asks.

    >>> ClaudeDialect().read(b'{"hook_event_name":"SessionStart","source":"startup"}').event
    'SessionStart'
    """

    def read(self, payload: bytes) -> HookCall:
        """
        Read what Claude Code wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        event = event_of(found, (STARTS, *CALLS))
        if event == STARTS:
            return HookCall(event)
        tool = text_of(found, "tool_name")
        return HookCall(
            event,
            tool,
            arguments_of(found.get("tool_input")),
            text_of(found, "tool_use_id"),
            text_of(found, "cwd"),
            _server(found, tool),
            actor_of(found.get("agent_id"), found.get("agent_type")),
        )

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal: an object before a tool call, exit code 2 before a skill's command."""
        if event == BEFORE:
            return denied(event, reason)
        return HookRefusal(2, b"", wellformed(reason).encode() + b"\n")


def _server(found: dict[str, object], tool: str) -> str | None:
    server = found.get("mcp_server")
    if server is None:
        return None
    return server_of(server.get("name") if isinstance(server, dict) else None, tool)
