"""
How each real agent spells what the tests of all agents need: one ``Tongue`` for each.

What an agent has no tool for is None, with the reason in ``lacks``; a test that needs it is
skipped by that reason, which the run counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.loopback.script import Say, Text, Turn, Use
from tests.agents.stage import Call, Stage, installed
from tests.agents.stages import (
    NOTES_STARTED,
    ClaudeStage,
    ClineStage,
    CodexStage,
    CopilotStage,
    GeminiStage,
    OpencodeStage,
    PiStage,
    QwenStage,
)

Server = Mapping[str, object]
PATCH = "*** Begin Patch\n*** {} File: {}\n{}\n*** End Patch\n"


@dataclass(frozen=True)
class Tongue:
    """
    How one agent spells a call.

    ``names`` are its tools in a scope. ``edit`` changes ``a = 1`` in a file to ``a = 2``. ``put``
    configures the server ``notes``, whose tool is called ``look`` in a call. ``waits`` is what the
    main agent does while its subagents run, where it does not wait by itself; ``report`` is how a
    subagent ends where talking is not enough; ``options`` let it work in other folders too;
    ``starts_s`` is how long its first call may take; ``reads_first`` says that by itself it changes
    no file that it has not read.
    """

    name: str
    made: Callable[[Path, str], Stage]
    names: Mapping[str, str]
    read: Callable[[str], Call]
    write: Callable[[str], Call]
    edit: Callable[[str], Call]
    shell: Callable[[str], Call]
    fetch: Callable[[str], Call] | None = None
    put: Callable[[Stage, Server], Path] | None = None
    server_tool: str = ""
    spawn: Callable[..., Call] | None = None
    waits: Call | None = None
    report: Turn = field(default_factory=lambda: Say("ok"))
    options: Callable[[str], Sequence[str]] = lambda folder: ()
    starts_s: int = 25
    reads_first: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict)

    def on(self, root: Path) -> Stage:
        """Return a stage with this agent on it, or skip the test."""
        return self.made(root, installed(f"BROKER_{self.name.upper()}", self.name))

    def needs(self, what: str) -> None:
        """Skip a test that needs what this agent does not have."""
        if what in self.lacks:
            pytest.skip(self.lacks[what])

    def scope(self, *kinds: str, also: Sequence[str] = ()) -> str:
        """Return the caveat that names these tools, and what the agent needs beside them."""
        return f"tools={','.join([*(self.names[kind] for kind in kinds), *also])}"

    def look(self, tool: str = "look") -> Call:
        """Return a call of a tool of the server ``notes``."""
        return self.server_tool.format(tool), {}

    def main(self, *tasks: str) -> list[Turn]:
        """Return the turns of a main agent that starts these subagents at once."""
        assert self.spawn is not None
        turns: list[Turn] = [Use([self.spawn(task) for task in tasks])]
        return turns if self.waits is None else [*turns, Use([self.waits])]

    def spawning(self, *kinds: str) -> str:
        """Return the caveat for a run with subagents."""
        waits = () if self.waits is None else ("shell",)
        more = ("team_spawn_teammate", "team_run_task") if self.name == "cline" else ()
        return self.scope(*kinds, "spawn", *waits, also=more)


def _patch(what: str, path: str, lines: str) -> tuple[str, Text]:
    return "apply_patch", Text(PATCH.format(what, path, lines))


def _claude_spawn(task: str, kind: str = "general-purpose") -> Call:
    given = {"description": "x", "prompt": task, "subagent_type": kind}
    return "Agent", {**given, "run_in_background": False}


def _qwen_spawn(task: str, kind: str = "general-purpose") -> Call:
    given = {"description": "x", "prompt": task, "subagent_type": kind}
    return "agent", {**given, "run_in_background": False}


def _copilot_spawn(task: str, kind: str = "general-purpose") -> Call:
    given = {"description": "x", "prompt": task, "agent_type": kind}
    return "task", {**given, "name": "helper", "mode": "sync"}


def _in_json(place: str, before: Mapping[str, object], **more: object) -> Callable[..., Path]:
    """Return what writes the server into a JSON file of the stage."""

    def put(stage: Stage, server: Server) -> Path:
        entry = {**server, **more}
        return stage.write(place, {**before, "mcpServers": {"notes": entry}})

    return put


def _in_copilot(stage: Stage, server: Server) -> Path:
    kind = {} if "type" in server else {"type": "local"}
    entry = {**server, **kind, "tools": ["*"]}
    return stage.write("user/.copilot/mcp-config.json", {"mcpServers": {"notes": entry}})


def _in_codex(stage: Stage, server: Server) -> Path:
    rows = [f"{key} = {json.dumps(value)}" for key, value in server.items() if key != "headers"]
    approved = 'default_tools_approval_mode = "approve"'
    text = "\n".join(["[mcp_servers.notes]", approved, *rows, ""])
    return stage.write("user/.codex/config.toml", text)


def _in_opencode(stage: Stage, server: Server) -> Path:
    assert isinstance(stage, OpencodeStage)
    if "url" in server:
        entry = {**server, "type": "remote"}
    else:
        entry = {"type": "local", "command": [server["command"], *_list(server["args"])]}
    stage.settings["mcp"] = {"notes": entry}
    return stage.write("unused.json", "")


def _in_cline(stage: Stage, server: Server) -> Path:
    kind = "streamableHttp" if "url" in server else "stdio"
    entry = {"transport": {**server, "type": kind}}
    place = "user/.cline/data/settings/cline_mcp_settings.json"
    return stage.write(place, {"mcpServers": {"notes": entry}})


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


CLAUDE = Tongue(
    "claude",
    ClaudeStage,
    {
        "read": "Read",
        "write": "Write",
        "edit": "Edit",
        "shell": "Bash",
        "fetch": "WebFetch",
        "spawn": "Agent",
    },
    read=lambda path: ("Read", {"file_path": path}),
    write=lambda path: ("Write", {"file_path": path, "content": "x\n"}),
    edit=lambda path: (
        "Edit",
        {"file_path": path, "old_string": "a = 1", "new_string": "a = 2"},
    ),
    shell=lambda command: ("Bash", {"command": command, "description": "x"}),
    fetch=lambda url: ("WebFetch", {"url": url, "prompt": "x"}),
    put=_in_json("user/.claude.json", {}),
    server_tool="mcp__notes__{}",
    spawn=_claude_spawn,
    reads_first=True,
)
QWEN = Tongue(
    "qwen",
    QwenStage,
    CLAUDE.names,
    read=lambda path: ("read_file", {"file_path": path}),
    write=lambda path: ("write_file", {"file_path": path, "content": "x\n"}),
    edit=lambda path: (
        "edit",
        {"file_path": path, "old_string": "a = 1", "new_string": "a = 2"},
    ),
    shell=lambda command: (
        "run_shell_command",
        {"command": command, "description": "x", "is_background": False},
    ),
    fetch=lambda url: (
        "tool_call",
        {"name": "web_fetch", "arguments": {"url": url, "prompt": "x"}},
    ),
    put=_in_json("user/.qwen/settings.json", QwenStage.SETTINGS, trust=True),
    server_tool="mcp__notes__{}",
    spawn=_qwen_spawn,
)
COPILOT = Tongue(
    "copilot",
    CopilotStage,
    CLAUDE.names,
    read=lambda path: ("view", {"path": path}),
    write=lambda path: ("create", {"path": path, "file_text": "x\n"}),
    edit=lambda path: ("edit", {"path": path, "old_str": "a = 1", "new_str": "a = 2"}),
    shell=lambda command: ("bash", {"command": command, "description": "x"}),
    fetch=lambda url: ("web_fetch", {"url": url}),
    put=_in_copilot,
    server_tool="notes-{}",
    spawn=_copilot_spawn,
)
CODEX = Tongue(
    "codex",
    CodexStage,
    {
        "read": "view_image",
        "write": "apply_patch",
        "edit": "apply_patch",
        "shell": "Bash",
        "spawn": "spawn_agent",
    },
    read=lambda path: ("view_image", {"path": path}),
    write=lambda path: _patch("Add", path, "+x"),
    edit=lambda path: _patch("Update", path, "@@\n-a = 1\n+a = 2"),
    shell=lambda command: ("exec_command", {"cmd": command}),
    put=_in_codex,
    server_tool="mcp__notes/{}",
    spawn=lambda task: ("multi_agent_v1/spawn_agent", {"message": task}),
    waits=("exec_command", {"cmd": "sleep 5"}),
    lacks={
        "fetch": "Codex has no tool that fetches",
        "addresses": "Codex takes no gateway in the place of an address",
    },
)
GEMINI = Tongue(
    "gemini",
    GeminiStage,
    {
        "read": "read_file",
        "write": "write_file",
        "edit": "replace",
        "shell": "run_shell_command",
        "fetch": "web_fetch",
        "spawn": "invoke_agent",
    },
    read=lambda path: ("read_file", {"file_path": path}),
    write=lambda path: ("write_file", {"file_path": path, "content": "x\n"}),
    edit=lambda path: (
        "replace",
        {"file_path": path, "old_string": "a = 1", "new_string": "a = 2", "instruction": "x"},
    ),
    shell=lambda command: ("run_shell_command", {"command": command}),
    fetch=lambda url: ("web_fetch", {"prompt": f"what does {url} say?"}),
    put=_in_json("user/.gemini/settings.json", GeminiStage.SETTINGS),
    server_tool="mcp_notes_{}",
    spawn=lambda task: ("invoke_agent", {"agent_name": "generalist", "prompt": task}),
    report=Use([("complete_task", {"result": {"response": "done"}})]),
    options=lambda folder: ("--include-directories", folder),  # else it refuses by itself
)
OPENCODE = Tongue(
    "opencode",
    OpencodeStage,
    {
        "read": "read",
        "write": "write",
        "edit": "edit",
        "shell": "bash",
        "fetch": "webfetch",
        "spawn": "task",
    },
    read=lambda path: ("read", {"filePath": path}),
    write=lambda path: ("write", {"filePath": path, "content": "x\n"}),
    edit=lambda path: ("edit", {"filePath": path, "oldString": "a = 1", "newString": "a = 2"}),
    shell=lambda command: ("bash", {"command": command, "description": "x"}),
    fetch=lambda url: ("webfetch", {"url": url, "format": "text"}),
    put=_in_opencode,
    server_tool="notes_{}",
    spawn=lambda task, kind="general": (
        "task",
        {"description": "x", "prompt": task, "subagent_type": kind},
    ),
    starts_s=40,
)
PI = Tongue(
    "pi",
    PiStage,
    {"read": "read", "write": "write", "edit": "edit", "shell": "bash"},
    read=lambda path: ("read", {"path": path}),
    write=lambda path: ("write", {"path": path, "content": "x\n"}),
    edit=lambda path: (
        "edit",
        {"path": path, "edits": [{"oldText": "a = 1", "newText": "a = 2"}]},
    ),
    shell=lambda command: ("bash", {"command": command}),
    lacks={
        "fetch": "pi has no tool that fetches",
        "servers": "pi has no MCP servers",
        "subagents": "pi has no subagents",
    },
)
CLINE = Tongue(
    "cline",
    ClineStage,
    {
        "read": "read_files",
        "write": "editor",
        "edit": "editor",
        "shell": "run_commands",
        "fetch": "fetch_web_content",
        "spawn": "spawn_agent",
    },
    read=lambda path: ("read_files", {"files": [{"path": path}]}),
    write=lambda path: ("editor", {"path": path, "new_text": "x\n"}),
    edit=lambda path: ("editor", {"path": path, "old_text": "a = 1", "new_text": "a = 2"}),
    shell=lambda command: ("run_commands", {"commands": [command]}),
    fetch=lambda url: ("fetch_web_content", {"requests": [{"url": url, "prompt": "x"}]}),
    put=_in_cline,
    server_tool="notes__{}",
    spawn=lambda task: ("spawn_agent", {"systemPrompt": "you look", "task": task}),
)
TONGUES = (CLAUDE, CODEX, GEMINI, QWEN, COPILOT, OPENCODE, PI, CLINE)
NOTES = NOTES_STARTED


@pytest.fixture(params=TONGUES, ids=lambda tongue: tongue.name)
def tongue(request: pytest.FixtureRequest) -> Tongue:
    """Each agent."""
    found: Tongue = request.param
    return found


@pytest.fixture
def stage(tmp_path: Path, tongue: Tongue) -> Stage:
    """A stage of this test's own, with the agent on it."""
    return tongue.on(tmp_path)
