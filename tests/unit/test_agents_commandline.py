"""An agent's command line, looked at and added to."""

from __future__ import annotations

import pytest

from broker.agents.commandline import options, positional, refuse, value_of, without
from broker.errors import LaunchError


def test_nothing_behind_the_dashes_is_an_option() -> None:
    """The program's name and what stands behind `--` are left out."""
    assert options(["claude", "-p", "hi", "--", "--settings", "x"]) == ["-p", "hi"]
    assert options(["claude"]) == []


def test_a_value_is_read_in_both_spellings() -> None:
    """`--x y` and `--x=y` are one; an option that ends the line has no value, and that is told."""
    assert value_of(["--x", "y"], "--x") == "y"
    assert value_of(["--x=y=z"], "--x") == "y=z"
    assert value_of(["--xy=1"], "--x") is None
    with pytest.raises(LaunchError):
        value_of(["--x"], "--x")


def test_an_option_is_taken_out_with_its_value() -> None:
    """Each spelling goes, everything else stays, and what is behind `--` is not touched."""
    command = ["claude", "--x", "1", "--x=2", "-p", "hi", "--", "--x", "3"]
    assert without(command, "--x") == ["claude", "-p", "hi", "--", "--x", "3"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], []),
        (["-m"], []),
        (["-m", "x", "go"], ["go"]),
        (["-m=x", "go"], ["go"]),
        (["--json", "go", "-"], ["go", "-"]),
        (["a", "--", "-m", "b", "--"], ["a", "-m", "b", "--"]),
        (["-m", "--", "-m", "x"], []),
    ],
)
def test_words_that_are_no_options(arguments: list[str], words: list[str]) -> None:
    """A value is passed over with its option, whatever it looks like; behind `--` all are words."""
    assert list(positional(arguments, {"-m"})) == words


def test_an_option_that_frees_an_agent_is_refused_with_its_reason() -> None:
    """Alone and with a value; one whose name only begins alike is another."""
    for argument in ("--remote", "--remote=x"):
        with pytest.raises(LaunchError, match="it runs elsewhere"):
            refuse(["go", argument], {"--remote": "it runs elsewhere"})
    refuse(["--remotely"], {"--remote": "it runs elsewhere"})
