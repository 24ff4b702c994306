"""The lines of a person, and Ctrl-C."""

from __future__ import annotations

from typing import Any

import pytest

from broker.agentloop.streaming import Streamed
from broker.agentloop.talk import converse, told_error
from broker.errors import AttenuationError, InputError, ScopeError
from broker.harness.items import SlashCommand
from broker.harness.registry import Registry
from broker.intent import TypedLine
from tests.agentkit import Typist

STOP = KeyboardInterrupt()


class Desk:
    """A sitting that keeps what it is told, and is interrupted where its script says so."""

    def __init__(self, *said: Any) -> None:
        self.said = list(said)
        self.heard: list[TypedLine] = []
        self.over = False
        registry = Registry()
        with registry.batch() as batch:
            batch.add(
                SlashCommand("echo", "says it", lambda rest: f"{rest}\nand \x1b more"),
                SlashCommand("quit", "leaves", self.leave),
            )
        self.composition = type("Made", (), {"registry": registry})

    def leave(self, rest: str) -> str:
        """End."""
        self.over = True
        return ""

    def say(self, line: TypedLine) -> str:
        """Keep a line."""
        self.heard.append(line)
        came = self.said.pop(0) if self.said else ""
        if isinstance(came, BaseException):
            raise came
        return str(came)


def talk(desk: Desk, *typed: Any, first: TypedLine | None = None) -> tuple[str, Typist]:
    """Follow typed lines; return how it ended, and the terminal."""
    terminal = Typist(typed)
    shown = Streamed(terminal.write, terminal.write_error)
    return converse(desk, terminal, shown, first), terminal  # type: ignore[arg-type]  # a small one


def test_lines_are_followed_until_there_are_no_more() -> None:
    """Blank lines are none, and each line counts as typed at a terminal."""
    desk = Desk()
    assert talk(desk, "go", "  ", "on", first=TypedLine("begin", "argument"))[0] == "complete"
    assert [(line.text, line.channel) for line in desk.heard] == [
        ("begin", "argument"),
        ("go", "terminal"),
        ("on", "terminal"),
    ]


def test_a_command_is_run_and_shown_plainly() -> None:
    """What it returns is shown without control characters, and the agent hears nothing of it."""
    desk = Desk()
    reason, terminal = talk(desk, "/echo a b", "/nothing", "/quit", "never")
    assert (reason, desk.heard) == ("complete", [])
    assert "a b\nand \ufffd more\n" in terminal.shown
    assert "no command `/nothing`" in terminal.errors


def test_a_line_that_is_no_text_goes_to_nobody() -> None:
    """Bytes that are no UTF-8 are the line's fault, and told as that."""
    desk = Desk()
    reason, terminal = talk(desk, "\udcff bad", "/echo \udcff", "fine")
    assert (reason, [line.text for line in desk.heard]) == ("complete", ["fine"])
    assert terminal.errors.count("not well-formed text") == 2


def test_what_goes_wrong_is_told_and_the_next_line_is_read() -> None:
    """An error ends a line, not the session."""
    desk = Desk(InputError("it is \x1b wrong"), "fine")
    reason, terminal = talk(desk, "one", "two")
    assert (reason, len(desk.heard)) == ("complete", 2)
    assert "broker: it is \ufffd wrong\n" in terminal.errors


@pytest.mark.parametrize(
    ("said", "typed", "reason", "heard"),
    [
        ([STOP], ["one", "two"], "complete", 2),
        ([STOP], ["one", STOP], "interrupted", 1),
        ([], [STOP, STOP, "never"], "interrupted", 0),
        ([STOP, STOP], ["one", "two", STOP], "interrupted", 2),
        ([], [STOP, "one", STOP, "two"], "complete", 2),
    ],
)
def test_ctrl_c_stops_the_turn_and_twice_ends(
    said: list[Any], typed: list[Any], reason: str, heard: int
) -> None:
    """Twice means: with nothing typed in between."""
    desk = Desk(*said)
    found, terminal = talk(desk, *typed)
    assert (found, len(desk.heard)) == (reason, heard)
    assert "Ctrl-C once more" in terminal.errors


def test_an_error_points_and_helps() -> None:
    """A scope's fault has a caret, and a widening says what would widen."""
    assert "^" in told_error(ScopeError("no such key", text="x=1"))
    assert "/scope replace" in told_error(AttenuationError("it widens", kind="tools"))
