"""
What the hooks of all agents share: a call as a payload tells it, and how it is answered.

Decided here: the order in which a payload is read, judged and answered, and that an allow says
nothing, so that the agent's own permission rules still apply. Not decided here: how an agent
spells a payload or a refusal (its own room), which tickets a subagent is held to
(``broker.agents.children``), and whether the call passes (``broker.session``).

Rules a maintainer keeps: fields that are not known are ignored, fields that are needed and
absent refuse; never answer ``allow`` or ``ask``; one JSON object or nothing; the actor comes
from the payload's own fields and never from a tool's arguments.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from broker.agents.children import Children, Commission, News, Spawn, key_of
from broker.calls import Refusal
from broker.errors import InputError, StoreError
from broker.service.protocol import HookRefusal, write_object
from broker.session import MAIN, Session
from broker.sessions.records import wellformed

BEFORE: Final = "PreToolUse"
MAIN_CALLS: Final = News("begun", MAIN)
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended, as its agent tells it."""

    call_id: str
    ok: bool
    output: object = None


@dataclass(frozen=True, slots=True)
class HookCall:
    """
    A tool call as a payload tells it.

    ``event`` is the hook's event as the agent names it. Without a ``tool`` there is no call: the
    event shows that the hooks are alive, and may hold ``news`` of a subagent, or how a call
    ``ended``. ``caller`` is what is told of who calls, ``spawn`` what a call starts.
    """

    event: str
    tool: str = ""
    arguments: object = None
    call_id: str = ""
    cwd: str = ""
    server: str | None = None
    actor: str = MAIN
    caller: News = MAIN_CALLS
    spawn: Spawn | None = None
    news: News | None = None
    ended: Outcome | None = None


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

    def __init__(
        self, dialect: Dialect, event: str = BEFORE, children: Children | None = None
    ) -> None:
        self.started = threading.Event()
        self._dialect = dialect
        self._event = event
        self._children = children or Children()

    def again(self) -> None:
        """Forget who called so far: what asks from now on is another process."""
        self.started.clear()
        self._children = self._children.anew()

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """
        Decide the call in a payload: None says nothing, and leaves it to the agent's own rules.

        Raises:
            InputError: the payload cannot be read; the caller refuses.
        """
        call = self._dialect.read(payload)
        self.started.set()
        if call.news is not None:
            self._children.hear(call.news)
            session.at_work(self._children.living())
        if call.ended is not None:
            with suppress(StoreError):  # it has run already: nothing is refused any more
                ended = call.ended
                session.result(ended.call_id, ok=ended.ok, output=ended.output)
        if not call.tool:
            return None
        refusal = self._decided(call, session)
        return None if refusal is None else self._dialect.deny(call.event, explained(refusal))

    def _decided(self, call: HookCall, session: Session) -> Refusal | None:
        """Decide a call, and let the subagent start that it asks for."""
        handed = None
        if call.spawn is not None:
            handed = self._children.hand_down(
                call.spawn, call.call_id, call.caller, actor=call.actor, session=session
            )
        decision = session.decide(
            call.tool,
            call.arguments,
            call_id=call.call_id,
            server=call.server,
            actor=call.actor,
            cwd=call.cwd or None,
            among=self._children.held(call.caller),
            veto=handed if isinstance(handed, Refusal) else None,
        )
        if isinstance(handed, Commission) and decision.allowed:
            self._children.begin(handed)
            session.at_work(self._children.living())
        return decision.refusal

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


def caller_of(
    agent: object, kind: object, parent: str | None = None, call: str = "", task: str = ""
) -> News:
    """
    Return what a payload tells of who calls; see ``News``.

    Args:
        agent: the id of a subagent; None for the main agent.
        kind: its kind, where one is told.
        parent: the key of who started it, where that is told.
        call: the call that started it, where its id says so.
        task: what it was told, where its agent says so.

    >>> caller_of(None, None).agent, caller_of("a1", "explore").agent
    ('main', 'id:a1')
    """
    if agent is None:
        return MAIN_CALLS
    named = agent if isinstance(agent, str) else None
    told = kind if isinstance(kind, str) else ""
    return News("begun", key_of(named), told, parent, call, task)


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


def spawn_of(tool: str, given: Mapping[str, object], kind: str, task: str) -> Spawn:
    """
    Return what a call asks for that starts a subagent.

    Args:
        tool: the call's tool.
        given: its arguments; ``scope`` among them is a text, a line for each caveat, or a list.
        kind: the argument that names what kind of subagent it is to be.
        task: the argument that holds its task.

    Raises:
        InputError: an argument is of another kind than the agent would take.

    >>> spawn_of("Agent", {"prompt": "look", "scope": "calls=2"}, "subagent_type", "prompt").scope
    ('calls=2',)
    """
    found = given.get("scope") or []
    lines = found.splitlines() if isinstance(found, str) else found
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise InputError("a subagent's `scope` is a text or a list of texts")
    named, told = given.get(kind) or "", given.get(task) or ""
    if not isinstance(named, str) or not isinstance(told, str):
        raise InputError(f"a subagent's `{kind}` and `{task}` are texts")
    return Spawn(tool, named, told, tuple(line.strip() for line in lines if line.strip()))
