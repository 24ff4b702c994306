"""
Every real agent, recorded and verified: each call that ran has its decision in the receipt.

Each test runs where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from broker.trace.format import EVENTS
from tests.agents.stage import Stage, installed
from tests.agents.test_recording import AGENTS, Shell
from tests.console import Said, process

pytestmark = [pytest.mark.agent, pytest.mark.timeout(240)]


def verified(stage: Stage, *words: str) -> Said:
    """Return what `broker verify` says in the home of a stage."""
    home = {"BROKER_HOME": str(stage.bench.home.state.parent)}
    return process("verify", *words, "--json", env=home)


@pytest.mark.parametrize(
    ("name", "made", "shell", "variable"), AGENTS, ids=[agent[0] for agent in AGENTS]
)
def test_the_recording_and_the_receipt_tell_one_story(
    tmp_path: Path, name: str, made: Any, shell: Shell, variable: str
) -> None:
    """Allowed and refused calls are joined with their decisions; a changed recording is not."""
    stage: Stage = made(tmp_path, installed(f"BROKER_{name.upper()}", name))
    calls = [shell("echo one"), shell("cat src/a.py"), shell("echo three")]
    code, _, err = stage.run(
        {"main": [*(Use([call]) for call in calls), Say("done")]}, scope=["calls=2"]
    )
    assert code == 0, err
    said = verified(stage)
    found = json.loads(said.out)
    assert found["breaks"] == []
    assert (said.code, found["open"]) == (0, [])
    joined = found["join"]
    assert len(joined["matched"]) == 3
    assert [each["allowed"] for each in joined["matched"]] == [True, True, False]
    assert joined["decisions_without_an_execution"] == []
    # Somebody who can write the run takes the refusal out of it, and says it was allowed.
    (folder,) = stage.bench.home.runs.glob("run_*")
    path = folder / EVENTS
    path.write_bytes(path.read_bytes().replace(b'"allowed":false', b'"allowed":true '))
    assert verified(stage).code == 1
