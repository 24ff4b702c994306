"""
Gemini CLI's hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call, and under which names its tools and arguments are
judged. Not decided here: which agent calls (``broker.agents.gemini.nesting``), and what is
answered (``broker.agents.gemini.answers``).

Held to: ``BeforeTool`` before every tool call, of subagents too, with neither a call id nor an
agent in it; ``AfterTool`` with the arguments that the tool really ran with. ``SessionStart`` and
``BeforeAgent`` carry no call, and neither does ``complete_task``, by which a subagent says its
last word to the agent that waits for it. A tool of an MCP server comes with the server beside
it, as ``mcp_context``, and is judged as ``mcp__SERVER__TOOL`` like every other agent's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from broker.agents.hooks import HookCall, arguments_of, event_of, text_of
from broker.errors import InputError
from broker.service.protocol import HookRefusal, read_object, write_object
from broker.sessions.records import wellformed

NAME: Final = "gemini-cli"
BEFORE: Final = "BeforeTool"
AFTER: Final = "AfterTool"
STARTS: Final = "SessionStart"
PROMPTED: Final = "BeforeAgent"
DELEGATES: Final = "invoke_agent"
REPORTS: Final = "complete_task"
FETCHES: Final = "web_fetch"

# Its names of arguments, and those that the catalogs know from every agent.
_RENAMED: Final[Mapping[str, tuple[str, str]]] = {
    "read_file": ("file_path", "path"),
    "write_file": ("file_path", "path"),
    "glob": ("dir_path", "path"),
    "grep_search": ("dir_path", "path"),
    "list_directory": ("dir_path", "path"),
    "run_shell_command": ("dir_path", "directory"),
}
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class GeminiCall(HookCall):
    """
    A call, and what Gemini CLI tells beside it.

    ``given`` are the arguments under the agent's own names, ``fired_ms`` is when it made the
    payload; ``ok`` and ``output`` are how the call ended, after it.
    """

    given: Mapping[str, object] | None = None
    fired_ms: int | None = None
    ok: bool = True
    output: object = None


class GeminiDialect:
    """
    How Gemini CLI spells what it asks.

    >>> GeminiDialect().read(b'{"hook_event_name":"SessionStart","source":"startup"}').event
    'SessionStart'
    """

    def read(self, payload: bytes) -> GeminiCall:
        """
        Read what Gemini CLI wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        event = event_of(found, (STARTS, PROMPTED, BEFORE, AFTER))
        if event in (STARTS, PROMPTED):
            return GeminiCall(event)
        tool, given = text_of(found, "tool_name"), arguments_of(found.get("tool_input"))
        server, name = _named(tool, found.get("mcp_context"))
        if server is None and name == REPORTS:
            return GeminiCall(event)
        told: dict[str, Any] = {}
        if event == AFTER:
            response = found.get("tool_response")
            if not isinstance(response, dict):
                raise InputError("the hook's payload has no `tool_response`")
            told = {"ok": not response.get("error"), "output": response.get("llmContent")}
        return GeminiCall(
            event,
            name,
            given if server is not None else judged(name, given),
            cwd=text_of(found, "cwd"),
            server=server,
            given=given,
            fired_ms=_instant_ms(found.get("timestamp")),
            **told,
        )

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; it reads the same at every event."""
        answer: dict[str, object] = {"decision": "deny", "reason": wellformed(reason)}
        return HookRefusal(0, write_object(answer) + b"\n", b"")


def judged(tool: str, given: Mapping[str, object]) -> dict[str, object]:
    """
    Return the arguments of a tool of its own under the names by which catalogs know them.

    ``web_fetch`` finds its addresses in its prompt, and so does this.

    >>> judged("read_file", {"file_path": "a"}), judged("replace", {"file_path": "a"})
    ({'path': 'a'}, {'file_path': 'a'})
    >>> judged("web_fetch", {"prompt": "sum up https://a.example/x please"})["url"]
    ['https://a.example/x']
    """
    found = dict(given)
    theirs, ours = _RENAMED.get(tool, ("", ""))
    if theirs in found and ours not in found:
        found[ours] = found.pop(theirs)
    prompt = found.get("prompt")
    if tool == FETCHES and isinstance(prompt, str) and "url" not in found:
        found["url"] = [word for word in prompt.split() if "://" in word]
    return found


def _named(tool: str, context: object) -> tuple[str | None, str]:
    """Return the server, if the call is for one, and the name by which the tool is judged."""
    if context is None:
        if tool.startswith("mcp__"):
            # It would be taken for the tool of a server that this call does not go to.
            raise InputError("the hook's payload has an MCP tool without `mcp_context`")
        return None, tool
    if not isinstance(context, dict):
        raise InputError("the hook's payload has an `mcp_context` that is no object")
    server = _NOT_OF_NAMES.sub("_", text_of(context, "server_name"))
    if "__" in server or server.startswith("_") or server.endswith("_"):
        raise InputError("the name of this MCP server could be taken for another's: rename it")
    return server, f"mcp__{server}__{text_of(context, 'tool_name')}"


def _instant_ms(text: object) -> int | None:
    """Return when the payload was made, or None where it does not say so readably."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else int(at.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
