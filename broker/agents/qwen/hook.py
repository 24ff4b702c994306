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

Rule a maintainer keeps: a name that is translated to is taken from nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.agents.hooks import BEFORE, HookCall, actor_of, arguments_of, denied, event_of, text_of
from broker.errors import InputError
from broker.service.protocol import HookRefusal, read_object

NAME: Final = "qwen-code"
STARTS: Final = "SessionStart"
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
        self._kinds: dict[str, str] = {}  # the ids that agents will have, by what started them

    def read(self, payload: bytes) -> HookCall:
        """
        Read what Qwen Code wrote to its hook.

        Raises:
            InputError: not a payload of an event that is held, or a field is missing.
        """
        found = read_object(payload)
        event = event_of(found, (STARTS, BEFORE))
        if event == STARTS:
            return HookCall(event)
        name, given = text_of(found, "tool_name"), arguments_of(found.get("tool_input"))
        if name in _TAKEN:
            raise InputError(f"Qwen Code has no tool `{name[:80]}` of its own")
        tool, call = TOOLS.get(name, name), text_of(found, "tool_call_id")
        if tool == AGENT:
            tool = self._agent(given, call)
        agent = found.get("agent_id")
        return HookCall(
            event,
            tool,
            given,
            call,
            text_of(found, "cwd"),
            None,
            actor_of(agent, self._kinds.get(agent) if isinstance(agent, str) else None),
        )

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
        self._kinds[f"{kind}-{call}"] = kind
        return AGENT
