"""`broker agent` as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.console import Console

SCRIPT = {"main": [Use([("read", {"path": "a.txt"})]), Say("Done.")]}


@pytest.fixture
def broker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Console:
    """The command, in this process and in a workspace, without keys."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return Console(capsys, monkeypatch)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "give a PROMPT"),
        (("hi",), 2, "no model"),
        (("--model", "anthropic/m", "hi"), 4, "ANTHROPIC_API_KEY"),
        (("--model", "anthropic/m", "--scope", "tool=x", "hi"), 4, "ANTHROPIC_API_KEY"),
        (("--json",), 2, "one PROMPT"),
        (("--workspace", "nowhere", "hi"), 2, "no such folder"),
        (("--resume", "zzz", "hi"), 2, "zzz"),
        (("--turns", "0", "hi"), 2, "--turns"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_code(
    broker: Console, words: tuple[str, ...], code: int, said: str
) -> None:
    """The codes are those of the harness (row 29), and nothing is written to standard output."""
    done = broker("agent", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_fault_of_the_scope_is_pointed_at(
    broker: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A malformed scope has a caret, as everywhere."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    done = broker("agent", "--scope", "tool=x", "hi")
    assert done.code == 2
    assert "^" in done.err


def test_inside_a_run_it_is_refused(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is held mints no ticket by starting another one (row 15)."""
    monkeypatch.setenv("BROKER_SOCKET", "/nowhere")
    done = broker("agent", "--scope", "tools=shell", "hi")
    assert done.code == 2
    assert "inside a run" in done.err


def test_one_document(broker: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--json` answers with what was said, the sessions, the calls and the tokens."""
    with LoopbackModel(SCRIPT) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        done = broker("agent", "--scope", "tools=read", "--json", "[script main] go")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert document["said"] == "Done."
    assert document["calls"] == {"done": 1, "failed": 0, "refused": 0}
    assert document["usage"]["input"] == 2


def test_a_project_s_scope_must_be_accepted(broker: Console, tmp_path: Path) -> None:
    """Where no scope is typed, a file that nobody accepted gives none."""
    (tmp_path / ".broker").mkdir()
    (tmp_path / ".broker/broker.toml").write_text(
        '[scopes]\ndefault = ["tools=@reads"]\n', encoding="utf-8"
    )
    done = broker("agent", "--model", "anthropic/m", "hi")
    assert done.code in (2, 3)
    assert "broker.toml" in done.err
