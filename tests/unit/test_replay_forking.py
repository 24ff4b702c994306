"""A fork begins at a checkpoint, and says where that is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.capabilities.clock import FakeClock
from broker.errors import InputError
from broker.replay.forking import Fork, fork_at
from broker.trace.about import About, StartedBy
from broker.trace.reader import RunReader
from broker.trace.writer import RunWriter
from tests.replaykit import recording


def test_a_fork_begins_at_the_checkpoint_before(tmp_path: Path) -> None:
    """An event between two checkpoints leads to the earlier one, and that is said."""
    about = About(StartedBy("sh"), ["sh"], "/ws")
    run = RunWriter.create(tmp_path, about, clock=FakeClock(), randomness=os.urandom)
    run.event("fs.snapshot", "orca", attrs={"tree": "a" * 40})
    run.new_turn()
    asked = run.event("model.request", "agent")
    run.event("model.response", "model", causes=[asked])
    run.seal(0)
    found = fork_at(RunReader.open(run.folder), 2, "other")
    assert (found.point, found.asked, found.model) == (0, 2, "other")
    assert str(found) == (
        "from the recording up to event 0 (the checkpoint before 2), then live on other"
    )


def test_without_a_snapshot_the_conversation_is_forked(tmp_path: Path) -> None:
    """A run that recorded no snapshot begins at an answer, in an empty workspace, and says so."""
    rows = [("main", {"messages": ["a"]}, {}, {}), ("main", {"messages": ["a", "b"]}, {}, {})]
    reader = recording(tmp_path, rows)
    found = fork_at(reader, 2)
    assert found.point == 1
    assert "the workspace begins empty" in str(found)
    assert fork_at(reader, 3) == Fork(3, 3, "", found.note)
    with pytest.raises(InputError, match="the first answer is event 1"):
        fork_at(reader, 0)
