"""The process that an agent's hook starts, put ready: what is written, and what is started."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, adapter_for
from broker.agents.client import (
    DEADLINE_MS,
    TIMEOUT_S,
    compiled_client,
    hook_command,
    interpreter,
    telling_command,
    write_new,
)
from tests.hookkit import PAYLOAD, Stand, within


def test_the_client_is_compiled_for_the_interpreter_that_runs_it(tmp_path: Path) -> None:
    """The compiled client starts without its source, by an absolute path."""
    words = compiled_client(tmp_path / "hook.pyc")
    assert os.path.isabs(words[0])
    assert words[1:3] == ("-I", "-S")
    assert str(tmp_path / "hook.pyc") == words[3]


def test_the_hook_gives_up_before_the_agent_does() -> None:
    """The hook's own deadline lies well within the time that agents are told to give it."""
    assert DEADLINE_MS <= TIMEOUT_S * 1_000 / 2


def test_whatever_fails_the_command_refuses(tmp_path: Path) -> None:
    """A client that is missing ends in the words that the agent takes for a refusal."""
    gone = (interpreter(), "-I", "-S", str(tmp_path / "gone & away.pyc"))
    done = subprocess.run(
        hook_command(gone, tmp_path / "s", "codex"), shell=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"refused" in done.stderr
    done = subprocess.run(
        hook_command(gone, tmp_path / "s", "cline", failed="echo no"),
        shell=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"no\n")


@pytest.mark.parametrize("name", ["claude", "cline", "copilot", "gemini", "qwen"])
def test_the_shell_around_a_hook_says_nothing(tmp_path: Path, name: str) -> None:
    """A start-up file that a variable names, and would print a line, is not read in a run."""
    for folder in ("session", "ws", "home", "bin"):
        (tmp_path / folder).mkdir()
    noisy = tmp_path / "noisy.sh"
    noisy.write_text("echo a line\n")
    given = {"BASH_ENV": str(noisy), "ENV": str(noisy), "SHELLOPTS": "noexec"}
    (tmp_path / "bin/node").touch(mode=0o755)
    path = f"{os.environ['PATH']}:{tmp_path / 'bin'}"
    environ = {"HOME": str(tmp_path / "home"), "PATH": path, **given}
    adapter = adapter_for([name])
    command = (name, *adapter.trial, "-p", "go")
    session, socket = tmp_path / "session", tmp_path / "s"
    prepared = adapter.prepare(Launch(command, environ, tmp_path / "ws", session, socket))
    assert {variable: prepared.environ[variable] for variable in given} == dict.fromkeys(given, "")
    done = subprocess.run(
        ["bash", "-c", "echo said"],
        env={**environ, **prepared.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "said\n"


def test_what_is_told_at_leisure_is_told_whole(tmp_path: Path) -> None:
    """The shell ends before the session knows, and the session is told all the same."""
    with Stand(tmp_path / "s", lambda _: time.sleep(1)) as stand:
        client = compiled_client(tmp_path / "hook.pyc")
        began_s = time.monotonic()
        done = subprocess.run(
            telling_command(client, stand.path, "codex", waits=False),
            shell=True,
            input=PAYLOAD * 500,
            capture_output=True,
            check=False,
        )
        assert time.monotonic() - began_s < 0.9
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert within(10, lambda: bool(stand.asked))
        assert stand.asked == [b"hook codex\n" + PAYLOAD * 500]


def test_a_file_of_ours_is_new_and_private(tmp_path: Path) -> None:
    """What is written is for this user, and never over or through what is there."""
    write_new(tmp_path / "a", b"x")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "a", b"y")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "link", b"y")
    assert (tmp_path / "a").read_bytes() == b"x"
