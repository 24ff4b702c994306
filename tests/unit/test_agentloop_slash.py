"""What a person types as /name."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.agentloop.sitting import Sitting
from broker.agentloop.slash import _words, slash_commands
from broker.loopback.script import Say, Use
from tests.agentkit import Typist, scripted


def test_each_command_shows_what_it_says(tmp_path: Path) -> None:
    """Tools, help and the receipt are shown to whoever asks, and the model hears nothing of it."""
    script = {"main": [Use([("read", {"path": "a.txt"})]), Say("Done.")]}
    narrow = "/scope narrow tools=read"  # which takes nothing back of what was spent
    lines = ["[script main] go", "/tools", "/help", "/receipt", narrow, "/scope", "/quit"]
    with scripted(tmp_path, script, terminal=Typist(lines)) as (bench, model):
        bench.run(texts=["tools=read", "calls=9"])
        assert not any("/tools" in asked for asked in model.asked)
    shown = bench.terminal.shown
    (sid,) = bench.sids
    for word in ("grep  ", "/scope", "/quit", "1 allowed, 0 refused", sid[:8], "spent: 1 calls"):
        assert word in shown
    assert "calls=9" in shown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", [""]),
        ("narrow  calls=3", ["narrow", "calls=3"]),
        ('replace paths="a b/**" calls=3', ["replace", 'paths="a b/**"', "calls=3"]),
        (
            'narrow tools=send(to in {"a b", "c\\" d"}, n<=3) x=1',
            ["narrow", 'tools=send(to in {"a b", "c\\" d"}, n<=3)', "x=1"],
        ),
    ],
)
def test_a_line_is_parted_at_its_blanks(line: str, words: list[str]) -> None:
    """Blanks inside quotes and brackets part nothing."""
    assert _words(line) == words


def test_the_commands_are_there_before_a_sitting() -> None:
    """What lists them runs none of them."""

    def nobody() -> Sitting:
        raise AssertionError("nobody sits here")

    names = [command.name for command in slash_commands(nobody)]
    assert names == ["scope", "receipt", "tools", "help", "quit"]
