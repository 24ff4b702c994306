"""The reference agent as a command: it runs held, or it does not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from broker.capabilities.bundle import Capabilities, real_capabilities
from broker.capabilities.fs import SystemFiles, SystemFolder
from broker.capabilities.process import SystemProcesses
from broker.capabilities.terminal import FakeTerminal
from broker.harness.__main__ import main as started
from broker.home import Home
from broker.receipt import Receipts, load_key
from broker.receipt.audit import audit
from broker.records.model import ToolAudit
from broker.records.store import read_records
from broker.sessions.ground import key_path


class Typed(SystemProcesses):
    """The machine's processes, started with other words."""

    def __init__(self, words: list[str]) -> None:
        self._words = tuple(words)

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of this test."""
        return self._words


def run(words: list[str], *typed: str, tty: bool = False) -> tuple[int, FakeTerminal]:
    """Start the agent with words; return its exit code and what was shown."""
    terminal = FakeTerminal(typed, tty=tty)
    world = replace(real_capabilities(), process=Typed(words), terminal=terminal)
    assert isinstance(world, Capabilities)
    return started(world), terminal


def main(words: list[str]) -> int:
    """Start the agent with words; return its exit code."""
    return run(words)[0]


def script(tmp_path: Path, *calls: dict[str, object]) -> str:
    """A script with one turn of these calls."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"lanes": {"main": [{"text": "I begin.", "calls": calls}]}}))
    return str(path)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A command line up to the script: a workspace with a file, and a scope."""
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/a.py").write_text("a = 1\n")
    return ["--workspace", str(tmp_path / "ws"), "--scope", "tools=read,write"]


READ = {"tool": "read", "arguments": {"path": "src/a.py"}, "expect": "done"}
FETCH = {"tool": "fetch", "arguments": {"url": "https://a.test/"}, "expect": "refused tools"}
WRITE = {"tool": "write", "arguments": {"path": "b", "content": "b"}}


def test_a_script_runs_and_leaves_a_receipt_that_verifies(tmp_path: Path, words: list[str]) -> None:
    """Alone, the agent opens a session, is held to it, and seals its receipt."""
    code, terminal = run([*words, "--intent", "look", script(tmp_path, READ, FETCH)])
    assert code == 0
    shown = terminal.shown
    assert "main: I begin." in shown
    assert "refused by `tools`" in shown
    home = Home.find(os.environ)
    key = load_key(key_path(home))
    receipts = Receipts(home, key)
    sid = receipts.find(None)
    assert audit(receipts, sid).state == "SEALED"


def test_a_surprise_is_exit_code_1(tmp_path: Path, words: list[str]) -> None:
    """A call that comes out otherwise than the script expects shows in the exit code."""
    assert main([*words, script(tmp_path, {**READ, "expect": "refused"})]) == 1


def test_what_was_not_allowed_beforehand_is_not_done(tmp_path: Path, words: list[str]) -> None:
    """Writing needs a yes even where the ticket allows it, and --allow gives it."""
    denied = {**WRITE, "expect": "refused permission"}
    assert main([*words, script(tmp_path, denied)]) == 0
    assert not (tmp_path / "ws/b").exists()
    assert main([*words, "--allow", "write", script(tmp_path, {**WRITE, "expect": "done"})]) == 0
    assert (tmp_path / "ws/b").read_text() == "b"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--scope", "tool=read"], "did you mean `tools`?"),
        (["--allow", "writing"], "no such effect `writing`"),
        (["--workspace", "/missing/folder"], "/missing/folder"),
        (["--mode", "root"], "there is no mode `root`"),
        (["--verify", " "], "`--verify` names no command"),
        (["--depth", "6"], "0 to 5 deep"),
        (["--depth", "x"], "invalid int value"),
        (["--what"], "unrecognized arguments"),
    ],
)
def test_bad_input_is_exit_code_2(
    tmp_path: Path,
    words: list[str],
    more: list[str],
    said: str,
) -> None:
    """What cannot be understood is said, and nothing runs."""
    code, terminal = run([*words, *more, script(tmp_path, WRITE)])
    assert code == 2
    assert said in terminal.errors
    assert not (tmp_path / "ws/b").exists()


def test_an_agent_that_nobody_holds_does_not_start(
    tmp_path: Path,
) -> None:
    """Without a session and without a scope nothing runs."""
    code, terminal = run([script(tmp_path, READ)])
    assert code == 2
    assert "no session" in terminal.errors


def test_inside_a_run_nothing_is_minted(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session is named, a scope of one's own is refused and a dead one does not hold."""
    monkeypatch.setenv("BROKER_SOCKET", str(tmp_path / "gone"))
    assert main([*words, script(tmp_path, READ)]) == 2
    assert main([script(tmp_path, READ)]) == 6


@pytest.mark.parametrize(("typed", "done"), [("y", True), ("n", False), (None, False)])
def test_the_person_at_the_terminal_is_asked(
    tmp_path: Path, words: list[str], typed: str | None, done: bool
) -> None:
    """Where somebody sits, what the mode asks about is asked, and only a yes is a yes."""
    lines = [] if typed is None else [typed]
    _, terminal = run([*words, script(tmp_path, WRITE)], *lines, tty=True)
    assert (tmp_path / "ws/b").exists() == done
    assert 'write(path="b", content="b")' in terminal.shown


def test_a_mode_runs_what_it_lets_through(tmp_path: Path, words: list[str]) -> None:
    """In `auto` writing needs no yes; in `read-only` no yes helps."""
    assert main([*words, "--mode", "auto", script(tmp_path, {**WRITE, "expect": "done"})]) == 0
    denied = script(tmp_path, {**WRITE, "expect": "refused permission"})
    assert main([*words, "--mode", "read-only", "--allow", "write", denied]) == 0


def configured(broker_home: Path, mode: str) -> None:
    """Write a configuration with a mode."""
    (broker_home / "config").mkdir(mode=0o700, exist_ok=True)
    path = broker_home / "config/broker.toml"
    path.write_text(f'[harness]\nmode = "{mode}"\n')
    path.chmod(0o600)


def test_a_configuration_sets_the_mode_but_never_yolo(
    tmp_path: Path, words: list[str], broker_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that says yolo ends the run with code 3, unless a person confirms or types it."""
    written = script(tmp_path, {**WRITE, "expect": "done"})
    configured(broker_home, "auto")
    assert main([*words, written]) == 0
    configured(broker_home, "yolo")
    code, terminal = run([*words, written])
    assert (code, "configuration alone" in terminal.errors) == (3, True)
    assert main([*words, "--mode", "yolo", written]) == 0
    monkeypatch.setenv("BROKER_YOLO", "1")
    assert main([*words, written]) == 0
    configured(broker_home, "rot")
    assert main([*words, written]) == 3


def test_a_check_that_does_not_pass_is_exit_code_9(tmp_path: Path, words: list[str]) -> None:
    """A run that changed something ends well only when its declared check passes."""
    written = script(tmp_path, {**WRITE, "expect": "done"})
    allowed = [*words, "--allow", "write"]
    code, terminal = run([*allowed, "--verify", "false", written])
    assert (code, "3 times" in terminal.errors) == (9, True)
    assert main([*allowed, "--verify", "test -e b", written]) == 0
    assert main([*allowed, "--verify", "false", script(tmp_path, READ)]) == 0


def test_help_is_shown() -> None:
    """The help names every option, and is no error."""
    terminal = FakeTerminal()
    world = replace(real_capabilities(), process=Typed(["--help"]), terminal=terminal)
    with pytest.raises(SystemExit) as caught:
        started(world)
    assert caught.value.code in (0, None)
    for option in ("--scope", "--mode", "--allow", "--depth", "--verify", "--workspace"):
        assert option in terminal.shown


def test_it_is_a_command(tmp_path: Path, words: list[str]) -> None:
    """As a process of its own it has the same exit codes and output."""
    command = [sys.executable, "-m", "broker.harness", *words, script(tmp_path, READ)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "main: I begin." in done.stdout) == (0, True)
    bad = subprocess.run(
        [*command[:3], "--depth", "9", script(tmp_path, READ)], capture_output=True, check=False
    )
    assert bad.returncode == 2
    assert b"Traceback" not in bad.stderr


def test_the_workspace_s_hooks_run_only_when_trusted(tmp_path: Path, words: list[str]) -> None:
    """Hooks that nobody trusts are said and not run; trusted ones veto, until they change."""
    (tmp_path / "ws/.broker").mkdir()
    hooks = tmp_path / "ws/.broker/hooks.toml"
    hooks.write_text('[[hook]]\nname = "no"\ncommand = ["/bin/sh", "-c", "exit 1"]\n')
    read = script(tmp_path, READ)
    code, terminal = run([*words, read])
    assert (code, "do not run" in terminal.errors) == (0, True)
    stopped = script(tmp_path, {**READ, "expect": "refused hook"})
    assert main([*words, "--trust", stopped]) == 0
    assert main([*words, stopped]) == 0
    hooks.write_text(hooks.read_text() + "\n")
    code, terminal = run([*words, script(tmp_path, READ)])
    assert (code, "do not run" in terminal.errors) == (0, True)
    hooks.write_text("[[hook]]\n")
    assert main([*words, script(tmp_path, READ)]) == 3


def test_a_call_that_does_not_fit_leaves_an_audit(tmp_path: Path, words: list[str]) -> None:
    """What was stopped before the ticket stands beside the receipt, and a clean call does not."""
    bad = {"tool": "read", "arguments": {"path": 3}, "expect": "failed"}
    assert main([*words, script(tmp_path, READ, bad)]) == 0
    (folder,) = Home.find(os.environ).sessions.iterdir()
    records = read_records(SystemFiles().below(str(folder / "records"))).records
    assert [(r.tool, r.outcome) for r in records if isinstance(r, ToolAudit)] == [
        ("read", "invalid_arguments")
    ]


def test_audits_that_cannot_be_kept_keep_nobody(tmp_path: Path, words: list[str]) -> None:
    """A run depends on its receipt, and not on what explains it."""

    class Closed(SystemFiles):
        def below(self, path: str) -> SystemFolder:
            if path.endswith("/records"):
                raise OSError(13, "permission denied")
            return super().below(path)

    terminal = FakeTerminal(tty=False)
    typed = Typed([*words, script(tmp_path, READ)])
    world = replace(real_capabilities(), process=typed, terminal=terminal, fs=Closed())
    assert started(world) == 0
