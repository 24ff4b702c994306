"""The declared check: it passes, or the run ends badly after its attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.capabilities.process import Finished, ScriptedProcesses, SystemProcesses
from broker.harness.verify import VerifyError, VerifyGate


def test_a_check_that_passes_says_nothing() -> None:
    """Success needs no word for the model, and one for the receipt."""
    told: list[str] = []
    gate = VerifyGate(ScriptedProcesses([Finished(0)]), "make", "/ws", told=told.append)
    assert gate.check() is None
    assert told == ["the check `make` passed"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Finished(2, b"1 failed"), "ends with 2"),
        (Finished(None), "takes too long"),
        (FileNotFoundError(2, "No such file"), "cannot be run"),
    ],
)
def test_a_check_that_fails_is_told_and_counted(answer: Finished | OSError, said: str) -> None:
    """The model reads why and how often it may still try; then the run is over."""
    told: list[str] = []
    processes = ScriptedProcesses([answer, answer])
    gate = VerifyGate(processes, "make", "/ws", attempts=2, told=told.append)
    first = gate.check()
    assert first is not None
    assert said in first
    assert "1 more times" in first
    with pytest.raises(VerifyError, match="2 times"):
        gate.check()
    assert len(told) == 2


def test_a_real_check_reads_the_workspace(tmp_path: Path) -> None:
    """The command runs in the workspace, and its output reaches the model."""
    gate = VerifyGate(SystemProcesses(), "cat a.txt; test -e done", str(tmp_path))
    (tmp_path / "a.txt").write_text("not yet")
    assert "not yet" in (gate.check() or "")
    (tmp_path / "done").touch()
    assert gate.check() is None


def test_a_key_does_not_reach_the_check() -> None:
    """Only a small environment is passed on."""
    processes = ScriptedProcesses([Finished(0)], environ={"PATH": "/bin", "API_KEY": "k"})
    VerifyGate(processes, "make", "/ws").check()
    assert processes.ran[0].environ == {"PATH": "/bin"}
