"""
What is of Cline CLI alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_CLINE`` names its program, else ``cline`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stages import ClineStage
from tests.agents.tongues import CLINE

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

HELPERS = "spawn_agent,team_spawn_teammate,team_run_task"
read, write, shell = CLINE.read, CLINE.write, CLINE.shell


@pytest.fixture
def stage(tmp_path: Path) -> ClineStage:
    """A stage of this test's own."""
    made = CLINE.on(tmp_path)
    assert isinstance(made, ClineStage)
    return made


def delegate(task: str) -> tuple[str, dict[str, object]]:
    """Return a call that starts a subagent."""
    return "spawn_agent", {"systemPrompt": "you look", "task": task}


def outside(stage: ClineStage) -> Use:
    """Return a turn that writes outside the scope."""
    return Use([write(stage.file("outside.txt"))])


def test_nothing_of_the_persons_is_edited(stage: ClineStage) -> None:
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


def test_what_another_hook_made_of_a_call_is_judged(stage: ClineStage) -> None:
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


def test_subagents_at_once_lend_each_other_nothing(stage: ClineStage) -> None:
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


def test_a_teammate_is_held_to_its_task(stage: ClineStage) -> None:
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


def test_files_that_its_own_runtime_would_obey(stage: ClineStage) -> None:
    """`.env` and `bunfig.toml` of the workspace set nothing and start nothing."""
    there = stage.root / "there"
    code = f'require("fs").writeFileSync({json.dumps(str(there))}, "x")'
    (stage.workspace / "evil.js").write_text(code)
    (stage.workspace / "bunfig.toml").write_text('preload = ["./evil.js"]\n')
    (stage.workspace / ".env").write_text(
        f"NODE_OPTIONS=--require={stage.file('evil.js')}\nCLINE_SESSION_BACKEND_MODE=hub\n"
    )
    turn = Use([shell("env > src/env.txt"), write(stage.file("outside.txt"))])
    status, _, err = stage.run(
        {"main": [turn, Say("done")]}, scope=["tools=run_commands,editor", "paths=src/**"]
    )
    assert status == 0, err
    assert not there.exists()
    assert "NODE_OPTIONS" not in (stage.workspace / "src/env.txt").read_text()
    assert stage.decisions()[-1] == ("editor", "refuse", "paths")


@pytest.mark.parametrize("options", [(), ("--yolo",), ("--auto-approve", "false")])
def test_a_plugin_that_does_not_load_leaves_every_tool_closed(
    stage: ClineStage, options: tuple[str, ...]
) -> None:
    """Cline goes on without a plugin; its tools are closed then, or the run ends."""
    turns = [Use([write(stage.file("src/new.txt"))]), Use([("submit_and_exit", SUBMITTED)])]
    stage.run(
        {"main": [*turns, Say("done")]},
        *options,
        scope=["tools=editor,submit_and_exit"],
        CLINE_JS_RUNTIME_PATH="/bin/false",
    )
    assert not (stage.workspace / "src/new.txt").exists()
    assert stage.decisions() == []


SUBMITTED = {"summary": "all is done", "verified": True}


def test_the_net_lets_a_run_with_its_plugin_be(stage: ClineStage) -> None:
    """Where no tool is closed, the hook file says nothing as long as the plugin is there."""
    turns = [
        Use([write(stage.file("src/new.txt"))]),
        outside(stage),
        Use([("submit_and_exit", SUBMITTED)]),
    ]
    _, _, err = stage.run(
        {"main": [*turns, Say("done")]},
        "--yolo",
        scope=["tools=editor,submit_and_exit", "paths=src/**"],
    )
    assert stage.decisions()[:2] == [("editor", "allow", ""), ("editor", "refuse", "paths")], err
    assert (stage.workspace / "src/new.txt").exists()
    assert not (stage.workspace / "outside.txt").exists()


def test_a_run_on_a_terminal(stage: ClineStage) -> None:
    """Nobody is asked for what the ticket permits, and refusals are told when the run is over."""
    turns = [Use([write(stage.file("src/new.txt"))]), outside(stage), Say("done")]
    shown, code = stage.at_terminal({"main": turns}, ["tools=editor", "paths=src/**"])
    assert code == 0, shown
    assert "Approve" not in shown
    assert stage.decisions() == [("editor", "allow", ""), ("editor", "refuse", "paths")]
    assert (stage.workspace / "src/new.txt").exists()
    assert shown.index("broker: refused (paths): editor") > shown.index("new.txt")
    assert "1 allowed, 1 refused (paths 1)" in shown


def test_a_plugin_that_does_not_load_on_a_terminal(stage: ClineStage) -> None:
    """The net ends the run before a person is asked about a call that nobody judged."""
    turns = [Use([write(stage.file("src/new.txt"))]), Say("done")]
    shown, _ = stage.at_terminal(
        {"main": turns}, ["tools=editor"], CLINE_JS_RUNTIME_PATH="/bin/false"
    )
    assert "Approve" not in shown
    assert stage.decisions() == []
    assert stage.results == {}
    assert not (stage.workspace / "src/new.txt").exists()


def test_the_persons_settings_are_closed_to_tools(stage: ClineStage) -> None:
    """No ticket lets a tool read or write credentials, hooks and plugins of Cline's."""
    places = [stage.own / "data/settings/providers.json", stage.own / "hooks/PreToolUse"]
    calls = [write(str(path)) for path in places] + [read(str(path)) for path in places]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=read_files,editor"])
    assert code == 0, err
    assert [decision for _, decision, _ in stage.decisions()] == ["refuse"] * 4
    assert not places[1].exists()
