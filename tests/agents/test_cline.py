"""
The real Cline CLI under a ticket, against a scripted model on loopback.

Runs where Cline CLI is installed (``BROKER_CLINE`` names its program, else ``cline`` on the path)
and needs neither an account nor a network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agents.clinestage import Stage, cline, stage

__all__ = ["cline", "stage"]
pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

NOTES = {"command": sys.executable, "args": [str(Path(__file__).with_name("notes_server.py"))]}
ASKED = {"url": "https://a.example/x", "prompt": "what does it say?"}
HELPERS = "spawn_agent,team_spawn_teammate,team_run_task"

Call = tuple[str, Mapping[str, object]]


def shell(*commands: str) -> Call:
    """Return a call of the shell."""
    return "run_commands", {"commands": list(commands)}


def write(name: str) -> Call:
    """Return a call that makes a file."""
    return "editor", {"path": name, "new_text": "hello\n"}


def read(*names: str) -> Call:
    """Return a call that reads files."""
    return "read_files", {"files": [{"path": name} for name in names]}


def delegate(task: str) -> Call:
    """Return a call that starts a subagent."""
    return "spawn_agent", {"systemPrompt": "you look", "task": task}


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """What the scope names passes, all else is refused by name, and the model is told."""
    (stage.workspace / "notes.txt").write_text("secret\n")
    code, _, err = stage.run(
        {
            "main": [
                Use([read(stage.file("src/a.py"))]),
                Use([read(stage.file("src/a.py"), stage.file("notes.txt"))]),
                Use([("read_files", {"file_paths": [stage.file("notes.txt")]})]),
                Use([write(stage.file("src/new.txt"))]),
                Use([write(stage.file("outside.txt"))]),
                Use([("search_codebase", {"queries": ["secret"]})]),
                Use([read(stage.file("src/a.py"))]),  # it gives up after three calls that fail
                Use([shell("echo hi > shell.txt")]),
                Use([("fetch_web_content", {"requests": [ASKED]})]),
                Say("done"),
            ]
        },
        scope=[
            "tools=read_files,editor,search_codebase,fetch_web_content",
            "paths=src/**",
            "hosts=b.example",
        ],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("read_files", "allow", ""),
        ("read_files", "refuse", "paths"),
        ("read_files", "refuse", "paths"),
        ("editor", "allow", ""),
        ("editor", "refuse", "paths"),
        ("search_codebase", "refuse", "paths"),
        ("read_files", "allow", ""),
        ("run_commands", "refuse", "tools"),
        ("fetch_web_content", "refuse", "hosts"),
    ]
    assert (stage.workspace / "src/new.txt").read_text() == "hello\n"
    assert not (stage.workspace / "outside.txt").exists()
    assert not (stage.workspace / "shell.txt").exists()
    assert "refused by `paths`" in stage.results["main-1-0"].text
    assert "ask the person" in stage.results["main-1-0"].text
    assert "secret" not in "".join(told.text for told in stage.results.values())
    intent = next(data for kind, data in stage.entries() if kind == "intent")
    assert intent["line"] == "[script main] go"


def test_nothing_of_the_persons_is_edited(stage: Stage) -> None:
    """Settings and hooks are byte for byte what they were, and the person's hooks still run."""
    hooks = stage.own / "hooks"
    hooks.mkdir()
    (hooks / "PreToolUse").write_text(f"#!/bin/sh\ncat > {stage.root}/seen\n")
    (hooks / "PreToolUse").chmod(0o700)
    settings = stage.own / "data/settings/global-settings.json"
    settings.write_text('{"autoUpdateEnabled": false, "toolAutoApprove": true}')
    before = {path: path.read_bytes() for path in (settings, hooks / "PreToolUse")}
    code, _, err = stage.run(
        {"main": [Use([read(stage.file("src/a.py"))]), Say("done")]}, scope=["tools=read_files"]
    )
    assert code == 0, err
    assert {path: path.read_bytes() for path in before} == before
    assert stage.decisions() == [("read_files", "allow", "")]
    assert "read_files" in (stage.root / "seen").read_text()
    assert sorted(path.name for path in stage.own.iterdir()) == ["data", "hooks"]


def test_what_another_hook_made_of_a_call_is_judged(stage: Stage) -> None:
    """A hook of the person's may rewrite a call; what runs is what was decided."""
    hooks = stage.own / "hooks"
    hooks.mkdir()
    rewritten = {"overrideInput": {"path": stage.file("outside.txt"), "new_text": "x"}}
    (hooks / "PreToolUse").write_text(
        f"#!/bin/sh\ncat >/dev/null\necho '{json.dumps(rewritten)}'\n"
    )
    (hooks / "PreToolUse").chmod(0o700)
    stage.run(
        {"main": [Use([write(stage.file("src/new.txt"))]), Say("done")]},
        scope=["tools=editor", "paths=src/**"],
    )
    assert stage.decisions() == [("editor", "refuse", "paths")]
    assert not (stage.workspace / "outside.txt").exists()


def test_tools_of_servers(stage: Stage) -> None:
    """A tool of a server passes under its server's name, and another one is refused."""
    servers = {"mcpServers": {"notes": {"type": "stdio", "transport": {"type": "stdio", **NOTES}}}}
    (stage.own / "data/settings/cline_mcp_settings.json").write_text(json.dumps(servers))
    code, _, err = stage.run(
        {"main": [Use([("notes__look", {})]), Use([("notes__drop", {})]), Say("done")]},
        scope=["tools=mcp__notes__look"],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("mcp__notes__look", "allow", ""),
        ("mcp__notes__drop", "refuse", "tools"),
    ]
    assert "look was called" in stage.results["main-0-0"].text
    assert "refused by `tools`" in stage.results["main-1-0"].text


def test_parallel_calls_share_the_budget(stage: Stage) -> None:
    """Of ten calls at once under a budget of four, four run."""
    calls = [shell(f"echo x > src/{n}.txt") for n in range(10)]
    code, _, err = stage.run(
        {"main": [Use(calls), Say("done")]}, scope=["tools=run_commands", "calls=4"]
    )
    assert code == 0, err
    found = [decision for _, decision, _ in stage.decisions()]
    assert (found.count("allow"), found.count("refuse")) == (4, 6)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 4


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What came before the end passed, what comes after it is refused."""
    stage.run(
        {"main": [Use([shell("sleep 20")]), Use([shell("echo x > late.txt")]), Say("done")]},
        scope=["tools=run_commands", "until=20s"],
    )
    assert stage.decisions() == [("run_commands", "allow", ""), ("run_commands", "refuse", "until")]
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage) -> None:
    """A file below a link that an earlier call made is judged by where the link leads."""
    elsewhere = stage.root / "elsewhere"
    elsewhere.mkdir()
    stage.run(
        {
            "main": [
                Use([shell(f"ln -s {elsewhere} src/link")]),
                Use([write(stage.file("src/link/new.txt"))]),
                Say("done"),
            ]
        },
        scope=["tools=run_commands,editor", "paths=src/**"],
    )
    assert stage.decisions()[-1] == ("editor", "refuse", "paths")
    assert list(elsewhere.iterdir()) == []


def test_a_subagent_is_held_to_its_own_ticket(stage: Stage) -> None:
    """It has what its task asks for and no more, and afterwards its parent has its own again."""
    code, _, err = stage.run(
        {
            "main": [
                Use([delegate("[script sub] look\nscope: tools=read_files")]),
                Use([write(stage.file("src/after.txt"))]),
                Say("done"),
            ],
            "sub": [Use([read(stage.file("src/a.py")), write(stage.file("src/s.txt"))]), Say("ok")],
        },
        scope=[f"tools=read_files,editor,{HELPERS}", "paths=src/**", "calls=9"],
    )
    assert code == 0, err
    assert stage.decisions("actor") == [
        ("spawn_agent", "allow", "", "main"),
        ("read_files", "allow", "", "agent:subagent:1"),
        ("editor", "refuse", "tools", "agent:subagent:1"),
        ("editor", "allow", "", "main"),
    ]
    assert not (stage.workspace / "src/s.txt").exists()
    (kept,) = [data for kind, data in stage.entries() if kind == "delegate"]
    assert kept["asked_by"] == "main"
    assert kept["holder"].startswith("call:")


def test_a_subagent_cannot_be_given_more(stage: Stage) -> None:
    """A task that asks for a wider scope is refused, and its subagent never starts."""
    stage.run(
        {
            "main": [
                Use([delegate("[script sub] go\nscope: tools=read_files,run_commands")]),
                Say("done"),
            ],
            "sub": [Use([shell("echo x > s.txt")]), Say("ok")],
        },
        scope=[f"tools=read_files,{HELPERS}"],
    )
    assert "scope that this task asks for" in stage.results["main-0-0"].text
    assert "sub-0-0" not in stage.results


def test_subagents_at_once_lend_each_other_nothing(stage: Stage) -> None:
    """Two subagents of one turn are told apart by their tasks, each with its own ticket."""
    code, _, err = stage.run(
        {
            "main": [
                Use(
                    [
                        delegate("[script one] go\nscope: tools=read_files"),
                        delegate("[script two] go\nscope: tools=editor"),
                    ]
                ),
                Say("done"),
            ],
            "one": [Use([write(stage.file("src/one.txt"))]), Say("ok")],
            "two": [Use([write(stage.file("src/two.txt"))]), Say("ok")],
        },
        scope=[f"tools=read_files,editor,{HELPERS}", "paths=src/**"],
    )
    assert code == 0, err
    assert not (stage.workspace / "src/one.txt").exists()
    assert (stage.workspace / "src/two.txt").exists()


def test_a_teammate_is_held_to_its_task(stage: Stage) -> None:
    """A teammate, of whom Cline says nothing, has the ticket of the task that it works at."""
    code, _, err = stage.run(
        {
            "main": [
                Use([("team_spawn_teammate", {"agentId": "mate", "rolePrompt": "you are mate"})]),
                Use(
                    [
                        (
                            "team_run_task",
                            {
                                "agentId": "mate",
                                "task": "[script mate] go\nscope: tools=read_files",
                                "runMode": "sync",
                            },
                        )
                    ]
                ),
                Use([write(stage.file("src/main.txt"))]),
                Say("done"),
            ],
            "mate": [
                Use([read(stage.file("src/a.py")), write(stage.file("src/mate.txt"))]),
                Say("ok"),
            ],
        },
        scope=[f"tools=read_files,editor,{HELPERS}", "paths=src/**"],
    )
    assert code == 0, err
    assert stage.decisions("actor")[2:] == [
        ("read_files", "allow", "", "agent:mate:1"),
        ("editor", "refuse", "tools", "agent:mate:1"),
        ("editor", "allow", "", "main"),
    ]
    assert not (stage.workspace / "src/mate.txt").exists()
