"""
Codex's hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor. Not decided here: what is answered
(``broker.agents.hooks``), and how the hook gets into a run (``broker.agents.codex.launch``).

Held to: ``PreToolUse`` before every tool call, the calls of its JavaScript included.
``SessionStart`` carries no call; it shows that the hooks are alive. A shell's command comes as
``Bash`` and a patch as ``apply_patch``, both as ``command``; a tool of a namespace comes with
both names glued together, and an MCP tool as ``mcp__SERVER__TOOL`` without the server beside it.
"""

from __future__ import annotations

from typing import Final

from broker.agents.hooks import BEFORE, HookCall, actor_of, arguments_of, denied, event_of, text_of
from broker.service.protocol import HookRefusal, read_object

NAME: Final = "codex"
STARTS: Final = "SessionStart"
PATCH: Final = "apply_patch"


class CodexDialect:
    """
    How Codex spells what it asks.

    >>> CodexDialect().read(b'{"hook_event_name":"SessionStart","source":"startup"}').event
    'SessionStart'
    """

    def read(self, payload: bytes) -> HookCall:
        """
        Read what Codex wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        event = event_of(found, (STARTS, BEFORE))
        if event == STARTS:
            return HookCall(event)
        tool, given = text_of(found, "tool_name"), arguments_of(found.get("tool_input"))
        if tool == PATCH and set(given) == {"command"}:
            given = {"patch": given["command"]}  # as every other agent's tool of the name has it
        return HookCall(
            event,
            tool,
            given,
            text_of(found, "tool_use_id"),
            text_of(found, "cwd"),
            None,
            actor_of(found.get("agent_id"), found.get("agent_type")),
        )

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; Codex takes one without a reason, or with another field, for none."""
        return denied(event, reason)
