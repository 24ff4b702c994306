"""Copilot CLI asks through us where a person's own provider is named."""

from __future__ import annotations

from pathlib import Path

from tests.modelkit import FRONT, Person, urls


def test_a_provider_of_the_persons_own(tmp_path: Path) -> None:
    """Its address and key are those of the environment."""
    environ = {"COPILOT_PROVIDER_BASE_URL": "http://x/v1", "COPILOT_PROVIDER_API_KEY": "real"}
    found = Person(tmp_path).points("copilot", **environ)
    assert urls(found) == {"provider": "http://x/v1"}
    assert found.prepared.environ["COPILOT_PROVIDER_BASE_URL"] == FRONT.format("provider")
    assert found.prepared.tokens == ("COPILOT_PROVIDER_API_KEY",)


def test_githubs_own_models(tmp_path: Path) -> None:
    """They are left alone, and that is said."""
    assert "GitHub gives its models" in Person(tmp_path).points("copilot").off
