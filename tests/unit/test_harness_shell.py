"""The shell: a command gets little, and leaves nothing running."""

from __future__ import annotations

import os
import time
from pathlib import Path

from broker.harness.shell import PASSED_ON, run_command
from broker.limits import MAX_RESULT_CHARS

PATH = {"PATH": os.environ["PATH"]}


def test_a_command_runs_in_its_folder(tmp_path: Path) -> None:
    """The output and the errors come back together, with the exit code."""
    ran = run_command("pwd; echo wrong >&2; exit 4", str(tmp_path), PATH)
    assert (ran.code, ran.output) == (4, f"{tmp_path}\nwrong\n")


def test_only_named_variables_are_passed_on(tmp_path: Path) -> None:
    """A key or a socket in the caller's environment does not reach the command."""
    ran = run_command("env", str(tmp_path), {**PATH, "LANG": "C", "API_KEY": "k", "BROKER_X": "y"})
    names = {line.split("=")[0] for line in ran.output.splitlines()}
    assert "LANG" in names
    assert names <= {*PASSED_ON, "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_command_has_no_input(tmp_path: Path) -> None:
    """A command that reads its input finds the end of it at once."""
    assert run_command("cat", str(tmp_path), PATH).code == 0


def test_a_slow_command_is_stopped(tmp_path: Path) -> None:
    """At the time limit the command ends, and what it wrote until then is kept."""
    begun = time.monotonic()
    ran = run_command("echo early; sleep 30", str(tmp_path), PATH, timeout_s=0.3)
    assert (ran.code, ran.output) == (None, "early\n")
    assert time.monotonic() - begun < 10


def test_nothing_outlives_the_command(tmp_path: Path) -> None:
    """What a command left in the background is ended with it."""
    run_command("(sleep 0.4; touch late) >/dev/null 2>&1 & echo done", str(tmp_path), PATH)
    time.sleep(0.8)
    assert not (tmp_path / "late").exists()


def test_endless_output_is_cut(tmp_path: Path) -> None:
    """A command that writes without end fills no memory."""
    ran = run_command("yes | head -c 3000000", str(tmp_path), PATH)
    assert ran.code == 0
    assert len(ran.output) == 4 * MAX_RESULT_CHARS
