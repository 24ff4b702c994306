"""
Every real agent, recorded and verified: each call that ran has its decision in the receipt.

Each test runs where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from broker.trace.format import EVENTS
from tests.agents.stage import Stage
from tests.agents.test_children import TONGUES, main, scope
from tests.agents.tongues import Tongue, stage, tongue
from tests.console import Said, process

__all__ = ["stage", "tongue"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]


def verified(stage: Stage) -> Said:
    """Return what `broker verify` says in the home of a stage."""
    home = {"BROKER_HOME": str(stage.bench.home.state.parent)}
    return process("verify", "--json", env=home)


def test_the_recording_and_the_receipt_tell_one_story(stage: Stage, tongue: Tongue) -> None:
    """Allowed and refused calls are joined with their decisions; a changed recording is not."""
    calls = [tongue.shell(command) for command in ("echo one", "cat src/a.py", "echo three")]
    code, _, err = stage.run(
        {"main": [*(Use([call]) for call in calls), Say("done")]}, scope=["calls=2"]
    )
    assert code == 0, err
    said = verified(stage)
    found = json.loads(said.out)
    assert (said.code, found["breaks"], found["open"]) == (0, [], [])
    joined = found["join"]
    assert [each["allowed"] for each in joined["matched"]] == [True, True, False]
    assert joined["decisions_without_an_execution"] == []
    # Somebody who can write the run takes the refusal out of it, and says it was allowed.
    (folder,) = stage.bench.home.runs.glob("run_*")
    path = folder / EVENTS
    path.write_bytes(path.read_bytes().replace(b'"allowed":false', b'"allowed":true '))
    assert verified(stage).code == 1


@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)
def test_the_calls_of_a_subagent_have_their_decisions(tmp_path: Path, tongue: Tongue) -> None:
    """What a subagent calls under its own ticket is joined like what its parent calls."""
    stage = tongue.on(tmp_path)
    new = stage.file("src/new.txt")
    code, _, err = stage.run(
        {
            "main": main(tongue, "[script sub] look around"),
            "sub": [Use([tongue.write(new)]), Say("nothing to see")],
        },
        scope=scope(tongue),
    )
    assert code == 0, err
    said = verified(stage)
    found = json.loads(said.out)
    assert (said.code, found["breaks"], found["open"]) == (0, [], [])
    assert len(found["join"]["matched"]) >= 2
