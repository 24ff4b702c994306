"""Which call of a tool a shell carries out is read from its words."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from broker.trace.linking import bare_command, carried, commands_of

_TEXT = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=40)


@given(_TEXT)
def test_quoting_for_a_shell_hides_no_command(command: str) -> None:
    """However an agent quotes a command for `eval`, it is found again."""
    (bare,) = commands_of({"command": command}) or ("",)
    words = ["bash", "-c", f"source x && eval {shlex.quote(command)} < /dev/null && pwd -P"]
    assert carried(words, [bare]) == bare


@given(_TEXT)
def test_a_bare_command_is_bare(text: str) -> None:
    """What is bare stays as it is."""
    assert bare_command(bare_command(text)) == bare_command(text)


def test_a_part_of_a_word_is_no_command() -> None:
    """`ls` is in neither `false` nor `ls-remote` nor `/bin/ls`, and the longest command counts."""
    for text in ("which false", "git ls-remote", "/bin/ls", "a.ls"):
        assert carried(["sh", "-c", text], ["ls"]) == ""
    assert carried(["sh", "-c", "cd x; ls src"], ["ls", "ls src"]) == "ls src"


def test_arguments_of_any_shape_hold_some_commands_or_none() -> None:
    """Only what is called a command is one, as a text or as words."""
    assert commands_of({"cmd": ["sh", "-c", "a"], "command": 3, "path": "x"}) == ("sh -c a", "a")
    assert commands_of(["command"]) == ()
    assert commands_of({"command": "  "}) == ()
