"""
How the calls of real agents ended, as their receipts tell it.

Each test runs where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from tests.agents import test_claude_code, test_gemini, test_opencode, test_pi, test_qwen
from tests.agents.stage import Call, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

AGENTS: tuple[tuple[str, Any, Callable[[str], Call], Callable[[str], Call], str], ...] = (
    (
        "claude",
        test_claude_code.Stage,
        lambda path: ("Read", {"file_path": path}),
        test_claude_code.bash,
        "Read,Bash",
    ),
    (
        "qwen",
        test_qwen.Stage,
        lambda path: ("read_file", {"file_path": path}),
        test_qwen.shell,
        "Read,Bash",
    ),
    (
        "gemini",
        test_gemini.Stage,
        lambda path: ("read_file", {"file_path": path}),
        test_gemini.shell,
        "read_file,run_shell_command",
    ),
    (
        "opencode",
        test_opencode.Stage,
        lambda path: ("read", {"filePath": path}),
        test_opencode.bash,
        "read,bash",
    ),
    (
        "pi",
        test_pi.Stage,
        lambda path: ("read", {"path": path}),
        lambda command: ("bash", {"command": command}),
        "read,bash",
    ),
)


@pytest.mark.parametrize(
    ("name", "made", "read", "shell", "tools"), AGENTS, ids=[agent[0] for agent in AGENTS]
)
def test_the_end_of_each_call_is_recorded(
    tmp_path: Path,
    name: str,
    made: Callable[[Path, str], Any],
    read: Callable[[str], Call],
    shell: Callable[[str], Call],
    tools: str,
) -> None:
    """Once for each call that ran, with its id, and for none that was refused."""
    stage = made(tmp_path, installed(f"BROKER_{name.upper()}", name))
    (stage.workspace / "secret.txt").write_text("x\n")
    inside, outside = (str(stage.workspace / n) for n in ("src/a.py", "secret.txt"))
    turns = [
        Use([read(inside)]),
        Use([read(outside)]),
        Use([shell("true")]),
        Use([shell("seq 9999999 | tail -1")]),
    ]
    code, _, err = stage.run(
        {"main": [*turns, Say("done")]}, scope=[f"tools={tools}", "paths=src/**"]
    )
    assert code == 0, err
    entries = stage.entries()
    ran = [d["call"] for kind, d in entries if kind == "decision" and d["decision"] == "allow"]
    told = [d["call"] for kind, d in entries if kind == "result"]
    assert len(ran) == 3
    # The last one may come too late: nothing waits for it.
    assert told in (ran, ran[:2])
    assert all(d["ok"] for kind, d in entries if kind == "result")
