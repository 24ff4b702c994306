"""
Qwen Code's hook protocol: what its payloads say, and how a refusal is spelled.

Decided here: how a payload becomes a call with an actor, and under which name it is judged. Not
decided here: what is answered (``broker.agents.hooks``), and how the hook gets into a run
(``broker.agents.qwen.launch``).

Held to: ``PreToolUse`` before every tool call, a call behind ``tool_call`` under its real name.
``SessionStart`` carries no call; it shows that the hooks are alive. Its tools are those of Claude
Code under other names, and are judged under the names that a scope already knows: one scope
holds for both. An agent that would run in another process is judged as ``ExternalAgent``, since
no hook sees its calls.

A subagent's id is made of its kind and the id of the call that started it, so each is known by
its call. ``PostToolUse`` and ``PostToolUseFailure`` tell how a call ended, ``SubagentStop`` that a
subagent did.

Rule a maintainer keeps: a name that is translated to is taken from nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from broker.agents.children import Spawn
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
from broker.errors import InputError
from broker.service.protocol import HookRefusal, read_object

NAME: Final = "qwen-code"
STARTS: Final = "SessionStart"
OVER: Final = "SubagentStop"
AFTER: Final = "PostToolUse"
FAILED: Final = "PostToolUseFailure"
EXTERNAL: Final = "ExternalAgent"
AGENT: Final = "Agent"

# Qwen Code's own name of a tool, and the name under which it is judged.
TOOLS: Final = {
    "agent": AGENT,
    "ask_user_question": "AskUserQuestion",
    "cron_create": "CronCreate",
    "cron_delete": "CronDelete",
    "cron_list": "CronList",
    "edit": "Edit",
    "enter_plan_mode": "EnterPlanMode",
    "enter_worktree": "EnterWorktree",
    "exit_plan_mode": "ExitPlanMode",
    "exit_worktree": "ExitWorktree",
    "glob": "Glob",
    "grep_search": "Grep",
    "list_agents": "ListAgents",
    "list_directory": "LS",
    "lsp": "LSP",
    "monitor": "Monitor",
    "notebook_edit": "NotebookEdit",
    "read_file": "Read",
    "read_mcp_resource": "ReadMcpResourceTool",
    "report_findings": "ReportFindings",
    "run_shell_command": "Bash",
    "send_message": "SendMessage",
    "skill": "Skill",
    "structured_output": "StructuredOutput",
    "task_create": "TaskCreate",
    "task_list": "TaskList",
    "task_stop": "TaskStop",
    "task_update": "TaskUpdate",
    "todo_write": "TodoWrite",
    "tool_search": "ToolSearch",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "workflow": "Workflow",
    "write_file": "Write",
}
_TAKEN: Final = frozenset((*TOOLS.values(), EXTERNAL))

# Agents that run inside the process, and those that are known not to.
WITHIN: Final = frozenset(
    ("general-purpose", "Explore", "statusline-setup", "review-agent", "fork")
)
OUTSIDE: Final = frozenset(("claude-code", "codex"))
_DEFAULT: Final = "general-purpose"
_MAY_SPAWN: Final = frozenset(("Skill", "Workflow"))
# What a person sees of a tool, where that is more than its name in another case.
_SHOWN: Final = {
    "ListFiles": "list_directory",
    "Shell": "run_shell_command",
    "TodoList": "todo_write",
    "Grep": "grep_search",
} | {"".join(word.title() for word in name.split("_")): name for name in TOOLS}


class QwenDialect:
    """
    How Qwen Code spells what it asks.

    >>> QwenDialect().read(b'{"hook_event_name":"SessionStart","source":"startup"}').event
    'SessionStart'
    """

    def __init__(self, defined: Callable[[str], bool] = lambda kind: False) -> None:
        """
        Begin a run.

        Args:
            defined: whether a file defines an agent of that name, to run inside the process.
        """
        self._defined = defined
        self._started: dict[str, tuple[str, str]] = {}  # the ids that agents will have: kind, call

    def read(self, payload: bytes) -> HookCall:
        """
        Read what Qwen Code wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        event = event_of(found, (STARTS, BEFORE, OVER, AFTER, FAILED))
        if event == STARTS:
            return HookCall(event)
        agent = found.get("agent_id")
        # An id that no call explains is no id of a call either.
        kind, cause = self._started.get(str(agent), ("", str(agent)))
        caller = caller_of(agent, kind, call=cause)
        if event == OVER:
            text_of(found, "agent_id")
            return HookCall(event, news=replace(caller, what="ended"))
        name, call = text_of(found, "tool_name"), text_of(found, "tool_call_id")
        if event in (AFTER, FAILED):
            output = found.get("tool_response" if event == AFTER else "error")
            return HookCall(event, ended=Outcome(call, event == AFTER, output))
        given = arguments_of(found.get("tool_input"))
        if name in _TAKEN:
            raise InputError(f"Qwen Code has no tool `{name[:80]}` of its own")
        tool = TOOLS.get(name, name)
        if tool == AGENT:
            tool = self._agent(given, call)
        actor = actor_of(agent, kind)
        spawn = _spawn(tool, given)
        return HookCall(event, tool, given, call, text_of(found, "cwd"), None, actor, caller, spawn)

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; its reason is what the model reads."""
        return denied(event, reason)

    def _agent(self, given: dict[str, object], call: str) -> str:
        """Return under which name the start of an agent is judged, and remember its id."""
        kind = given.get("subagent_type") or _DEFAULT
        if not isinstance(kind, str) or kind.casefold() in OUTSIDE:
            return EXTERNAL
        if kind not in WITHIN and not self._defined(kind):
            return EXTERNAL
        self._started[f"{kind}-{call}"] = (kind, call)
        return AGENT


def spelled(tool: str) -> tuple[str, ...]:
    """
    Return the pattern of a tool as a definition names it: by its name, or as the person sees it.

    >>> spelled("read_file"), spelled("ReadFile"), spelled("mcp__notes__look")
    (('Read',), ('Read',), ('mcp__notes__look',))
    """
    name = _SHOWN.get(tool, tool)
    return (TOOLS.get(name, name),)


def _spawn(tool: str, given: dict[str, object]) -> Spawn | None:
    if tool == AGENT:
        return spawn_of(tool, {"subagent_type": _DEFAULT, **given}, "subagent_type", "prompt")
    return Spawn(tool, many=True) if tool in _MAY_SPAWN else None
