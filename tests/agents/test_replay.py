"""
Real agents, recorded and then played again without their model.

Each agent runs under a ticket against a scripted model on loopback: it reads, edits, is refused one
call, runs its shell and delegates where it can. Then the model is gone, and the agent is played
again over the workspace as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Text, Use
from broker.loopback.server import LoopbackModel
from tests.agents.stage import Script, Stage, finished, installed
from tests.agents.stages import ClaudeStage, CodexStage, GeminiStage, OpencodeStage, QwenStage
from tests.console import process

pytestmark = [pytest.mark.agent, pytest.mark.timeout(300)]


LOOK = "echo hi; ls src"


@dataclass(frozen=True)
class Case:
    """An agent, the script of its model, and the scope."""

    make: Callable[[Path], Stage]
    script: Callable[[Stage], Script]
    scope: Sequence[str]


def _claude(stage: Stage) -> Script:
    inside = stage.file("src/a.py")
    agent = {
        "description": "look",
        "prompt": "[script sub] look",
        "subagent_type": "general-purpose",
    }
    return {
        "main": [
            Use([("Read", {"file_path": inside})]),
            Use([("Edit", {"file_path": inside, "old_string": "a = 1", "new_string": "b = 2"})]),
            Use([("Bash", {"command": LOOK, "description": "x"})]),
            Use([("Write", {"file_path": stage.file("docs/x.md"), "content": "x"})]),
            Use([("Agent", agent)]),
            Say("done"),
        ],
        "sub": [Use([("Read", {"file_path": inside})]), Say("looked")],
    }


def _codex(stage: Stage) -> Script:
    patch = "*** Begin Patch\\n*** Add File: src/b.py\\n+hello\\n*** End Patch\\n"
    return {
        "main": [
            Use([("exec_command", {"cmd": "cat src/a.py"})]),
            Use([("apply_patch", Text(patch.replace("\\n", "\n")))]),
            Use([("exec_command", {"cmd": LOOK})]),
            Say("done"),
        ]
    }


def _gemini(stage: Stage) -> Script:
    return {
        "main": [
            Use([("read_file", {"file_path": "src/a.py"})]),
            Use([("write_file", {"file_path": "src/b.py", "content": "x\n"})]),
            Use([("run_shell_command", {"command": LOOK})]),
            Use([("write_file", {"file_path": "docs/x.md", "content": "x\n"})]),
            Say("done"),
        ]
    }


def _qwen(stage: Stage) -> Script:
    return {
        "main": [
            Use([("read_file", {"file_path": stage.file("src/a.py")})]),
            Use([("write_file", {"file_path": stage.file("src/b.py"), "content": "x\n"})]),
            Use(
                [
                    (
                        "run_shell_command",
                        {"command": LOOK, "description": "x", "is_background": False},
                    )
                ]
            ),
            Use([("write_file", {"file_path": stage.file("docs/x.md"), "content": "x\n"})]),
            Say("done"),
        ]
    }


def _opencode(stage: Stage) -> Script:
    inside = stage.file("src/a.py")
    edit = {"filePath": inside, "oldString": "a = 1", "newString": "b = 2"}
    return {
        "main": [
            Use([("read", {"filePath": inside})]),
            Use([("edit", edit)]),
            Use([("bash", {"command": LOOK, "description": "x"})]),
            Say("done"),
        ]
    }


def _stage(kind: Callable[[Path, str], Stage], name: str) -> Callable[[Path], Stage]:
    def make(root: Path) -> Stage:
        return kind(root, installed(f"BROKER_{name.upper()}", name))

    return make


CASES = {
    "claude": Case(
        _stage(ClaudeStage, "claude"),
        _claude,
        ["tools=@reads,Edit,Write,Bash,Agent", "paths=src/**"],
    ),
    "codex": Case(_stage(CodexStage, "codex"), _codex, ["tools=Bash,apply_patch"]),
    "gemini": Case(
        _stage(GeminiStage, "gemini"),
        _gemini,
        ["tools=@reads,write_file,run_shell_command", "paths=src/**"],
    ),
    "opencode": Case(
        _stage(OpencodeStage, "opencode"),
        _opencode,
        ["tools=@reads,edit,write,bash", "paths=src/**"],
    ),
    "qwen": Case(
        _stage(QwenStage, "qwen"),
        _qwen,
        ["tools=@reads,Write,Bash", "paths=src/**"],
    ),
}


SHELLS_SEEN = ("claude", "gemini", "qwen")


def _play(stage: Stage, case: Case) -> dict[str, Any]:
    """Record a run, and play it again without its model."""
    with LoopbackModel(case.script(stage)) as model:
        code, _, err = finished(stage.start(model, scope=case.scope), 180)
        environ = {"HOME": str(stage.user), **stage.environ(model)}
    assert code == 0, err
    kept = _files(stage)
    home = {"BROKER_HOME": str(stage.bench.home.state.parent)}
    said = process(
        *("replay", "--json"),
        cwd=stage.workspace,
        env={**os.environ, **environ, **home},
        timeout_s=240,
    )
    found: dict[str, Any] = {**dict(said.json()), "err": said.err}  # type: ignore[call-overload]  # one object
    found["untouched"] = kept == _files(stage)
    return found


def _files(stage: Stage) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in stage.workspace.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_an_agent_is_played_again_without_its_model(name: str, tmp_path: Path) -> None:
    """Every request is met, none is missing, and the person's workspace is left as it was."""
    case = CASES[name]
    found = _play(case.make(tmp_path), case)
    print(
        name,
        {key: found[key] for key in ("recorded", "rungs", "unmatched", "not_asked", "results")},
    )
    print(*(each["why"] for each in found["divergences"]), sep="\n")
    assert found["unmatched"] == 0, found
    assert found["not_asked"] == [], found
    assert found["reused"] == found["recorded"] >= 4
    assert found["isolation"]["level"] == "namespace"
    assert found["untouched"]
    results = found["results"]
    assert results["refused"] == [], results
    if name in SHELLS_SEEN:  # whose shells are found by name: see docs/recording-world.md
        assert results["shell"]["served"] == results["shell"]["recorded"] == 1, results
