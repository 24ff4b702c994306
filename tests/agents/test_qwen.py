"""
What is of Qwen Code alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_QWEN`` names its program, else ``qwen`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stages import NOTES_STARTED, QwenStage
from tests.agents.tongues import QWEN

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

ALLOW = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
REWRITE = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "tool_input": {"command": "true"}}}
shell = QWEN.shell


@pytest.fixture
def stage(tmp_path: Path) -> QwenStage:
    """A stage of this test's own."""
    made = QWEN.on(tmp_path)
    assert isinstance(made, QwenStage)
    return made


def agent(kind: str) -> tuple[str, dict[str, object]]:
    """Return a call that starts an agent of a kind, with the script ``sub``."""
    given = {"description": "x", "prompt": "[script sub] look", "subagent_type": kind}
    return "agent", {**given, "run_in_background": False}


def write(path: Path) -> tuple[str, object]:
    """Return a call that writes a file."""
    return QWEN.write(str(path))


def test_tools_of_a_server_are_held(stage: QwenStage) -> None:
    """A server's tool that the scope names runs, another one does not, behind `tool_call` too."""
    assert QWEN.put is not None
    QWEN.put(stage, NOTES_STARTED)
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


@pytest.mark.parametrize("kind", ["codex", "claude-code"])
def test_an_agent_of_another_process_must_be_named(
    stage: QwenStage, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen Code can hand work to other programs, where no hook sees it: the scope decides that."""
    for name in ("codex", "claude-agent-acp"):
        program = stage.write(tmp_path / "bin" / name, f"#!/bin/sh\ntouch {tmp_path}/started\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    stage.run({"main": [Use([agent(kind)]), Say("done")]}, scope=["tools=Agent"])
    assert stage.decisions() == [("ExternalAgent", "refuse", "tools")]
    assert not (tmp_path / "started").exists()


def test_the_persons_own_settings_stay(stage: QwenStage, tmp_path: Path) -> None:
    """Their hooks and the machine's settings apply, and nothing of theirs is edited."""
    hook = {"type": "command", "command": f"touch {tmp_path}/seen; echo '{json.dumps(ALLOW)}'"}
    hooks = {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}
    mine = stage.write(stage.own, {**QwenStage.SETTINGS, "hooks": hooks})
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
    stage: QwenStage, name: str, content: object
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
    stage: QwenStage, name: str, content: str
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
