"""What the proved agents need for themselves."""

from __future__ import annotations

from pathlib import Path

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


def test_an_agent_that_is_not_proved() -> None:
    """An agent that no test has run within walls has no needs, and so no walls."""
    for name in ("gemini-cli", "opencode", "pi", "qwen-code", "copilot-cli", ""):
        assert needs_of(name, {}) is None
    plain = needs_of("command", {})
    assert plain is not None
    assert not plain.hosts
