"""
Claude Code's own hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor. Not decided here: what is answered
(``broker.agents.hooks``), and how the hook gets into a run (``broker.agents.claude.launch``).

Held to: ``PreToolUse`` before every tool call, and ``PreSkillShellCommand`` before a command that
a skill's text runs by itself, which is judged like any other ``Bash`` call. ``SessionStart``
carries no call; it shows that the hooks are alive.

Subagents: a call of ``Agent`` starts one, and ``SubagentStart`` comes next, with its id and no
word of the call. The answer of the call names both, and comes at once for a subagent in the
background, and at its end for another. ``Skill`` and ``Workflow`` may start some that no call
names. ``PostToolUse`` and ``PostToolUseFailure`` tell how a call ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from broker.agents.children import News, Spawn, key_of
from broker.agents.hooks import (
    BEFORE,
    HookCall,
    Outcome,
    actor_of,
    arguments_of,
    caller_of,
    denied,
    event_of,
    server_of,
    spawn_of,
    text_of,
)
from broker.service.protocol import HookRefusal, read_object
from broker.sessions.records import wellformed

NAME: Final = "claude-code"
CALLS: Final = frozenset((BEFORE, "PreSkillShellCommand"))
STARTS: Final = "SessionStart"
BEGUN: Final = "SubagentStart"
OVER: Final = "SubagentStop"
AFTER: Final = "PostToolUse"
FAILED: Final = "PostToolUseFailure"
TELLS: Final = (BEGUN, OVER, AFTER, FAILED)
SPAWNS: Final = ("Agent", "Task")
_MAY_SPAWN: Final = frozenset(("Skill", "SlashCommand", "Workflow"))


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
        event = event_of(found, (STARTS, *CALLS, *TELLS))
        if event == STARTS:
            return HookCall(event)
        actor = actor_of(found.get("agent_id"), found.get("agent_type"))
        caller = caller_of(found.get("agent_id"), found.get("agent_type"))
        if event in (BEGUN, OVER):
            text_of(found, "agent_id")
            return HookCall(
                event, news=replace(caller, what="begun" if event == BEGUN else "ended")
            )
        tool, call = text_of(found, "tool_name"), text_of(found, "tool_use_id")
        if event in (AFTER, FAILED):
            return _told(event, tool, call, found)
        given = arguments_of(found.get("tool_input"))
        return HookCall(
            event,
            tool,
            given,
            call,
            text_of(found, "cwd"),
            _server(found, tool),
            actor,
            caller,
            _spawn(tool, given),
        )

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal: an object before a tool call, exit code 2 before a skill's command."""
        if event == BEFORE:
            return denied(event, reason)
        return HookRefusal(2, b"", wellformed(reason).encode() + b"\n")


def _spawn(tool: str, given: dict[str, object]) -> Spawn | None:
    if tool in SPAWNS:
        return spawn_of(tool, given, "subagent_type", "prompt")
    return Spawn(tool, many=True) if tool in _MAY_SPAWN else None


def _told(event: str, tool: str, call: str, found: dict[str, object]) -> HookCall:
    """Return how a call ended, and which subagent came of it."""
    answer = found.get("tool_response" if event == AFTER else "error")
    news = None
    if tool in SPAWNS:
        agent = answer.get("agentId") if isinstance(answer, dict) else None
        if isinstance(agent, str) and agent:
            news = News("paired", key_of(agent), call=call)
        elif event == FAILED:
            news = News("failed", call=call)
    return HookCall(event, news=news, ended=Outcome(call, event == AFTER, answer))


def _server(found: dict[str, object], tool: str) -> str | None:
    server = found.get("mcp_server")
    if server is None:
        return None
    return server_of(server.get("name") if isinstance(server, dict) else None, tool)
