"""
Claude Code's own hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor, and that an allow says nothing, so that
Claude Code's own permission rules still apply. Not decided here: whether the call passes, and how
the hook gets into a run (``broker.agents.claude_launch``).

Held to: ``PreToolUse`` before every tool call, and ``PreSkillShellCommand`` before a command that
a skill's text runs by itself, which is judged like any other ``Bash`` call. ``SessionStart``
carries no call; it shows that the hooks are alive.

Rules a maintainer keeps: fields that are not known are ignored, fields that are needed and
absent refuse; never answer ``allow`` or ``ask``; one JSON object or nothing; the actor comes
from the payload's own fields and never from a tool's arguments.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Final

from broker.calls import Refusal
from broker.errors import InputError
from broker.service.protocol import HookRefusal, read_object, write_object
from broker.session import MAIN, Session
from broker.sessions.records import wellformed

NAME: Final = "claude-code"
CALLS: Final = frozenset(("PreToolUse", "PreSkillShellCommand"))
STARTS: Final = "SessionStart"

_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class HookCall:
    """A tool call as a payload tells it. ``event`` is the hook's event; a start has no tool."""

    event: str
    tool: str = ""
    arguments: object = None
    call_id: str = ""
    cwd: str = ""
    server: str | None = None
    actor: str = MAIN


def read_payload(payload: bytes) -> HookCall:
    """
    Read what Claude Code wrote to its hook.

    >>> read_payload(b'{"hook_event_name":"SessionStart","source":"startup"}').event
    'SessionStart'

    Raises:
        InputError: not a payload of an event that is held, or a field is missing.
    """
    found = read_object(payload)
    event = _text(found, "hook_event_name")
    if event == STARTS:
        return HookCall(event)
    if event not in CALLS:
        raise InputError(f"the broker does not answer the event `{event}`")
    if not isinstance(found.get("tool_input"), dict):
        raise InputError("the hook's payload has no `tool_input`")
    tool = _text(found, "tool_name")
    return HookCall(
        event,
        tool,
        found["tool_input"],
        _text(found, "tool_use_id"),
        _text(found, "cwd"),
        _server(found, tool),
        _actor(found),
    )


class ClaudeCode:
    """
    The hook of one run. ``started`` is set when the agent first calls it.
    """

    def __init__(self) -> None:
        self.started = threading.Event()

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """
        Decide the call in a payload: None says nothing, and leaves it to the agent's own rules.

        Raises:
            InputError: the payload cannot be read; the caller refuses.
        """
        call = read_payload(payload)
        self.started.set()
        if call.event == STARTS:
            return None
        decision = session.decide(
            call.tool,
            call.arguments,
            call_id=call.call_id,
            server=call.server,
            actor=call.actor,
            cwd=call.cwd,
        )
        if decision.refusal is None:
            return None
        return _deny(call.event, explained(decision.refusal))

    def refusal(self, reason: str) -> HookRefusal:
        """Return a refusal for a call that could not be read or decided."""
        return _deny("PreToolUse", f"refused: {reason}; do not work around this; ask the person")


def explained(refusal: Refusal) -> str:
    """
    Return a refusal in words for the model: the caveat, the value, and what is allowed instead.

    >>> explained(Refusal("tools", "Bash", "tool `Bash` is not in tools: Read"))
    'refused by `tools` (Bash): tool `Bash` is not in tools: Read'
    """
    value = f" ({refusal.value[:200]})" if refusal.value else ""
    return f"refused by `{refusal.caveat}`{value}: {refusal.reason}"


def _deny(event: str, reason: str) -> HookRefusal:
    if event == "PreToolUse":
        answer: dict[str, object] = {
            "hookSpecificOutput": {
                "hookEventName": event,
                "permissionDecision": "deny",
                "permissionDecisionReason": wellformed(reason),
            }
        }
        return HookRefusal(0, write_object(answer) + b"\n", b"")
    return HookRefusal(2, b"", wellformed(reason).encode() + b"\n")


def _server(found: dict[str, object], tool: str) -> str | None:
    """
    Return the MCP server's name as it stands in the tool's name, when both agree.

    A name that does not agree leaves the server unknown, and then only exact patterns match.
    """
    server = found.get("mcp_server")
    if server is None:
        return None
    name = server.get("name") if isinstance(server, dict) else None
    if not isinstance(name, str) or not name:
        raise InputError("the hook's payload has an `mcp_server` without a name")
    spelled = _NOT_OF_NAMES.sub("_", name)
    return spelled if tool.startswith(f"mcp__{spelled}__") else None


def _actor(found: dict[str, object]) -> str:
    if found.get("agent_id") is None:
        return MAIN
    agent = _text(found, "agent_id")
    if ":" in agent:
        # It would read as another agent's type, and might miss the ticket kept for its own.
        raise InputError("the hook's payload has an `agent_id` with a colon")
    kind = found.get("agent_type")
    return f"agent:{kind if isinstance(kind, str) and kind else 'unknown'}:{agent}"


def _text(found: dict[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"the hook's payload has no `{name}`")
    return value
