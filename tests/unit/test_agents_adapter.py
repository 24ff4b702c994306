"""Which command starts which agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Plain, adapter_for


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["claude"], "claude-code"),
        (["/opt/x/claude", "-p", "x"], "claude-code"),
        (["claude.exe"], "claude-code"),
        (["claude-wrapper"], "command"),
        (["python", "claude"], "command"),
        ([], "command"),
    ],
)
def test_an_agent_is_known_by_its_program(command: list[str], name: str) -> None:
    """The program's own name decides, and nothing in its arguments."""
    assert adapter_for(command).name == name


def test_any_other_command_is_started_as_it_is() -> None:
    """A plain command gets no hook, and is never said to have escaped one."""
    plain = Plain()
    launch = Launch(("make", "x"), {}, Path("/"), Path("/f"), Path("/s"))
    plain.check(launch.command, {})
    assert plain.prepare(launch).command == ("make", "x")
    assert (plain.prompt(launch.command), plain.own({}), dict(plain.hooks())) == (None, (), {})
    assert plain.escaped() is None
