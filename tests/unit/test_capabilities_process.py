"""Processes: a command has an end, a bounded output, and nothing that outlives it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from broker.capabilities.process import Command, Finished, ScriptedProcesses, SystemProcesses

REAL = SystemProcesses()
PATH = {"PATH": os.environ["PATH"]}


def shell(text: str, **more: object) -> Finished:
    """Run a text by the shell."""
    return REAL.run(Command(("/bin/sh", "-c", text), "/", PATH, **more))  # type: ignore[arg-type]  # the fields of a command


def test_what_a_command_says_comes_back() -> None:
    """The output, the errors and the code come back apart, or merged where that was asked."""
    assert shell("echo out; echo err >&2; exit 4") == Finished(4, b"out\n", b"err\n")
    assert shell("echo out; echo err >&2", merged=True) == Finished(0, b"out\nerr\n")


def test_the_environment_and_folder_are_those_given(tmp_path: Path) -> None:
    """A command gets the variables that it is given, and nothing of ours."""
    ran = REAL.run(Command(("/usr/bin/env",), str(tmp_path), {"ONLY": "this"}))
    assert ran.stdout == b"ONLY=this\n"
    where = REAL.run(Command(("/bin/sh", "-c", "pwd -P"), str(tmp_path)))
    assert where.stdout.decode().strip() == os.path.realpath(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_input_and_output_of_any_size_do_not_block(size: int) -> None:
    """A command that reads all and writes all is served at both ends at once."""
    ran = shell("cat", stdin=b"x" * size, output_bytes=4_000_000)
    assert (ran.code, len(ran.stdout), ran.cut) == (0, size, False)


def test_a_command_that_does_not_listen_is_no_error() -> None:
    """Input that nobody reads is dropped."""
    assert shell("exec <&-; echo done", stdin=b"x" * 1_000_000).stdout == b"done\n"


def test_output_is_bounded() -> None:
    """A command that writes without end fills no memory, and it shows that something is cut."""
    ran = shell("head -c 3000000 /dev/zero", output_bytes=1000)
    assert (ran.code, len(ran.stdout), ran.cut) == (0, 1000, True)
    assert not shell("printf 1234", output_bytes=4).cut


@pytest.mark.parametrize("text", ["echo early; sleep 30", "echo early; trap '' TERM; sleep 30",
                                  "echo early; sleep 30 & exec >&- 2>&-; sleep 30"])  # fmt: skip
def test_a_slow_command_is_stopped(text: str) -> None:
    """At the time limit the command ends, and what it wrote until then is kept."""
    begun = time.monotonic()
    ran = shell(text, timeout_s=0.4)
    assert (ran.code, ran.stdout) == (None, b"early\n")
    assert time.monotonic() - begun < 10


def test_nothing_outlives_a_command(tmp_path: Path) -> None:
    """What it left in the background ends with it, and does not keep the caller waiting."""
    begun = time.monotonic()
    ran = shell(f"(sleep 1; touch {tmp_path}/late; sleep 30) & echo done", timeout_s=25)
    assert (ran.code, ran.stdout) == (0, b"done\n")
    assert time.monotonic() - begun < 1
    time.sleep(1.5)
    assert not (tmp_path / "late").exists()


def test_one_that_left_the_group_does_not_keep_the_caller_waiting() -> None:
    """A process that made itself a session of its own holds a pipe for a moment and no longer."""
    away = "import os,time;os.setsid();time.sleep(5)"
    begun = time.monotonic()
    ran = shell(f'{sys.executable} -c "{away}" & sleep 0.5; echo done', timeout_s=25)
    assert (ran.code, ran.stdout) == (0, b"done\n")
    assert time.monotonic() - begun < 4


def test_a_signal_is_told() -> None:
    """A command that a signal ended has that signal's number as its code, negative."""
    assert shell("kill -9 $$").code == -9


@pytest.mark.parametrize("word", ["/missing/command", "nul\0"])
def test_what_cannot_be_started_is_an_error(word: str) -> None:
    """A command that is not there, or cannot be one, is an ``OSError``."""
    with pytest.raises(OSError):  # noqa: PT011 - the two have no word in common
        REAL.run(Command((word,), "/"))


def test_this_process_tells_what_it_was_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, environment, folder and platform are this process's own."""
    monkeypatch.setattr(sys, "argv", ["name", "a", "b"])
    monkeypatch.setenv("SOME_NAME", "1")
    assert (REAL.argv, REAL.environ["SOME_NAME"]) == (("a", "b"), "1")
    assert (REAL.cwd, REAL.platform) == (os.getcwd(), sys.platform)


def test_scripted_processes_end_as_the_script_says() -> None:
    """Answers come in order, cut as the real ones are; without one nothing can be started."""
    asked = Command(("make",), "/ws", output_bytes=2)
    processes = ScriptedProcesses(
        [Finished(0, b"done"), OSError(13, "no"), lambda command: Finished(len(command.argv))]
    )
    assert processes.run(asked) == Finished(0, b"do", cut=True)
    with pytest.raises(OSError, match="no"):
        processes.run(asked)
    assert processes.run(asked).code == 1
    with pytest.raises(FileNotFoundError, match="script of processes is over"):
        processes.run(asked)
    assert processes.ran == [asked] * 4
