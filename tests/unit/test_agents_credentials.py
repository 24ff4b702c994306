"""Which of the provider's keys an agent's tools can read."""

from __future__ import annotations

from broker.agents.credentials import KNOWN, handed_on


def test_only_what_is_set_is_named() -> None:
    """An unset and an empty variable hold no key; one that a configuration names does."""
    assert handed_on("codex", {"OPENAI_API_KEY": "", "MINE": "k"}, ["MINE", "OTHER"]) == ("MINE",)
    assert handed_on("codex", {}) == ()


def test_what_an_agent_keeps_to_itself_is_not_named() -> None:
    """Copilot takes its provider's key out of the environment of its tools, others do not."""
    everything = dict.fromkeys(KNOWN, "k")
    assert "COPILOT_PROVIDER_API_KEY" not in handed_on("copilot-cli", everything)
    assert handed_on("qwen-code", everything, ["OPENAI_API_KEY"]) == KNOWN
