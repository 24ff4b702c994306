"""What every real agent hands on to its tools, and whether the launch says so."""

from __future__ import annotations

import re

import pytest

from broker.agents.credentials import KNOWN
from broker.loopback.script import Say, Use
from tests.agents.stage import Stage
from tests.agents.tongues import Tongue, stage, tongue

__all__ = ["stage", "tongue"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]


def test_what_is_said_is_what_tools_can_read(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, tongue: Tongue
) -> None:
    """A variable with a key that a shell finds is named at the launch; one with a token is not."""
    with monkeypatch.context() as patched:
        for variable in (*KNOWN, "SCRIPTED_KEY"):
            patched.setenv(variable, "none")
        turn = Use([tongue.shell("env > src/env.txt; sleep 1")])
        code, _, err = stage.run({"main": [turn, Say("done")]}, scope=[tongue.scope("shell")])
    assert code == 0, err
    lines = (stage.workspace / "src/env.txt").read_text().splitlines()
    found = {name for name, _, value in (line.partition("=") for line in lines) if value == "none"}
    readable = {variable for variable in (*KNOWN, "SCRIPTED_KEY") if variable in found}
    (said,) = re.findall(r"broker: tools can read (.*) from", err)
    extra = {"SCRIPTED_KEY"} if tongue.name != "codex" else set()
    assert set(re.findall(r"`(\w+)`", said)) == readable - extra
