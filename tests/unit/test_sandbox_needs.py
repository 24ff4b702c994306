"""What the proved agents need for themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.sandbox.needs import needs_of


def test_claude_code(tmp_path: Path) -> None:
    """Its settings are readable, its conversations writable, its state a copy of the run's own."""
    (tmp_path / ".claude.json").write_text('{"a": 1}')
    needs = needs_of("claude-code", {"HOME": str(tmp_path)})
    assert needs is not None
    folder = str(tmp_path / ".claude")
    assert needs.private == (folder,)
    assert f"{folder}/settings.json" in needs.reads
    assert f"{folder}/plugins" in needs.reads
    assert f"{folder}/projects" in needs.writes
    assert not set(needs.reads) & set(needs.writes)
    assert needs.files == {f"{folder}/.claude.json": '{"a": 1}'}
    assert needs.environ == {"CLAUDE_CONFIG_DIR": folder}
    assert "api.anthropic.com" in needs.hosts


def test_claude_code_at_another_address() -> None:
    """A base address replaces the provider's hosts; a provider that is not known gives None."""
    base = {"HOME": "/h", "ANTHROPIC_BASE_URL": "http://127.0.0.1:4000/x"}
    needs = needs_of("claude-code", base)
    assert needs is not None
    assert needs.hosts == ("127.0.0.1:4000",)
    assert needs_of("claude-code", {"HOME": "/h", "CLAUDE_CODE_USE_BEDROCK": "1"}) is None


def test_codex(tmp_path: Path) -> None:
    """The hosts of its own providers are reached, and its configuration is read-only."""
    (tmp_path / "config.toml").write_text(
        '[model_providers.mine]\nbase_url = "http://127.0.0.1:8080/v1"\n'
    )
    needs = needs_of("codex", {"CODEX_HOME": str(tmp_path)})
    assert needs is not None
    assert "127.0.0.1:8080" in needs.hosts
    assert str(tmp_path / "config.toml") in needs.reads
    (tmp_path / "config.toml").write_text("not [ toml")
    assert needs_of("codex", {"CODEX_HOME": str(tmp_path)}) is None


ADDRESS = "http://127.0.0.1:4000/v1"
# For each agent: what it is asked with, what its own files say, and what is never writable.
CASES = {
    "qwen-code": (
        {"OPENAI_BASE_URL": ADDRESS},
        {},
        [".qwen/settings.json", ".qwen/extensions", ".qwen/agents"],
    ),
    "gemini-cli": (
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": ADDRESS},
        {},
        [".gemini/settings.json", ".gemini/extensions", ".gemini/policies"],
    ),
    "opencode": (
        {},
        {".config/opencode/opencode.json": {"provider": {"x": {"options": {"baseURL": ADDRESS}}}}},
        [".config/opencode/opencode.json", ".config/opencode/plugin"],
    ),
    "pi": (
        {},
        {".pi/agent/models.json": {"providers": {"x": {"baseUrl": ADDRESS}}}},
        [".pi/agent/settings.json", ".pi/agent/extensions"],
    ),
    "copilot-cli": (
        {"COPILOT_PROVIDER_BASE_URL": ADDRESS},
        {},
        [".copilot/settings.json", ".copilot/hooks", ".copilot/installed-plugins"],
    ),
    "cline": (
        {},
        {
            ".cline/data/settings/providers.json": {
                "lastUsedProvider": "x",
                "providers": {"x": {"settings": {"baseUrl": ADDRESS, "apiKey": "none"}}},
            }
        },
        [".cline/data/settings", ".cline/skills"],
    ),
}


@pytest.mark.parametrize("agent", CASES)
def test_the_others(tmp_path: Path, agent: str) -> None:
    """Its model's host is reached and no other, and what a next run would execute is read-only."""
    environ, files, closed = CASES[agent]
    given = {"HOME": str(tmp_path), **environ}
    assert needs_of(agent, {"HOME": str(tmp_path)}) is None
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(json.dumps(content))
    needs = needs_of(agent, given)
    assert needs is not None
    assert needs.hosts == ("127.0.0.1:4000",)
    assert {str(tmp_path / name) for name in closed} <= set(needs.reads)
    assert not set(needs.reads) & set(needs.writes)
    assert all(place.startswith(f"{tmp_path}/") for place in (*needs.private, *needs.reads))
    inside = tuple(f"{place}/" for place in needs.private)
    assert all(place.startswith(inside) for place in (*needs.reads, *needs.writes))


def test_no_file_of_a_database_is_shared_alone() -> None:
    """What is writable is a folder, or one file that has none beside it."""
    for agent, (environ, _, _) in CASES.items():
        needs = needs_of(agent, {"HOME": "/h", **environ, "OPENAI_API_KEY": "none"})
        for place in needs.writes if needs is not None else ():
            assert not place.endswith((".db", ".sqlite"))


def test_the_makers_that_there_is_a_key_for(tmp_path: Path) -> None:
    """Without an address of its own, a key says which maker's host is reached."""
    needs = needs_of("pi", {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "none"})
    assert needs is not None
    assert needs.hosts == ("api.anthropic.com:443",)


def test_a_folder_that_is_lent(tmp_path: Path) -> None:
    """What an adapter made for the run is writable where its agent writes, but for the settings."""
    needs = needs_of("gemini-cli", {"HOME": str(tmp_path), "GEMINI_API_KEY": "none"})
    assert needs is not None
    (lent,), (kept,) = needs.lent, needs.kept
    assert kept.startswith(f"{lent}/")


def test_an_agent_that_is_not_proved() -> None:
    """An agent that no test has run within walls has no needs, and so no walls."""
    for name in ("aider", "goose", ""):
        assert needs_of(name, {}) is None
    plain = needs_of("command", {})
    assert plain is not None
    assert not plain.hosts
