"""
Every real agent, recorded in what it does: the shells that it runs, and the files that it changes.

Each test runs where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stage import installed
from tests.agents.test_recording import AGENTS, Shell, recorded

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

# Whose shells are found by their name, and so are seen; the others start `/bin/bash` or the like by
# its whole path, which a folder in front of PATH does not change.
BY_NAME = frozenset({"claude", "gemini", "qwen"})


@pytest.mark.parametrize(
    ("name", "made", "shell", "variable"), AGENTS, ids=[agent[0] for agent in AGENTS]
)
def test_an_agents_world_is_recorded(
    tmp_path: Path, name: str, made: Any, shell: Shell, variable: str
) -> None:
    """Each turn has its tree, a change is told, and so are shells that are found by their name."""
    stage = made(tmp_path, installed(f"BROKER_{name.upper()}", name))
    script = [Use([shell("echo made > src/seen.txt")]), Use([shell("cat src/a.py")]), Say("done")]
    code, _, err = stage.run({"main": script}, scope=["calls=20"])
    assert code == 0, err
    folder, events = recorded(stage)
    trees = [each for each in events if each["type"] == "fs.snapshot"]
    turns = {each["turn"] for each in events if each["type"] == "model.request"}
    skipped = sum(each["attrs"].get("turns_before_without_one", 0) for each in trees)
    assert len({each["turn"] for each in trees}) + skipped >= len(turns)
    changes = {e["attrs"]["path"]: e for e in events if e["type"] == "fs.change"}
    assert changes["src/seen.txt"]["attrs"]["status"] == "added"
    assert (folder / "fs" / "objects").is_dir()
    words = [" ".join(e["attrs"]["argv"]) for e in events if e["type"] == "shell.exec"]
    results = [e["attrs"] for e in events if e["type"] == "shell.result"]
    assert len(words) == len(results)
    assert name not in BY_NAME or any("src/seen.txt" in each for each in words)
    assert not any("hook.pyc" in each for each in words)
