"""The shell: a command gets little, and leaves nothing running."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.capabilities.process import ScriptedProcesses, SystemProcesses
from broker.harness.files import ToolError
from broker.harness.shell import PASSED_ON, run_command
from broker.limits import MAX_RESULT_CHARS

REAL = SystemProcesses()


def test_a_command_runs_in_its_folder(tmp_path: Path) -> None:
    """The output and the errors come back together, with the exit code."""
    ran = run_command(REAL, "pwd; echo wrong >&2; exit 4", str(tmp_path))
    assert (ran.code, ran.output) == (4, f"{tmp_path}\nwrong\n")


def test_only_named_variables_are_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key or a socket in the caller's environment does not reach the command."""
    for name, value in {"LANG": "C", "API_KEY": "k", "BROKER_X": "y"}.items():
        monkeypatch.setenv(name, value)
    ran = run_command(REAL, "env", str(tmp_path))
    names = {line.split("=")[0] for line in ran.output.splitlines()}
    assert "LANG" in names
    assert names <= {*PASSED_ON, "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_command_has_no_input(tmp_path: Path) -> None:
    """A command that reads its input finds the end of it at once."""
    assert run_command(REAL, "cat", str(tmp_path)).code == 0


def test_a_slow_command_is_stopped(tmp_path: Path) -> None:
    """At the time limit the command ends, and what it wrote until then is kept."""
    begun = time.monotonic()
    ran = run_command(REAL, "echo early; sleep 30", str(tmp_path), timeout_s=0.3)
    assert (ran.code, ran.output) == (None, "early\n")
    assert time.monotonic() - begun < 10


def test_nothing_outlives_the_command(tmp_path: Path) -> None:
    """What a command left in the background is ended with it."""
    run_command(REAL, "(sleep 0.4; touch late) >/dev/null 2>&1 & echo done", str(tmp_path))
    time.sleep(0.8)
    assert not (tmp_path / "late").exists()


def test_endless_output_is_cut(tmp_path: Path) -> None:
    """A command that writes without end fills no memory."""
    ran = run_command(REAL, "yes | head -c 3000000", str(tmp_path))
    assert ran.code == 0
    assert len(ran.output) == 16 * MAX_RESULT_CHARS + len("\n(there was more)")


def test_a_shell_that_cannot_be_started_is_an_error() -> None:
    """Where there is no shell the model reads so."""
    with pytest.raises(ToolError, match="cannot be started"):
        run_command(ScriptedProcesses(), "make", "/ws")
