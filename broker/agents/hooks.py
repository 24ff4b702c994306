"""
What the hooks of all agents share: a call as a payload tells it, and how it is answered.

Decided here: the order in which a payload is read, judged and answered, and that an allow says
nothing, so that the agent's own permission rules still apply. Not decided here: how an agent
spells a payload or a refusal (its own room), and whether the call passes (``broker.session``).

Rules a maintainer keeps: fields that are not known are ignored, fields that are needed and
absent refuse; never answer ``allow`` or ``ask``; one JSON object or nothing; the actor comes
from the payload's own fields and never from a tool's arguments.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from broker.calls import Refusal
from broker.errors import InputError
from broker.service.protocol import HookRefusal, write_object
from broker.session import MAIN, Session
from broker.sessions.records import wellformed

BEFORE: Final = "PreToolUse"
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class HookCall:
    """
    A tool call as a payload tells it.

    ``event`` is the hook's event as the agent names it. Without a ``tool`` there is no call: the
    event only shows that the hooks are alive.
    """

    event: str
    tool: str = ""
    arguments: object = None
    call_id: str = ""
    cwd: str = ""
    server: str | None = None
    actor: str = MAIN


class Dialect(Protocol):
    """How one agent spells what it asks, and what it takes for a refusal."""

    def read(self, payload: bytes) -> HookCall:
        """
        Read what the agent wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        ...

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal that this agent takes for one, at this event."""
        ...


class AgentHook:
    """
    The hook of one run. ``started`` is set when the agent first calls it.
    """

    def __init__(self, dialect: Dialect, event: str = BEFORE) -> None:
        self.started = threading.Event()
        self._dialect = dialect
        self._event = event

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """
        Decide the call in a payload: None says nothing, and leaves it to the agent's own rules.

        Raises:
            InputError: the payload cannot be read; the caller refuses.
        """
        call = self._dialect.read(payload)
        self.started.set()
        if not call.tool:
            return None
        decision = session.decide(
            call.tool,
            call.arguments,
            call_id=call.call_id,
            server=call.server,
            actor=call.actor,
            cwd=call.cwd or None,
        )
        if decision.refusal is None:
            return None
        return self._dialect.deny(call.event, explained(decision.refusal))

    def refusal(self, reason: str) -> HookRefusal:
        """Return a refusal for a call that could not be read or decided."""
        text = f"refused: {reason}; do not work around this; ask the person"
        return self._dialect.deny(self._event, text)


def explained(refusal: Refusal) -> str:
    """
    Return a refusal in words for the model: the caveat, the value, and what is allowed instead.

    >>> explained(Refusal("tools", "Bash", "tool `Bash` is not in tools: Read"))
    'refused by `tools` (Bash): tool `Bash` is not in tools: Read'
    """
    value = f" ({refusal.value[:200]})" if refusal.value else ""
    return f"refused by `{refusal.caveat}`{value}: {refusal.reason}"


def denied(event: str, reason: str) -> HookRefusal:
    """
    Return the refusal that Claude Code and its relatives read before a tool call.

    Claude Code, Codex, Qwen Code and Copilot CLI (under the event names of Claude Code) take
    this one object, with a reason that is not empty and no other field.
    """
    answer: dict[str, object] = {
        "hookSpecificOutput": {
            "hookEventName": event,
            "permissionDecision": "deny",
            "permissionDecisionReason": wellformed(reason),
        }
    }
    return HookRefusal(0, write_object(answer) + b"\n", b"")


def text_of(found: dict[str, object], name: str) -> str:
    """
    Return a field that must be there and hold text.

    Raises:
        InputError: it is missing, empty, or no text.
    """
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"the hook's payload has no `{name}`")
    return value


def event_of(found: dict[str, object], held: Collection[str]) -> str:
    """
    Return the event of a payload, which must be one that the broker is set before.

    Raises:
        InputError: it is missing, or another.
    """
    event = text_of(found, "hook_event_name")
    if event not in held:
        raise InputError(f"the broker does not answer the event `{event}`")
    return event


def arguments_of(given: object) -> dict[str, object]:
    """
    Return the arguments of a payload's call, which must be an object.

    Raises:
        InputError: they are missing, or of another kind.
    """
    if not isinstance(given, dict):
        raise InputError("the hook's payload has no `tool_input`")
    return given


def server_of(name: object, tool: str) -> str | None:
    """
    Return an MCP server's name as it stands in the tool's name, when both agree.

    A name that does not agree leaves the server unknown, and then only exact patterns match.

    Raises:
        InputError: it is no name.

    >>> server_of("my server", "mcp__my_server__read"), server_of("evil", "mcp__fs__read")
    ('my_server', None)
    """
    if not isinstance(name, str) or not name:
        raise InputError("the hook's payload names an MCP server without a name")
    spelled = spelled_server(name)
    return spelled if tool.startswith(f"mcp__{spelled}__") else None


def spelled_server(name: str) -> str:
    """
    Return an MCP server's name as agents spell it in the names of its tools.

    >>> spelled_server("my server")
    'my_server'
    """
    return _NOT_OF_NAMES.sub("_", name)


def actor_of(agent: object, kind: object) -> str:
    """
    Return the actor of a call by the id and the type of a subagent; no id is the main agent.

    Raises:
        InputError: an id that cannot be told from another's.

    >>> actor_of(None, "x"), actor_of("a1", "reviewer"), actor_of("a1", None)
    ('main', 'agent:reviewer:a1', 'agent:unknown:a1')
    """
    if agent is None:
        return MAIN
    if not isinstance(agent, str) or not agent:
        raise InputError("the hook's payload has no `agent_id`")
    if ":" in agent:
        # It would read as another agent's type, and might miss the ticket kept for its own.
        raise InputError("the hook's payload has an `agent_id` with a colon")
    return f"agent:{kind if isinstance(kind, str) and kind else 'unknown'}:{agent}"
