"""A run on a terminal, as it comes."""

from __future__ import annotations

from broker.agentloop.streaming import Streamed
from broker.harness.outcome import Ended, Result, Said
from broker.harness.script import ToolCall


def streamed() -> tuple[Streamed, list[str], list[str]]:
    """Return what shows a run, and what it has shown at either end."""
    out: list[str] = []
    errors: list[str] = []
    return Streamed(out.append, errors.append), out, errors


def test_text_and_calls_go_to_different_ends() -> None:
    """What the model says can be kept without what it called."""
    shown, out, errors = streamed()
    shown.tell("main", "I look.\nNow")
    shown.watch(Said("main", "I look.\nNow"))
    ended = Ended("main", ToolCall("read", {"path": "a"}), Result("done", "one"), True)
    shown.watch(ended)
    assert "".join(out) == "I look.\nNow\n"
    assert "".join(errors) == '  ok      read(path="a")\n          | one\n'


def test_a_helper_s_lines_bear_its_name() -> None:
    """Each line says whose it is, and two agents never share one."""
    shown, out, _ = streamed()
    for actor, text in (("main", "a"), ("helper-1", "b\n"), ("helper-1", "c"), ("main", "d")):
        shown.tell(actor, text)
    shown.end()
    assert "".join(out) == "a\nhelper-1: b\nhelper-1: c\nd\n"


def test_no_control_character_reaches_the_terminal() -> None:
    """Not even one that comes in pieces."""
    shown, out, _ = streamed()
    for text in ("\x1b", "[2J", "\u202e", "a\tb\r"):
        shown.tell("main", text)
    assert "".join(out) == "\ufffd[2J\ufffda    b\ufffd"
