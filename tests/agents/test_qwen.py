"""
The real Qwen Code under a ticket, against a scripted model on loopback.

Runs where Qwen Code is installed (``BROKER_QWEN`` names its program, else ``qwen`` on the path)
and needs neither an account nor a network.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.agents import stage as stages
from tests.agents.stage import broker_gone, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

NOTES = Path(__file__).with_name("notes_server.py")
ALLOW = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
REWRITE = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "tool_input": {"command": "true"}}}
QUIET: Mapping[str, object] = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "openai"}},
}


@pytest.fixture(scope="session")
def qwen() -> str:
    """The program, or a skip."""
    return installed("BROKER_QWEN", "qwen")


class Stage(stages.Stage):
    """A stage with Qwen Code on it."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        self.write(self.user / ".qwen/settings.json", QUIET)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "--auth-type", "openai", "-m", "scripted", *arguments]
        return [*command, "-o", "stream-json", "--yolo", "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_MODEL": "scripted",
            "NO_BROWSER": "1",
            **more,
        }


@pytest.fixture
def stage(tmp_path: Path, qwen: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, qwen)


def shell(command: str) -> tuple[str, Mapping[str, object]]:
    """Return a call of the shell."""
    given = {"command": command, "description": "x", "is_background": False}
    return "run_shell_command", given


def write(path: Path) -> tuple[str, Mapping[str, object]]:
    """Return a call that writes a file."""
    return "write_file", {"file_path": str(path), "content": "x\n"}


def agent(kind: str) -> tuple[str, Mapping[str, object]]:
    """Return a call that starts an agent of a kind, with the script ``sub``."""
    given = {"description": "x", "prompt": "[script sub] look", "subagent_type": kind}
    return "agent", {**given, "run_in_background": False}


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """Reads and writes inside pass; outside, a shell and a fetch are refused by name."""
    ws = stage.workspace
    (ws / "secret.txt").write_text("do not read")
    fetch = {"name": "web_fetch", "arguments": {"url": "http://127.0.0.1:9/", "prompt": "x"}}
    code, _, err = stage.run(
        {
            "main": [
                Use([("read_file", {"file_path": str(ws / "src/a.py")})]),
                Use([("read_file", {"file_path": str(ws / "secret.txt")})]),
                Use([write(ws / "src/new.txt"), write(ws / "outside.txt")]),
                Use([shell("echo hi > shell.txt")]),
                Use([("tool_call", fetch)]),
                Say("done"),
            ]
        },
        scope=["tools=Read,Write,WebFetch", "paths=src/**", "hosts=example.com"],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("Read", "allow", ""),
        ("Read", "refuse", "paths"),
        ("Write", "allow", ""),
        ("Write", "refuse", "paths"),
        ("Bash", "refuse", "tools"),
        ("WebFetch", "refuse", "hosts"),
    ]
    assert (ws / "src/new.txt").exists()
    assert not (ws / "outside.txt").exists()
    assert not (ws / "shell.txt").exists()
    assert "a = 1" in stage.results["main-0-0"].text
    told = stage.results["main-1-0"].text
    assert "refused by `paths`" in told
    assert "do not read" not in told
    assert "ask the person" in told
    intent = next(data for kind, data in stage.entries() if kind == "intent")
    assert intent["line"] == "[script main] go"


def test_tools_of_a_server_are_held(stage: Stage) -> None:
    """A server's tool that the scope names runs, another one does not, behind `tool_call` too."""
    server = {"command": sys.executable, "args": [str(NOTES)], "trust": True}
    stage.write(stage.user / ".qwen/settings.json", {**QUIET, "mcpServers": {"notes": server}})
    drop = {"name": "mcp__notes__drop", "arguments": {}}
    code, _, err = stage.run(
        {
            "main": [
                Use([("tool_search", {"query": "select:mcp__notes__look,mcp__notes__drop"})]),
                Use([("mcp__notes__look", {})]),
                Use([("tool_call", drop)]),
                Say("done"),
            ]
        },
        scope=["tools=ToolSearch,mcp__notes__look"],
    )
    assert code == 0, err
    stage.only_look()


def test_parallel_calls_share_the_budget(stage: Stage) -> None:
    """Of ten calls at once under a budget of four, four run."""
    calls = [shell(f"echo x > src/{n}.txt") for n in range(10)]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=Bash", "calls=4"])
    assert code == 0, err
    found = [decision for _, decision, _ in stage.decisions()]
    assert (found.count("allow"), found.count("refuse")) == (4, 6)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 4


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What came before the end passed, what comes after it is refused."""
    stage.run(
        {
            "main": [
                Use([shell("python3 -c 'import time; time.sleep(13)'")]),
                Use([shell("echo x > late.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=Bash", "until=12s"],
    )
    assert [row[1:] for row in stage.decisions()] == [("allow", ""), ("refuse", "until")]
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage, tmp_path: Path) -> None:
    """A write through a link that an earlier call made is judged by where it leads."""
    (tmp_path / "elsewhere").mkdir()
    stage.run(
        {
            "main": [
                Use([shell(f"ln -s {tmp_path / 'elsewhere'} src/link")]),
                Use([write(stage.workspace / "src/link/new.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=Bash,Write", "paths=src/**"],
    )
    assert stage.decisions()[-1] == ("Write", "refuse", "paths")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_subagents_are_told_apart_and_held(stage: Stage) -> None:
    """A subagent's calls are its own in the receipt, nested ones too, under the same ticket."""
    outside = write(stage.workspace / "outside.txt")
    code, _, err = stage.run(
        {
            "main": [Use([agent("general-purpose")]), Say("done")],
            "sub": [Use([outside]), Use([agent("Explore")]), Say("nothing")],
        },
        scope=["tools=Write,Agent", "paths=src/**"],
    )
    assert code == 0, err
    found = [
        (data["actor"], data["tool"], data["decision"])
        for kind, data in stage.entries()
        if kind == "decision"
    ]
    one = "agent:general-purpose:general-purpose-call_main-0-0"
    assert ("main", "Agent", "allow") in found
    assert (one, "Write", "refuse") in found
    assert not (stage.workspace / "outside.txt").exists()


@pytest.mark.parametrize("kind", ["codex", "claude-code"])
def test_an_agent_of_another_process_must_be_named(
    stage: Stage, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen Code can hand work to other programs, where no hook sees it: the scope decides that."""
    for name in ("codex", "claude-agent-acp"):
        program = stage.write(tmp_path / "bin" / name, f"#!/bin/sh\ntouch {tmp_path}/started\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    stage.run({"main": [Use([agent(kind)]), Say("done")]}, scope=["tools=Agent"])
    assert stage.decisions() == [("ExternalAgent", "refuse", "tools")]
    assert not (tmp_path / "started").exists()


def test_the_persons_own_settings_stay(stage: Stage, tmp_path: Path) -> None:
    """Their hooks and the machine's settings apply, and nothing of theirs is edited."""
    hook = {"type": "command", "command": f"touch {tmp_path}/seen; echo '{json.dumps(ALLOW)}'"}
    hooks = {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}
    mine = stage.write(stage.user / ".qwen/settings.json", {"$version": 4, **QUIET, "hooks": hooks})
    system = stage.write(
        tmp_path / "etc/settings.json", {"permissions": {"deny": ["read_file"]}, "$version": 4}
    )
    before = mine.read_bytes(), system.read_bytes()
    code, _, err = stage.run(
        {
            "main": [
                Use([shell("echo x > shell.txt")]),
                Use([("read_file", {"file_path": str(stage.workspace / "src/a.py")})]),
                Say("done"),
            ]
        },
        scope=["tools=Read"],
        QWEN_CODE_SYSTEM_SETTINGS_PATH=str(system),
    )
    assert code == 0, err
    assert (tmp_path / "seen").exists()
    assert stage.decisions()[0] == ("Bash", "refuse", "tools")
    assert not (stage.workspace / "shell.txt").exists()
    assert "a = 1" not in stage.results["main-1-0"].text
    assert (mine.read_bytes(), system.read_bytes()) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".qwen/settings.json", {"disableAllHooks": True}),
        (".qwen/settings.json", {"tools": {"sandbox": "docker"}}),
        (".env", "QWEN_CODE_SIMPLE=1\n"),
        (".qwen/.env", "QWEN_CODE_SAFE_MODE=1\nQWEN_SANDBOX=docker\n"),
    ],
)
def test_a_workspace_cannot_switch_the_hook_off(stage: Stage, name: str, content: object) -> None:
    """What a repository may bring along leaves the hook where it is."""
    stage.write(stage.workspace / name, content)
    code, _, err = stage.run(
        {"main": [Use([shell("echo x > shell.txt")]), Say("done")]}, scope=["tools=Read"]
    )
    assert code == 0, err
    assert not (stage.workspace / "shell.txt").exists()
    assert stage.decisions() == [("Bash", "refuse", "tools")]


AGENT = "---\nname: helper\ndescription: helps\n{}---\nHelp.\n"


def hooked(answer: Mapping[str, object]) -> dict[str, object]:
    """Return settings with a hook that gives an answer to every call."""
    hook = {"type": "command", "command": f"echo '{json.dumps(answer)}'"}
    entry = {"matcher": "*", "sequential": True, "hooks": [hook]}
    return {"hooks": {"PreToolUse": [entry]}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".qwen/settings.json", hooked(REWRITE)),
        (".qwen/agents/helper.md", AGENT.format("executor: {kind: acp, command: sh}\n")),
        (".qwen/agents/helper.md", AGENT.format("hooks: {PreToolUse: []}\n")),
        (".agents/skills/x/SKILL.md", AGENT.format("hooks: {PreToolUse: []}\n")),
    ],
)
def test_what_could_outvote_the_hook_is_not_started(
    stage: Stage, name: str, content: object
) -> None:
    """A repository with a hook of its own, or an agent of another process, is refused at once."""
    stage.write(stage.workspace / name, content)
    code, _, err = stage.run({"main": [Say("no")]}, scope=["tools=Read"])
    assert code == 2
    assert name in err
    assert "would not hold" in err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".qwen/settings.json", json.dumps(hooked(REWRITE))),
        (".qwen/agents/helper.md", AGENT.format(f"hooks: {json.dumps(hooked(ALLOW)['hooks'])}\n")),
        (".qwen/agents/helper.md", AGENT.format("executor: {kind: acp, command: sh}\n")),
    ],
)
def test_what_could_outvote_the_hook_and_comes_later_stops_the_run(
    stage: Stage, name: str, content: str
) -> None:
    """Written by a call of the run itself: the call after it is refused, and the run ends."""
    ws = stage.workspace
    given = {"file_path": str(ws / name), "content": content}
    code, _, err = stage.run(
        {
            "main": [
                Use([("write_file", given)]),
                Use([agent("helper"), write(ws / "outside.txt")]),
                Say("done"),
            ],
            "sub": [Use([write(ws / "outside.txt")]), Say("done")],
        },
        scope=["tools=Write,Agent", "paths=src/**,.qwen/**"],
    )
    assert (ws / name).exists()
    assert code != 0
    assert "the agent was stopped" in err
    assert not (ws / "outside.txt").exists()
    assert stage.entries()[-1][1]["reason"] == "interrupted"


@pytest.mark.parametrize("name", ["hook.pyc", "qwen-settings.json"])
def test_the_files_of_the_hook_are_watched(stage: Stage, name: str) -> None:
    """A run whose hook was deleted ends before the next call outside its scope."""
    home = stage.bench.home.state.parent
    code, _, err = stage.run(
        {
            "main": [
                Use([shell(f"find {home} -name {name} -delete; sleep 3")]),
                Use([write(stage.workspace / "outside.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=Bash,Write", "paths=src/**"],
    )
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "outside.txt").exists()


@pytest.mark.parametrize("how", ["killed", "stopped", "socket"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: str) -> None:
    """Killed, hung or without its socket: the call after that is refused or never made."""
    broker_gone(stage, how, shell, ["tools=Bash"])
