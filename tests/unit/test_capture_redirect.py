"""An agent is pointed at us only where all its addresses are understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.agents.adapter import PROGRAMS, Launch, Plain, Prepared, adapter_for
from broker.capture.redirect import pointed


def launch(root: Path, *command: str, **environ: str) -> Launch:
    """Return what would be launched, by somebody whose home is empty."""
    return Launch(command, {"HOME": str(root), **environ}, root, root, root / "s")


def test_any_command_is_pointed_by_three_variables(tmp_path: Path) -> None:
    """Each maker's variable leads to us, and we to where it led before."""
    given = launch(tmp_path, "make", OPENAI_BASE_URL="http://here:8080/v1")
    found = pointed(Plain(), given, Prepared(("make",)), "http://us/{}".format)
    assert {u.name: f"{u.where}{u.base}" for u in found.upstreams} == {
        "anthropic": "api.anthropic.com:443",
        "openai": "here:8080/v1",
        "gemini": "generativelanguage.googleapis.com:443",
    }
    assert found.prepared.environ["ANTHROPIC_BASE_URL"] == "http://us/anthropic"
    assert found.prepared.environ["GOOGLE_GEMINI_BASE_URL"] == "http://us/gemini"
    assert found.prepared.tokens == ()


def test_an_address_that_is_none_leaves_the_agent_alone(tmp_path: Path) -> None:
    """What was made ready is given back as it was."""
    given, prepared = launch(tmp_path, "make", OPENAI_BASE_URL="here"), Prepared(("make",))
    found = pointed(Plain(), given, prepared, "http://us/{}".format)
    assert found.prepared is prepared
    assert "no address of a model" in found.off


@pytest.mark.parametrize(
    "program", sorted(set(PROGRAMS) - {"claude.exe", "codex.exe", "opencode.exe"})
)
def test_every_agent_is_pointed_or_says_why_not(tmp_path: Path, program: str) -> None:
    """With nothing configured each agent has a known address, or a reason."""
    given = launch(tmp_path, program)
    found = pointed(adapter_for([program]), given, Prepared((program,)), "http://us/{}".format)
    assert bool(found.upstreams) != bool(found.off)
