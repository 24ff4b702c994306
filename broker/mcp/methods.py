"""
Which methods of MCP act, and on what.

Decided here: for every method, whether it can act at all, and which call of a tool it counts as.
Not decided here: whether that call passes (the session), and what happens to an answer
(``broker.mcp.gateway``).

A method acts when its receiver may do something in the world, or show something to somebody,
because of it. What is listed here as harmless cannot; ``tools/call`` is a call of its tool;
**everything else is a call of a tool that bears the method's name**, whose effects nobody can
see: ``resources/read``, ``prompts/get``, ``completion/complete``, ``sampling/createMessage``,
``elicitation/create``, and every method that is not known here, so that what a later version
adds, or a server makes up, passes where a person left that server alone, or named the method.

Rule a maintainer keeps: a method is listed as harmless only when no receiver can act on it, and
for a notification to a client also when no client shows its content to a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.mcp.messages import Message

CALL: Final = "tools/call"
LISTEN: Final = "subscriptions/listen"

# ── from a client to a server ──

LISTS: Final[Mapping[str, tuple[str, str]]] = {
    # The method, the key of its result, and the tool that each item would be asked for by;
    # empty: the item's own name.
    "tools/list": ("tools", ""),
    "resources/list": ("resources", "resources/read"),
    "resources/templates/list": ("resourceTemplates", "resources/read"),
    "prompts/list": ("prompts", "prompts/get"),
}
ASKED_HARMLESSLY: Final = frozenset(
    (
        *LISTS,
        *("initialize", "server/discover", "ping", "logging/setLevel", "resources/unsubscribe"),
    )
)
OF_TASKS: Final = frozenset(("tasks/get", "tasks/result", "tasks/update", "tasks/cancel"))
TOLD_HARMLESSLY: Final = frozenset(
    (
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/tasks/status",
    )
)

# ── from a server to its client ──

ASKED_BACK_HARMLESSLY: Final = frozenset(
    ("ping", "roots/list", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel")
)
TOLD_BACK_HARMLESSLY: Final = frozenset(
    (
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/prompts/list_changed",
        "notifications/elicitation/complete",
        "notifications/subscriptions/acknowledged",
        "notifications/tasks/status",
    )
)

# Where a result, or news of a task, puts the questions that a server has for its client.
QUESTIONS: Final = "inputRequests"
_BESIDE: Final = frozenset(("_meta", "task"))


def full_tool(server: str, tool: str) -> str:
    """
    Return the whole name of a server's tool.

    >>> full_tool("github", "get_issue")
    'mcp__github__get_issue'
    """
    return f"mcp__{server}__{tool}"


def harmless(message: Message) -> bool:
    """
    Whether a client's request cannot act; hearing of changed lists cannot, watching a resource can.

    >>> from broker.mcp.messages import read_message
    >>> said = b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"x":["a:b"]}}'
    >>> harmless(read_message(said))
    False
    """
    if message.method != LISTEN:
        return message.method in ASKED_HARMLESSLY
    wanted = message.params.get("notifications")
    alone = message.params.keys() <= {"notifications", "_meta"}
    return alone and isinstance(wanted, dict) and all(isinstance(v, bool) for v in wanted.values())


def called(message: Message, server: str) -> tuple[object, object]:
    """
    Return the tool that a message calls, and the arguments, as the session is asked for them.

    >>> from broker.mcp.messages import read_message
    >>> said = b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}'
    >>> called(read_message(said), "notes")
    ('mcp__notes__resources/read', {'uri': 'a:b'})
    """
    params = message.params
    if message.method == CALL:
        name = params.get("name")
        tool = full_tool(server, name) if isinstance(name, str) and name else None
        return tool, params.get("arguments")
    held = {key: value for key, value in params.items() if key not in _BESIDE}
    return full_tool(server, message.method), held
