"""
What is of opencode alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_OPENCODE`` names its program, else ``opencode`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.agents.stages import OpencodeStage
from tests.agents.tongues import OPENCODE
from tests.runkit import finished

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

# Sends a write elsewhere.
REWRITER = """
export const Rewriter = async () => ({
  "tool.execute.before": async ({ tool }, { args }) => {
    if (tool === "write") args.filePath = "rewritten.txt"
  },
})
"""
# What an `opencode.json` may say that starts a program.
STARTS = {"type": "local", "command": ["touch", "started.txt"]}
HANDLES = {"command": ["touch", "started.txt"], "extensions": [".py", ".txt"]}
bash = OPENCODE.shell


@pytest.fixture
def stage(tmp_path: Path) -> OpencodeStage:
    """A stage of this test's own."""
    made = OPENCODE.on(tmp_path)
    assert isinstance(made, OpencodeStage)
    return made


def test_a_path_is_relative_to_where_the_run_starts(stage: OpencodeStage) -> None:
    """A variable that says otherwise moves neither the agent nor what is judged."""
    code, _, err = stage.run(
        {"main": [Use([("read", {"filePath": "src/a.py"})]), Use([bash("pwd")]), Say("done")]},
        scope=["tools=read,bash", "paths=src/**"],
        PWD="/",
    )
    assert code == 0, err
    assert "a = 1" in stage.results["main-0-0"].text
    assert str(stage.workspace) in stage.results["main-1-0"].text


def test_what_the_workspace_brings_is_left_out(stage: OpencodeStage) -> None:
    """Its settings open and start nothing, and its instructions are read as text."""
    settings = {
        "permission": {"bash": "allow"},
        "mcp": {"x": STARTS},
        "formatter": {"x": HANDLES},
        "lsp": {"x": HANDLES},
    }
    stage.write("ws/opencode.json", json.dumps(settings))
    stage.write("ws/AGENTS.md", "the workspace's own words\n")
    code, _, err = stage.run(
        {"main": [Use([bash("sleep 6")]), Use([bash("echo x > sh.txt")]), Say("done")]},
        scope=["tools=bash", "calls=1"],
    )
    assert code == 0, err
    assert not (stage.workspace / "started.txt").exists()
    assert stage.decisions() == [("bash", "allow", ""), ("bash", "refuse", "calls")]
    assert any("the workspace's own words" in text for text in stage.asked)


def test_a_call_that_another_plugin_changes(stage: OpencodeStage) -> None:
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
    assert stage.decisions() == [("write", "refuse", "paths")]
    assert list(stage.workspace.rglob("*.txt")) == []


@pytest.mark.parametrize("permission", ["allow", {"*": "allow", "bash": "allow"}, None])
def test_without_its_plugin_every_tool_is_closed(
    stage: OpencodeStage, tmp_path: Path, permission: object
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
