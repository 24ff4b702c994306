"""
The real opencode under a ticket, against a scripted model on loopback.

Runs where opencode is installed (``BROKER_OPENCODE`` names its program, else ``opencode`` on the
path) and needs neither an account nor a network.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.agents import stage as stages
from tests.agents.stage import installed
from tests.hookkit import within
from tests.runkit import finished

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

Call = tuple[str, Mapping[str, object]]

# Sends a write elsewhere.
REWRITER = """
export const Rewriter = async () => ({
  "tool.execute.before": async ({ tool }, { args }) => {
    if (tool === "write") args.filePath = "rewritten.txt"
  },
})
"""
STARTED = """
import fs from "node:fs"
export const Theirs = async () => { fs.writeFileSync("started.txt", ""); return {} }
"""


@pytest.fixture(scope="session")
def opencode() -> str:
    """The program, or a skip."""
    return installed("BROKER_OPENCODE", "opencode")


class Stage(stages.Stage):
    """A stage with opencode on it; ``settings`` are added to the person's."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        self.settings: dict[str, object] = {}

    def ready(self, model: LoopbackModel) -> None:
        """Name the scripted model in the person's settings."""
        row = {"name": "scripted", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
            "models": {"scripted": row},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
            "enabled_providers": ["scripted"],
            "permission": "allow",
            **self.settings,
        }
        self.write("user/CONFIG/opencode/opencode.json", settings)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        return [self.program, "run", "--format", "json", *arguments, "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return an environment with nothing of the machine's own settings."""
        folders = {
            f"XDG_{n}_HOME": f"{self.user}/{n}" for n in ("CONFIG", "DATA", "CACHE", "STATE")
        }
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {**folders, **{f"OPENCODE_DISABLE_{name}": "1" for name in off}, **more}

    def in_order(self) -> list[tuple[str, ...]]:
        """Return tool, decision and caveat of each call, in the order of the script."""
        decided = sorted(self.of("decision"), key=lambda data: str(data["call"]))
        return [(data["tool"], data["decision"], data.get("caveat", "")) for data in decided]


@pytest.fixture
def stage(tmp_path: Path, opencode: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, opencode)


def bash(command: str) -> Call:
    """Return a call of the shell."""
    return "bash", {"command": command, "description": "x"}


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """What is in scope runs; what is not is refused by name before the model."""
    secret = stage.write("ws/secret.txt", "do not tell\n")
    inside = str(stage.workspace / "src/a.py")
    edit = {"filePath": inside, "oldString": "a = 1", "newString": "// b"}
    code, _, err = stage.run(
        {
            "main": [
                Use([("read", {"filePath": inside}), ("read", {"filePath": str(secret)})]),
                Use([("edit", edit)]),
                Use([("write", {"filePath": f"{stage.workspace}/out.txt", "content": "x"})]),
                Use([bash("echo x > sh.txt")]),
                Use([("webfetch", {"url": "http://127.0.0.1:9/x", "format": "text"})]),
                Use([("grep", {"pattern": "tell", "path": str(secret)})]),
                Use([("glob", {"pattern": "*.txt"})]),
                Say("done"),
            ]
        },
        scope=["tools=read,edit,write,webfetch,grep,glob", "paths=src/**", "hosts=example.org"],
    )
    assert code == 0, err
    assert stage.in_order() == [
        ("read", "allow", ""),
        ("read", "refuse", "paths"),
        ("edit", "allow", ""),
        ("write", "refuse", "paths"),
        ("bash", "refuse", "tools"),
        ("webfetch", "refuse", "hosts"),
        ("grep", "refuse", "paths"),
        ("glob", "refuse", "paths"),
    ]
    assert "a = 1" in stage.results["main-0-0"].text
    told = stage.results["main-0-1"].text
    assert "refused by `paths`" in told
    assert "ask the person" in told
    assert "do not tell" not in "".join(result.text for result in stage.results.values())
    assert (stage.workspace / "src/a.py").read_text() == "// b\n"
    assert sorted(p.name for p in stage.workspace.iterdir()) == ["secret.txt", "src"]
    entries = stage.entries()
    assert next(data for kind, data in entries if kind == "intent")["line"] == "[script main] go"
    assert next(data for kind, data in entries if kind == "open")["agent"] == "opencode"


def test_a_path_is_relative_to_where_the_run_starts(stage: Stage) -> None:
    """A variable that says otherwise moves neither the agent nor what is judged."""
    code, _, err = stage.run(
        {"main": [Use([("read", {"filePath": "src/a.py"})]), Use([bash("pwd")]), Say("done")]},
        scope=["tools=read,bash", "paths=src/**"],
        PWD="/",
    )
    assert code == 0, err
    assert "a = 1" in stage.results["main-0-0"].text
    assert str(stage.workspace) in stage.results["main-1-0"].text


def test_calls_in_one_turn_share_the_budget(stage: Stage) -> None:
    """Of six calls at once under a budget of two, two run."""
    calls = [bash(f"echo x > src/{n}.txt") for n in range(6)]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=bash", "calls=2"])
    assert code == 0, err
    found = [decision for _, decision, _ in stage.in_order()]
    assert (found.count("allow"), found.count("refuse")) == (2, 4)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 2


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What comes after the end is refused, however long opencode took to start."""
    stage.run(
        {"main": [Use([bash("sleep 30")]), Use([bash("echo x > late.txt")]), Say("done")]},
        scope=["tools=bash", "until=25s"],
    )
    assert stage.in_order()[-1] == ("bash", "refuse", "until")
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage, tmp_path: Path) -> None:
    """A write through a link that an earlier call made is judged by where it leads."""
    (tmp_path / "elsewhere").mkdir()
    new = {"filePath": f"{stage.workspace}/src/link/new.txt", "content": "x"}
    stage.run(
        {
            "main": [
                Use([bash(f"ln -s {tmp_path / 'elsewhere'} src/link")]),
                Use([("write", new)]),
                Say("done"),
            ]
        },
        scope=["tools=bash,write", "paths=src/**"],
    )
    assert stage.in_order()[-1] == ("write", "refuse", "paths")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_tools_of_a_server_are_held_by_name(stage: Stage) -> None:
    """A tool of an MCP server is in scope by its full name; its sibling is not even shown."""
    server = Path(__file__).with_name("notes_server.py")
    command = [sys.executable, str(server)]
    stage.settings["mcp"] = {"notes": {"type": "local", "command": command, "enabled": True}}
    code, _, err = stage.run(
        {"main": [Use([("notes_look", {}), ("notes_drop", {})]), Say("done")]},
        scope=["tools=mcp__notes__look"],
    )
    assert code == 0, err
    stage.only_look()


def test_subagents_are_told_apart(stage: Stage) -> None:
    """A subagent's calls are its own in the receipt, and are held to the same ticket."""
    task = {"description": "look", "prompt": "[script sub] look", "subagent_type": "general"}
    code, _, err = stage.run(
        {
            "main": [Use([("task", task)]), Use([bash("true")]), Say("done")],
            "sub": [
                Use([("write", {"filePath": f"{stage.workspace}/out.txt", "content": "x"})]),
                Use([bash("echo x > src/sub.txt")]),
                Say("nothing"),
            ],
        },
        scope=["tools=bash,write,task", "paths=src/**"],
    )
    assert code == 0, err
    actors = [
        (data["tool"], data["decision"], data["actor"].rpartition(":")[0] or data["actor"])
        for kind, data in stage.entries()
        if kind == "decision"
    ]
    assert actors == [
        ("task", "allow", "main"),
        ("write", "refuse", "agent:general"),
        ("bash", "allow", "agent:general"),
        ("bash", "allow", "main"),
    ]
    assert not (stage.workspace / "out.txt").exists()


def test_what_the_workspace_brings_is_left_out(stage: Stage) -> None:
    """Its plugins do not run, its settings open nothing, and its instructions are read as text."""
    stage.write("ws/.opencode/plugin/theirs.js", STARTED)
    theirs = stage.write("theirs.mjs", STARTED)
    settings = {"plugin": [theirs.as_uri()], "permission": {"bash": "allow"}}
    stage.write("ws/opencode.json", json.dumps(settings))
    stage.write("ws/AGENTS.md", "the workspace's own words\n")
    code, _, err = stage.run(
        {"main": [Use([bash("echo x > sh.txt")]), Say("done")]}, scope=["tools=read"]
    )
    assert code == 0, err
    assert not (stage.workspace / "started.txt").exists()
    assert stage.in_order() == [("bash", "refuse", "tools")]
    assert any("the workspace's own words" in text for text in stage.asked)


def test_a_call_that_another_plugin_changes(stage: Stage) -> None:
    """A plugin of the person's may rewrite a call; what is judged is what would then run."""
    stage.settings["plugin"] = [stage.write("rewriter.mjs", REWRITER).as_uri()]
    again = json.dumps({"plugin": [stage.write("again.mjs", REWRITER).as_uri()]})
    new = {"filePath": f"{stage.workspace}/src/new.txt", "content": "x"}
    code, _, err = stage.run(
        {"main": [Use([("write", new)]), Say("done")]},
        scope=["tools=write", "paths=src/**"],
        OPENCODE_CONFIG_CONTENT=again,
    )
    assert code == 0, err
    assert stage.in_order() == [("write", "refuse", "paths")]
    assert list(stage.workspace.rglob("*.txt")) == []


@pytest.mark.parametrize("permission", ["allow", {"*": "allow", "bash": "allow"}, None])
def test_without_its_plugin_every_tool_is_closed(
    stage: Stage, tmp_path: Path, permission: object
) -> None:
    """An opencode that could not load the plugin refuses every call by its own rules."""
    from broker.agents.adapter import Launch
    from broker.agents.opencode.launch import PLUGIN_NAME, OpencodeLaunch

    if permission is not None:
        stage.settings["permission"] = permission
    folder = tmp_path / "session"
    folder.mkdir()
    script = {"main": [Use([bash("echo x > sh.txt")]), Say("done")]}
    with LoopbackModel(script) as model:
        finished(stage.start(model, "--version", scope=["tools=read"]))  # writes the settings
        command = (stage.program, "run", "--format", "json", "[script main] go")
        environ = {**os.environ, "HOME": str(stage.user), **stage.environ(model)}
        launch = Launch(command, environ, stage.workspace, folder, tmp_path / "none")
        prepared = OpencodeLaunch().prepare(launch)
        (folder / PLUGIN_NAME).write_text("throw new Error('broken')\n")
        done = subprocess.run(
            prepared.command,
            env={**environ, **prepared.environ},
            cwd=stage.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
    assert "[script main] go" in "".join(model.asked), done.stderr
    assert not (stage.workspace / "sh.txt").exists()


@pytest.mark.parametrize(
    "damage",
    ["echo '' >> $FOLDER/broker-opencode.mjs", "rm $FOLDER/ask.mjs", "rm $BROKER_SOCKET"],
    ids=["changed", "removed", "socket"],
)
def test_a_run_that_loses_its_plugin_is_stopped(stage: Stage, damage: str) -> None:
    """A shell that touches what holds opencode ends the run before the next call."""
    folder = f"{stage.bench.home.state}/sessions/$BROKER_SESSION"
    command = f"FOLDER={folder}; {damage}; sleep 20"
    code, _, err = stage.run(
        {"main": [Use([bash(command)]), Use([bash("echo x > late.txt")]), Say("done")]},
        scope=["tools=bash"],
    )
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "late.txt").exists()
    assert stage.entries()[-1][1]["reason"] == "interrupted"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: signal.Signals) -> None:
    """Killed or hung: the call after that is refused or never made."""
    if how is signal.SIGKILL and sys.platform != "linux":
        pytest.skip("elsewhere the agent goes on, and its hooks refuse")
    turns = [Use([bash("touch src/begun; sleep 2")]), Use([bash("echo x > late.txt")]), Say("done")]
    with LoopbackModel({"main": turns}) as model:
        process = stage.start(model, scope=["tools=bash"])
        assert within(60, (stage.workspace / "src/begun").exists)
        process.send_signal(how)
        try:
            if how is signal.SIGSTOP:
                assert within(60, lambda: "main-1-0" in model.results)
                assert "did not answer in time" in model.results["main-1-0"].text
            else:
                time.sleep(4)
        finally:
            process.send_signal(signal.SIGCONT)
            finished(process, 60)
    assert not (stage.workspace / "late.txt").exists()
