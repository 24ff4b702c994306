"""A home for a run that is the person's own, with the broker's hooks in its settings."""

from __future__ import annotations

import json
from pathlib import Path

from broker.agents.gemini.home import furnish, names_hooks, with_hooks


def test_the_persons_files_are_linked_and_not_changed(tmp_path: Path) -> None:
    """What is there is reached through links; only the settings are a file of the run's own."""
    real = tmp_path / "real"
    (real / ".gemini/tmp").mkdir(parents=True)
    (real / ".gemini/settings.json").write_text('{"a": 1}')
    (real / ".gemini/oauth_creds.json").write_text("secret")
    (real / ".env").write_text("X=1")
    settings = furnish(tmp_path / "home", real, {"b": 2})
    ours = tmp_path / "home/.gemini"
    assert json.loads(settings.read_text()) == {"b": 2}
    assert settings.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    assert (ours / "oauth_creds.json").read_text() == "secret"
    (ours / "tmp/new").write_text("x")
    assert (real / ".gemini/tmp/new").exists()
    assert (tmp_path / "home/.env").read_text() == "X=1"
    assert (real / ".gemini/settings.json").read_text() == '{"a": 1}'


def test_a_person_without_a_folder_gets_an_empty_one(tmp_path: Path) -> None:
    """A first run works, and makes nothing in the person's home."""
    real = tmp_path / "real"
    real.mkdir()
    furnish(tmp_path / "home", real, {})
    assert list(real.iterdir()) == []


def test_hooks_come_first_and_others_stay() -> None:
    """The person's hooks and settings are kept as they are."""
    theirs = {"BeforeTool": [{"hooks": [{"command": "x"}]}], "Notification": [1]}
    found = with_hooks({"hooks": theirs, "ui": 1}, "broker-1", "ask", 30_000)
    hooks = found["hooks"]
    assert isinstance(hooks, dict)
    assert hooks["BeforeTool"] == [
        {
            "matcher": "*",
            "hooks": [{"type": "command", "name": "broker-1", "command": "ask", "timeout": 30_000}],
        },
        {"hooks": [{"command": "x"}]},
    ]
    assert hooks["Notification"] == [1]
    assert {"AfterTool", "SessionStart", "BeforeAgent"} < set(hooks)
    assert found["ui"] == 1
    assert len(theirs["BeforeTool"]) == 1


def test_settings_that_lost_the_hooks_are_seen(tmp_path: Path) -> None:
    """Another setting may change; the hooks, and what switches them off, may not."""
    path = tmp_path / "s"
    settings = with_hooks({"ui": 1}, "broker-1", "ask", 1)
    path.write_text(json.dumps({**settings, "ui": 2}))
    assert names_hooks(path, settings)
    for changed in ({**settings, "hooksConfig": {"disabled": ["broker-1"]}}, {"ui": 1}):
        path.write_text(json.dumps(changed))
        assert not names_hooks(path, settings)
    path.write_text("{")
    assert not names_hooks(path, settings)
    path.unlink()
    assert not names_hooks(path, settings)
