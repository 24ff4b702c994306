"""What a person is told of refusals, and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.authorize import ASK
from broker.calls import ALLOW, Decision, Refusal
from broker.events import CallDecided, OpinionFailed, SessionSealed
from broker.telling import MAX_KEPT_LINES, MAX_LINE_CHARS, Telling, has_terminal, told
from tests.runkit import ASKER
from tests.unit.test_cli_project import at_terminal


def decided(caveat: str, *, actor: str = "main", reason: str = "no") -> CallDecided:
    """Return the event of a refused call, or of an allowed one."""
    decision = Decision(Refusal(caveat, "x", f"{reason}; {ASK}")) if caveat else ALLOW
    return CallDecided(0, "s", 1, "c", "fetch", "t", actor, decision)


def test_a_line_for_each_refusal() -> None:
    """As it comes, with the caveat, the tool and the reason; an allowed call says nothing."""
    lines: list[str] = []
    telling = Telling(lines.append, live=True)
    for event in (decided("tools"), decided(""), SessionSealed(0, "s", "complete")):
        telling.hear(event)
    telling.hear(decided("paths", actor="agent:reviewer:1"))
    assert lines == [
        "refused (tools): fetch: no",
        "refused (paths) agent:reviewer:1: fetch: no",
    ]
    assert telling.rest() == ()


def test_counts_by_caveat() -> None:
    """The most first, and names in order where they are as many."""
    telling = Telling(lambda _: None, live=False)
    for caveat in ("tools", "paths", "tools", "calls", ""):
        telling.hear(decided(caveat))
    assert telling.counts() == "tools 2, calls 1, paths 1"


def test_lines_are_kept_while_the_agent_has_the_terminal() -> None:
    """Nothing is said meanwhile; afterwards the last ones, and how many there were before."""
    lines: list[str] = []
    telling = Telling(lines.append, live=False)
    for n in range(MAX_KEPT_LINES + 3):
        telling.hear(decided("tools", reason=f"no {n}"))
    assert lines == []
    rest = telling.rest()
    assert rest[0] == "3 refusals before these"
    assert rest[-1] == f"refused (tools): fetch: no {MAX_KEPT_LINES + 2}"
    assert len(rest) == MAX_KEPT_LINES + 1


def test_a_long_reason_is_cut() -> None:
    """One line stays one line."""
    line = told("fetch", Refusal("tools", "x", "y" * 1000))
    assert len(line) == MAX_LINE_CHARS
    assert line.endswith("…")


class Fake:
    """A stream that is a terminal, or is none."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        """Whether it is one."""
        return self._terminal


@pytest.mark.parametrize("which", [None, 0, 1, 2])
def test_a_screen_needs_all_three(which: int | None) -> None:
    """An agent whose input or output goes elsewhere draws none."""
    assert has_terminal([Fake(n != which) for n in range(3)]) == (which is None)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_real_run_tells_its_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """On a terminal after the agent has ended, elsewhere while it runs; and counts at the end."""
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    (tmp_path / "ws/src").mkdir(parents=True)
    (tmp_path / "ws/src/a.py").touch()
    monkeypatch.chdir(tmp_path / "ws")
    agent = [sys.executable, "-c", ASKER + "\nprint('the agent has ended', flush=True)", "2"]
    words = ["run", "--scope", "tools=Read", "--", *agent]
    if terminal:
        shown, code = at_terminal(*words, answers=[])
    else:
        done = subprocess.run(
            [sys.executable, "-c", "from broker.cli.main import main; main()", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        shown, code = done.stdout, done.returncode
    assert code == 0, shown
    first = shown.index("broker: refused (tools): Bash: ")
    assert (first > shown.index("the agent has ended")) == terminal
    assert shown.count("broker: refused (tools)") == 2
    assert "2 allowed, 2 refused (tools 2); receipt" in shown


def test_an_opinion_that_could_not_be_had_is_told_once_for_each_reason() -> None:
    """A decision point that is gone says one line, kept while the agent has the screen."""
    gone = [OpinionFailed(n, "s", "corp", "nobody there") for n in range(3)]
    lines: list[str] = []
    live, kept = Telling(lines.append, live=True), Telling(lines.append, live=False)
    for event in (*gone, OpinionFailed(9, "s", "corp", "x" * 9_999)):
        live.hear(event)
        kept.hear(event)
    assert lines[0] == "warning: opinion `corp` could not be had: nobody there"
    assert len(lines) == 2
    assert len(lines[1]) <= MAX_LINE_CHARS + len("warning: ")
    assert kept.rest() == tuple(lines)
    assert kept.counts() == ""
