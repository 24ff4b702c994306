"""`broker runs`: what no word, an option and another word mean."""

from __future__ import annotations

from pathlib import Path

from tests.console import Console
from tests.unit.tracekit import whole


def test_no_word_lists_and_another_shows(broker: Console, broker_home: Path) -> None:
    """Nothing and options are for `list`, a run's name is for `show`, a command is itself."""
    run = whole(broker_home / "state" / "runs")
    listed = broker("runs", "list")
    assert listed.code == 0
    assert broker("runs").out == listed.out
    assert broker("runs", "--json").out == broker("runs", "list", "--json").out
    shown = broker("runs", "show", run.run_id)
    assert broker("runs", run.run_id).out == shown.out
    assert broker("runs", run.run_id[4:]).out == shown.out
    assert broker("runs", "events").code == 0


def test_help_names_every_command(broker: Console) -> None:
    """The page of help teaches what there is, and a wrong word names the way on."""
    said = broker("runs", "--help")
    for name in ("list", "show", "events", "checkpoints", "graph", "export", "scrub", "gc"):
        assert f"\n  {name} " in said.out
    said = broker("runs", "nonsense")
    assert said.code == 2
    assert "broker runs" in said.err
