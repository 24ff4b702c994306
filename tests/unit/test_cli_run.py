"""`broker run` hands over exactly what was typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker import launch
from tests.console import Console


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict]:
    """What would be launched; the agent is said to end with 7."""
    found: list[dict] = []

    def stand_in(command: list[str], **more: object) -> int:
        found.append({"command": list(command), **more})
        return 7

    monkeypatch.setattr(launch, "run", stand_in)
    monkeypatch.chdir(tmp_path)
    return found


def test_everything_typed_arrives(broker: Console, launched: list[dict], tmp_path: Path) -> None:
    """Scopes, intent, workspace and switches arrive, and the exit code is the agent's."""
    said = broker(
        "run", "--scope", "calls=3", "--scope", "@review", "--intent", "fix it",
        "--require-enforcement", "--forward", "a.pub", "--quiet", "--no-canary",
        "--workspace", ".", "--", "claude", "-p", "--scope=x",
    )  # fmt: skip
    assert said.code == 7
    (found,) = launched
    assert found["command"] == ["claude", "-p", "--scope=x"]
    assert found["texts"] == ["calls=3", "@review"]
    assert found["intent"] == "fix it"
    assert found["workspace"] == tmp_path
    assert found["require_enforcement"] is True
    assert found["forward"] == Path("a.pub")
    assert found["quiet"] is True
    assert found["canary"] is False


def test_nothing_typed(broker: Console, launched: list[dict], tmp_path: Path) -> None:
    """The command's own options are not ours, and everything else has its default."""
    assert broker("run", "agent", "--quiet").code == 7
    (found,) = launched
    assert found["command"] == ["agent", "--quiet"]
    assert (found["texts"], found["intent"], found["workspace"]) == ([], None, tmp_path)
    assert not found["quiet"]
    assert found["canary"] is None
    assert found["forward"] is None
    assert not found["require_enforcement"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "name the agent's command"),
        (("run", "--scope", "calls=1", "--"), "name the agent's command"),
        (("run", "--workspace", "nowhere", "--", "x"), "no such folder"),
        (("run", "--nope", "x"), "no such option"),
    ],
)
def test_bad_input(
    broker: Console, launched: list[dict], words: tuple[str, ...], said: str
) -> None:
    """Without a command or a workspace nothing is started, and it is 2."""
    found = broker(*words)
    assert (found.code, found.out, launched) == (2, "", [])
    assert said in found.err
