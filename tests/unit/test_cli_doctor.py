"""`broker doctor` says whether the broker can run here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.canarykit import fake_claude
from tests.console import Console


def test_able(broker: Console) -> None:
    """Where nothing is bad it is 0, and every finding is a line."""
    said = broker("doctor")
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("\nthe broker can run here\n")
    document = broker("doctor", "--json").json()
    assert document["able"] is True
    assert len(said.out.splitlines()) == len(document["findings"]) + 2


def test_not_able(broker: Console, broker_home: Path) -> None:
    """Where something is bad it is 1, and says which."""
    (broker_home / "state").mkdir()
    (broker_home / "state").chmod(0o777)
    said = broker("doctor")
    assert said.code == 1
    assert "bad   state" in said.out
    assert broker("doctor", "--json").json()["able"] is False


def test_an_agent_is_tried(
    broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that obeys is 0, one that does not is 1, one that is not there is 2, and each is told."""
    program = str(fake_claude(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    said = broker("doctor", "--agent", program)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(
        "held  claude-code: it obeyed a refusal, and so did its subagent, in "
    )
    assert "0.0.0 (fake) (tested with " in said.out
    missing = broker("doctor", "--agent", "/nowhere/codex", "--agent", program, "--json")
    assert missing.code == 2
    document = missing.json()
    assert document["held"] is False
    assert [row["answer"] for row in document["agents"]] == ["not known", "held"]
    assert document["agents"][1]["took_s"] > 0
    monkeypatch.setenv("FAKE_CLAUDE", "has no hook")
    assert broker("doctor", "--agent", program, "--agent", "/nowhere/codex").code == 1
    other = broker("doctor", "--agent", "no\x1bsuch", "--agent", "true")
    assert other.code == 2
    assert other.out.startswith("not known  no\\x1bsuch: it is not installed\nnot known  true: ")
    assert "tested with" not in other.out


def test_all_agents_that_are_installed(
    broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`all` tries what is there and passes over the rest; where nothing is there it is 2."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.defpath)
    said = broker("doctor", "--agent", "all")
    assert said.code == 2
    assert "no agent is installed" in said.out
    monkeypatch.setenv("PATH", f"{fake_claude(tmp_path / 'bin').parent}:{os.defpath}")
    (row,) = broker("doctor", "--agent", "all", "--json").json()["agents"]
    assert (row["agent"], row["answer"]) == ("claude-code", "held")
