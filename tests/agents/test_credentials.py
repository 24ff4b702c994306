"""What every real agent hands on to its tools, and whether the launch says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.agents.credentials import KNOWN
from broker.loopback.script import Say, Use
from tests.agents import (
    test_claude_code,
    test_codex,
    test_copilot,
    test_gemini,
    test_opencode,
    test_qwen,
)
from tests.agents.stage import Call, Stage, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

Shell = Callable[[str], Call]
AGENTS = (
    ("claude", test_claude_code.Stage, test_claude_code.bash, "Bash"),
    ("codex", test_codex.Stage, test_codex.shell, "Bash"),
    ("gemini", test_gemini.Stage, test_gemini.shell, "run_shell_command"),
    ("qwen", test_qwen.Stage, test_qwen.shell, "Bash"),
    ("copilot", test_copilot.Stage, test_copilot.shell, "Bash"),
    ("opencode", test_opencode.Stage, test_opencode.bash, "bash"),
)


@pytest.mark.parametrize(
    ("name", "made", "shell", "tool"), AGENTS, ids=[agent[0] for agent in AGENTS]
)
def test_what_is_said_is_what_tools_can_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    made: Callable[[Path, str], Stage],
    shell: Shell,
    tool: str,
) -> None:
    """Every variable with a key that a shell finds is named at the launch, and no other one."""
    stage = made(tmp_path, installed(f"BROKER_{name.upper()}", name))
    with monkeypatch.context() as patched:
        for variable in (*KNOWN, "SCRIPTED_KEY"):
            patched.setenv(variable, "none")
        turn = Use([shell("env | cut -d = -f 1 > src/names.txt; sleep 1")])
        code, _, err = stage.run({"main": [turn, Say("done")]}, scope=[f"tools={tool}"])
    assert code == 0, err
    found = set((stage.workspace / "src/names.txt").read_text().split())
    readable = {variable for variable in (*KNOWN, "SCRIPTED_KEY") if variable in found}
    (said,) = re.findall(r"broker: tools can read (.*) from", err)
    extra = {"SCRIPTED_KEY"} if name != "codex" else set()
    assert set(re.findall(r"`(\w+)`", said)) == readable - extra
