"""
Every real agent, recorded in what it does: the shells that it runs, and the files that it changes.

Each test runs where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stage import Stage
from tests.agents.test_recording import recorded
from tests.agents.tongues import Tongue, stage, tongue

__all__ = ["stage", "tongue"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

# Whose shells are found by their name, and so are seen; the others start `/bin/bash` or the like by
# its whole path, which a folder in front of PATH does not change.
BY_NAME = frozenset({"claude", "gemini", "opencode", "qwen"})


def test_an_agents_world_is_recorded(stage: Stage, tongue: Tongue) -> None:
    """Each turn has its tree, a change is told, and so are shells that are found by their name."""
    make, look = tongue.shell("echo made > src/seen.txt"), tongue.shell("cat src/a.py")
    code, _, err = stage.run({"main": [Use([make]), Use([look]), Say("done")]}, scope=["calls=20"])
    assert code == 0, err
    folder, events = recorded(stage)
    trees = [each for each in events if each["type"] == "fs.snapshot"]
    turns = {each["turn"] for each in events if each["type"] == "model.request"}
    skipped = sum(each["attrs"].get("turns_before_without_one", 0) for each in trees)
    assert len({each["turn"] for each in trees}) + skipped >= len(turns)
    changes = {each["attrs"]["path"]: each for each in events if each["type"] == "fs.change"}
    assert changes["src/seen.txt"]["attrs"]["status"] == "added"
    assert (folder / "fs" / "objects").is_dir()
    words = [" ".join(e["attrs"]["argv"]) for e in events if e["type"] == "shell.exec"]
    assert len(words) == len([each for each in events if each["type"] == "shell.result"])
    assert tongue.name not in BY_NAME or any("src/seen.txt" in each for each in words)
    assert not any("hook.pyc" in each for each in words)
