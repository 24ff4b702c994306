"""
What is of Codex alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_CODEX`` names its program, else ``codex`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.loopback.script import Say, Text, Use
from tests.agents.stages import CodexStage
from tests.agents.tongues import CODEX

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

PATCH = "*** Begin Patch\n*** Add File: {}\n+hello\n*** End Patch\n"
HOOK = """
[[hooks.PreToolUse]]
[[hooks.PreToolUse.hooks]]
type = "command"
command = "{}"
"""


@pytest.fixture
def stage(tmp_path: Path) -> CodexStage:
    """A stage of this test's own."""
    made = CODEX.on(tmp_path)
    assert isinstance(made, CodexStage)
    return made


def script(code: str) -> Use:
    """Return a turn of a model whose one tool runs JavaScript."""
    caught = f"try {{ {code} }} catch (error) {{ text('caught: ' + error) }}"
    return Use([("functions/exec", Text(caught))])


def test_calls_inside_javascript_are_held_too(stage: CodexStage) -> None:
    """A model that calls tools from code meets the same refusals, and code may not outlive them."""
    quoted = json.dumps(PATCH.format("outside.txt"))
    code, _, err = stage.run(
        {
            "main": [
                script("text(await tools.exec_command({cmd: 'echo hi > src/made.txt'}))"),
                script(f"text(await tools.apply_patch({quoted}))"),
                Say("done"),
            ]
        },
        slug=CodexStage.CODE,
        scope=["tools=Bash,apply_patch", "paths=src/**", "calls=5"],
    )
    assert code == 0, err
    assert stage.decisions() == [("Bash", "allow", ""), ("apply_patch", "refuse", "paths")]
    assert (stage.workspace / "src/made.txt").exists()
    assert not (stage.workspace / "outside.txt").exists()


def test_the_users_own_hooks_stay_and_nothing_is_edited(stage: CodexStage, tmp_path: Path) -> None:
    """The configuration is byte for byte what it was, and no hook of it became trusted."""
    seen = tmp_path / "seen"
    hook = HOOK.format(f"touch {seen}")
    (stage.user / ".codex" / "config.toml").write_text(hook)
    code, _, err = stage.run(
        {"main": [Use([CODEX.shell("true")]), Say("done")]}, scope=["tools=Bash"]
    )
    assert code == 0, err
    config = (stage.user / ".codex" / "config.toml").read_text()
    assert config.endswith(hook)
    assert "trusted_hash" not in config
    assert not seen.exists()
