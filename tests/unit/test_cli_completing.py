"""Completion of the command line: what is offered, and that a real bash takes it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli import completing
from broker.cli.completing import joined, programs, scope_texts, session_ids
from broker.home import Home
from tests.console import COMMAND, process


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with nothing in it."""
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Home.find(os.environ)


def test_scopes(home: Home) -> None:
    """Keys and policies to begin with, the person's own too; tools behind `tools=`."""
    (home.config / "policies").mkdir(parents=True)
    (home.config / "policies/mine.scope").write_text("# Mine.\ncalls = 1\n")
    assert {"tools=", "until=", "@review", "@mine"} <= set(scope_texts(""))
    assert scope_texts("@mi") == ["@mine"]
    assert scope_texts("ca") == ["calls="]
    assert "tools=Read,@reads" in scope_texts("tools=Read,@r")
    assert scope_texts("paths=s") == []


def test_agents() -> None:
    """By the names of their programs, as they are typed."""
    assert {"claude", "cline"} <= set(programs("cl"))
    assert not any(name.endswith(".exe") for name in programs(""))


def test_sessions(home: Home) -> None:
    """The latest first, as short as they can be told apart, and whole where that is typed."""
    assert session_ids("") == []
    for n, name in enumerate(("a" * 26, "b" * 26, "b" * 8 + "c" * 18)):
        (home.sessions / name).mkdir(parents=True)
        os.utime(home.sessions / name, (n, n))
    assert session_ids("") == ["b" * 8 + "c" * 18, "b" * 26, "a" * 8]
    assert session_ids("a") == ["a" * 8]
    assert session_ids("a" * 10) == ["a" * 26]


def test_nothing_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read is not offered."""
    monkeypatch.setenv("BROKER_HOME", "relative")
    assert session_ids("") == []
    assert "tools=" in scope_texts("")
    assert scope_texts("@") == []


PIECES = st.lists(
    st.sampled_from(["run", "--scope", "@", "=", ":", "rev", "tools", ""]), max_size=6
)


@given(PIECES, st.text("0123456789x", max_size=2))
def test_joining_is_total_and_loses_nothing(pieces: list[str], number: str) -> None:
    """Every piece up to the one that is meant is still there, in its order."""
    words, at, had = joined({"COMP_WORDS": "\n".join(pieces), "COMP_CWORD": number})
    meant = int(number) if number.isdecimal() else max(len(pieces), 1) - 1
    assert "".join(words) == "".join(pieces[: meant + 1])
    assert at == len(words) - 1
    assert words[-1].startswith(had) if words else had == ""


@pytest.mark.parametrize(
    ("shell", "words", "offered"),
    [
        ("zsh", "broker run --scope @rev", "@review"),
        ("fish", "broker run --scope @rev", "@review"),
        ("zsh", "broker rec", "receipt"),
        ("fish", "broker init --agent gem", "gemini"),
    ],
)
def test_other_shells_are_answered(shell: str, words: str, offered: str) -> None:
    """In the form that each reads."""
    said = process(
        env={**os.environ, "_BROKER_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words,
             "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    )  # fmt: skip
    assert said.code == 0
    assert offered in said.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str) -> None:
    """`--show-completion` prints it, for the shell that it is asked for."""
    plain = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    said = process("--show-completion", shell, env=plain)
    assert said.code == 0
    assert f"complete_{shell}" in said.out


class Bash:
    """An interactive bash on a terminal, with the completion of `broker`."""

    def __init__(self, folder: Path, script: str) -> None:
        program = shutil.which("bash")
        if program is None:
            pytest.skip("bash is not installed")
        tool = folder / "bin/broker"
        tool.parent.mkdir()
        tool.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{COMMAND[2]}' \"$@\"\n")
        tool.chmod(0o755)
        (folder / "rc").write_text(f"PS1='ready> '\nbind 'set bell-style none'\n{script}\n")
        self.ours, theirs = pty.openpty()
        self._bash = subprocess.Popen(
            [program, "--noprofile", "--rcfile", str(folder / "rc"), "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "TERM": "dumb"},
            start_new_session=True,
        )
        os.close(theirs)
        self.until("ready> ")

    def until(self, text: str, patience_s: float = 30) -> str:
        """Return all that is shown until a text is."""
        shown = ""
        end_s = time.monotonic() + patience_s
        while not re.search(re.escape(text), shown) and time.monotonic() < end_s:
            if select.select([self.ours], [], [], 0.1)[0]:
                shown += os.read(self.ours, 4096).decode(errors="replace")
        assert text in shown, shown
        return shown

    def type(self, text: str) -> None:
        """Type a text; a tab completes."""
        os.write(self.ours, text.encode())

    def close(self) -> None:
        """End it."""
        self._bash.kill()
        self._bash.wait()
        os.close(self.ours)


def test_a_real_bash_completes(home: Home, tmp_path: Path) -> None:
    """What is typed once stays, and the rest is added behind it, once."""
    (home.sessions / ("a" * 26)).mkdir(parents=True)
    plain = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    bash = Bash(tmp_path, process("--show-completion", "bash", env=plain).out)
    try:
        for typed, completed in (
            ("broker run --scope @rev", "iew "),
            ("broker run --scope tools=@rea", "ds "),
            ("broker rece", "ipt "),
            ("broker run --scope calls=3 -- gem", "ini "),
            ("broker policy show rev", "iew "),
            ("broker receipt aaa", "aaaaa "),
        ):
            bash.type(f"{typed}\t")
            bash.until(completed)
            bash.type("\x01echo '=>' \n")  # what the line says now, from its beginning
            bash.until(f"=> {typed}{completed.strip()}\r")
    finally:
        bash.close()


def test_answers_are_cut_where_bash_has_them() -> None:
    """The words are put together before the question, and taken off the answer."""
    environ = {
        "_BROKER_COMPLETE": "complete_bash",
        "COMP_WORDS": "b\ntools\n=\nre",
        "COMP_CWORD": "3",
    }

    def answer() -> None:
        assert (environ["COMP_WORDS"], environ["COMP_CWORD"]) == ("b\ntools=re", "1")
        print("tools=read")
        raise SystemExit(0)

    assert completing.complete(answer, environ) == "read\n"
