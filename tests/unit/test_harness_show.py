"""A run in lines: what matters stands there, and no text can pretend to be something else."""

from __future__ import annotations

from broker.harness.outcome import Called, Ended, Result, Said
from broker.harness.script import ToolCall
from broker.harness.show import call_text, ended_lines, plain, printer

READ = ToolCall("read", {"path": "a.py"}, "done")


def test_a_run_is_written_in_lines() -> None:
    """Each event gives its lines, and a call shows once, when it has ended."""
    out: list[str] = []
    watch = printer(out.append)
    watch(Said("main", "I look."))
    watch(Called("main", READ))
    watch(Ended("main", READ, Result("done", "a = 1\n"), True))
    assert out == ["main: I look.\n", '  ok      read(path="a.py")\n', "          | a = 1\n"]


def test_a_refusal_is_shown_whole() -> None:
    """A refusal's text is never cut."""
    text = "refused by `paths`: " + "no, and why " * 30
    lines = ended_lines(Ended("main", READ, Result("refused", text, "paths"), True))
    assert lines[0].startswith("  REFUSED read(")
    assert " ".join(line.strip() for line in lines[1:]) == text.strip()
    assert max(map(len, lines)) <= 96


def test_a_long_result_is_shown_in_part() -> None:
    """Only the beginning of a result is shown, with how much is left out."""
    lines = ended_lines(Ended("main", READ, Result("done", "x\n" * 10), True))
    assert lines[-1].strip() == "| … 6 more lines"


def test_a_surprise_is_shown() -> None:
    """What the script expected stands below what happened instead."""
    lines = ended_lines(Ended("main", READ, Result("failed", "no"), False))
    assert lines[-1].strip() == "! the script expected: done"


def test_nothing_moves_the_cursor() -> None:
    """Control, direction and half characters are shown as what they are not: harmless."""
    odd = "\x1b]0;x\x07\r\u202e\u200b\ud800"
    assert plain(odd).count("\N{REPLACEMENT CHARACTER}") == 6
    assert call_text(ToolCall("read", {"path": odd})).isprintable()
    assert len(call_text(ToolCall("read", {"path": "x" * 500}))) == 96
