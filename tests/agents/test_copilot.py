"""
What is of Copilot CLI alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_COPILOT`` names its program, else ``copilot`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.loopback.script import Say, Text, Use
from tests.agents.stages import CopilotStage
from tests.agents.tongues import COPILOT

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]


@pytest.fixture
def stage(tmp_path: Path) -> CopilotStage:
    """A stage of this test's own."""
    made = COPILOT.on(tmp_path)
    assert isinstance(made, CopilotStage)
    return made


def hook(answer: Mapping[str, object]) -> dict[str, object]:
    """Return a file of hooks that gives an answer to every call."""
    made = {"type": "command", "bash": f"echo '{json.dumps(answer)}'", "timeoutSec": 10}
    return {"version": 1, "hooks": {"preToolUse": [made]}}


def test_patches_are_judged_by_their_files(stage: CopilotStage) -> None:
    """A model that edits by patches meets the same refusals."""
    text = "*** Begin Patch\n*** Add File: {}\n+hello\n*** End Patch\n"
    code, _, err = stage.run(
        {
            "main": [
                Use([("apply_patch", Text(text.format("src/new.txt")))]),
                Use([("apply_patch", Text(text.format("outside.txt")))]),
                Use([("rg", {"pattern": "a", "paths": str(stage.workspace)})]),
                Say("done"),
            ]
        },
        wire=CopilotStage.GPT,
        scope=["tools=apply_patch,Grep", "paths=src/**"],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("apply_patch", "allow", ""),
        ("apply_patch", "refuse", "paths"),
        ("Grep", "refuse", "paths"),
    ]
    assert (stage.workspace / "src/new.txt").exists()
    assert not (stage.workspace / "outside.txt").exists()


def test_what_is_typed_into_a_command_must_be_named(stage: CopilotStage) -> None:
    """A command that waits for input is a shell too: typing into it is a call of its own."""
    typed = {"shellId": "s", "input": "x{enter}", "delay": 1}
    stage.run({"main": [Use([("write_bash", typed)]), Say("done")]}, scope=["tools=Bash"])
    assert stage.decisions() == [("write_bash", "refuse", "tools")]


@pytest.mark.parametrize("where", ["user/.copilot/hooks/x.json", "ws/.github/hooks/x.json"])
def test_hooks_of_others_stay_and_free_nothing(stage: CopilotStage, where: str) -> None:
    """They run before ours: what they allow is refused, what they change is judged as changed."""
    changed = {"command": "echo x > shell.txt", "description": "x"}
    answer = {"permissionDecision": "allow", "modifiedArgs": changed}
    file = stage.write(stage.root / where, hook(answer))
    before = file.read_bytes()
    stage.run(
        {"main": [Use([COPILOT.shell("true")]), Say("done")]},
        "--trust-folder",
        scope=["tools=Read"],
    )
    (data,) = [data for kind, data in stage.entries() if kind == "decision"]
    assert (data["tool"], data["decision"]) == ("Bash", "refuse")
    assert not (stage.workspace / "shell.txt").exists()
    assert file.read_bytes() == before


def test_a_plugin_of_the_person_runs_before_ours(stage: CopilotStage, tmp_path: Path) -> None:
    """A typed plugin may change a call too: what is judged is the call that will run."""
    changed = {"path": str(stage.workspace / "outside.txt"), "file_text": "x"}
    folder = tmp_path / "plugin"
    stage.write(folder / "plugin.json", {"name": "x", "version": "1.0.0", "hooks": "hooks.json"})
    stage.write(
        folder / "hooks.json", hook({"permissionDecision": "allow", "modifiedArgs": changed})
    )
    stage.run(
        {"main": [Use([COPILOT.write(stage.workspace / "src/new.txt")]), Say("done")]},
        "--plugin-dir",
        str(folder),
        scope=["tools=Write", "paths=src/**"],
    )
    assert stage.decisions() == [("Write", "refuse", "paths")]
    assert not (stage.workspace / "outside.txt").exists()


OFF = {"disableAllHooks": True}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ws/.github/copilot/settings.json", OFF),
        ("ws/.github/copilot/settings.local.json", OFF),
        ("ws/.claude/settings.json", OFF),
        ("user/.copilot/settings.json", OFF),
        ("user/.copilot/extensions/x/extension.mjs", "process.exit(0)"),
        ("ws/.github/extensions/x/extension.mjs", "process.exit(0)"),
    ],
)
def test_what_would_undo_the_hook_is_not_started(
    stage: CopilotStage, name: str, content: object
) -> None:
    """Settings that disable all hooks, and extensions that run after ours, are named at once."""
    stage.write(stage.root / name, content)
    code, _, err = stage.run({"main": [Say("no")]}, "--trust-folder", scope=["tools=Read"])
    assert code == 2
    assert "would not hold" in err
