"""The reference agent as a command: it runs held, or it does not run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.harness.__main__ import ask_person, main
from broker.home import Home
from broker.receipt import Receipts, load_key
from broker.receipt.audit import audit
from broker.sessions.ground import key_path


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


def test_a_script_runs_and_leaves_a_receipt_that_verifies(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone, the agent opens a session, is held to it, and seals its receipt."""
    assert main([*words, "--intent", "look", script(tmp_path, READ, FETCH)]) == 0
    shown = capsys.readouterr().out
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
    ],
)
def test_bad_input_is_exit_code_2(
    tmp_path: Path,
    words: list[str],
    more: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What cannot be understood is said in a line, and nothing runs."""
    assert main([*words, *more, script(tmp_path, WRITE)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "ws/b").exists()


def test_an_agent_that_nobody_holds_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a session and without a scope nothing runs."""
    assert main([script(tmp_path, READ)]) == 2
    assert "no session" in capsys.readouterr().err


def test_inside_a_run_nothing_is_minted(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session is named, a scope of one's own is refused and a dead one does not hold."""
    monkeypatch.setenv("BROKER_SOCKET", str(tmp_path / "gone"))
    assert main([*words, script(tmp_path, READ)]) == 2
    assert main([script(tmp_path, READ)]) == 2


@pytest.mark.parametrize(
    ("typed", "answer"), [("y", True), ("YES ", True), ("", False), ("no", False), (None, False)]
)
def test_only_a_clear_yes_is_a_yes(
    typed: str | None, answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anything but yes at the terminal is a no, and so is its end."""

    def read(prompt: str) -> str:
        if typed is None:
            raise EOFError
        return typed

    monkeypatch.setattr("builtins.input", read)
    assert ask_person("shell (unseen)") is answer
