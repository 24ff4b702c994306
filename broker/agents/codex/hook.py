"""
Codex's hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor. Not decided here: what is answered
(``broker.agents.hooks``), and how the hook gets into a run (``broker.agents.codex.launch``).

Held to: ``PreToolUse`` before every tool call, the calls of its JavaScript included.
``SessionStart`` carries no call; it shows that the hooks are alive. A shell's command comes as
``Bash`` and a patch as ``apply_patch``, both as ``command``; a tool of a namespace comes with
both names glued together, and an MCP tool as ``mcp__SERVER__TOOL`` without the server beside it.

``PostToolUse`` tells the answer of a call that ran; one that failed by itself has one too.

A subagent's payloads have its id. ``SubagentStart`` gives it first, without a word of the call
that started it; the answer of that call names it, and is told twice: once by a hook that Codex
waits for, so that nobody is taken for another, and once by the hook of all calls, which it does
not wait for. Some models are given a task that is encrypted: whatever it asks for is not seen.
"""

from __future__ import annotations

import json
from contextlib import suppress
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
    spawn_of,
    text_of,
)
from broker.service.protocol import HookRefusal, read_object

NAME: Final = "codex"
STARTS: Final = "SessionStart"
BEGUN: Final = "SubagentStart"
OVER: Final = "SubagentStop"
AFTER: Final = "PostToolUse"
SPAWNS: Final = "spawn_agent"  # behind the name of a namespace, or alone
PATCH: Final = "apply_patch"


class CodexDialect:
    """
    How Codex spells what it asks.

    >>> CodexDialect().read(b'{"hook_event_name":"SessionStart","source":"startup"}').event
    'SessionStart'
    """

    def __init__(self) -> None:
        self._told: dict[str, object] = {}  # the calls that started subagents, and whose end came

    def read(self, payload: bytes) -> HookCall:
        """
        Read what Codex wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        event = event_of(found, (STARTS, BEFORE, BEGUN, OVER, AFTER))
        if event == STARTS:
            return HookCall(event)
        caller = caller_of(found.get("agent_id"), found.get("agent_type"))
        if event in (BEGUN, OVER):
            text_of(found, "agent_id")
            return HookCall(
                event, news=replace(caller, what="begun" if event == BEGUN else "ended")
            )
        tool, call = text_of(found, "tool_name"), text_of(found, "tool_use_id")
        if event == AFTER:
            return self._ended(event, tool, call, found.get("tool_response"))
        given = arguments_of(found.get("tool_input"))
        if tool == PATCH and set(given) == {"command"}:
            given = {"patch": given["command"]}  # as every other agent's tool of the name has it
        return HookCall(
            event,
            tool,
            given,
            call,
            text_of(found, "cwd"),
            None,
            actor_of(found.get("agent_id"), found.get("agent_type")),
            caller,
            _spawn(tool, given),
        )

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; Codex takes one without a reason, or with another field, for none."""
        return denied(event, reason)

    def _ended(self, event: str, tool: str, call: str, answer: object) -> HookCall:
        """Return how a call ended, and whom it started, if it is one of those that start some."""
        ended = Outcome(call, True, answer)
        if not tool.endswith(SPAWNS):
            return HookCall(event, ended=ended)
        found = answer
        if isinstance(answer, str):
            with suppress(ValueError, RecursionError):
                found = json.loads(answer)
        agent = found.get("agent_id") if isinstance(found, dict) else None
        news = None
        if isinstance(agent, str) and agent:
            news = News("paired", key_of(agent), call=call)
        once = object()
        first = self._told.setdefault(call, once) is once
        return HookCall(event, news=news, ended=ended if first else None)


def _spawn(tool: str, given: dict[str, object]) -> Spawn | None:
    """Return what a call starts; its task may be one text, or a list of what the subagent sees."""
    if not tool.endswith(SPAWNS):
        return Spawn(tool, many=True) if SPAWNS in tool else None
    items = given.get("items")
    shown = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    texts = [given.get("message"), *(each.get("text") for each in shown)]
    task = "\n".join(text for text in texts if isinstance(text, str))
    return spawn_of(tool, {**given, "message": task}, "agent_type", "message")
