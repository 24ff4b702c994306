"""Where Gemini CLI's model is: for a key at one address, for all else left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.modelkit import FRONT, Person, urls

BY_KEY = {"security": {"auth": {"selectedType": "gemini-api-key"}}}


def test_by_a_key(tmp_path: Path) -> None:
    """The public address, or the one that the environment names; the key becomes a token."""
    person = Person(tmp_path)
    found = person.points("gemini", GEMINI_API_KEY="real")
    assert urls(found) == {"gemini": "https://generativelanguage.googleapis.com"}
    assert found.prepared.environ["GOOGLE_GEMINI_BASE_URL"] == FRONT.format("gemini")
    assert found.prepared.tokens == ("GEMINI_API_KEY",)
    person.has(".gemini/settings.json", BY_KEY)
    assert urls(person.points("gemini", GOOGLE_GEMINI_BASE_URL="http://x")) == {
        "gemini": "http://x"
    }


@pytest.mark.parametrize(
    ("settings", "environ", "why"),
    [
        (
            {"security": {"auth": {"selectedType": "oauth-personal"}}},
            {"GEMINI_API_KEY": "k"},
            "oauth",
        ),
        ({"selectedAuthType": "vertex-ai"}, {}, "vertex-ai"),
        ({}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "vertex-ai"),
        ({}, {"GOOGLE_GENAI_USE_GCA": "true", "GEMINI_API_KEY": "k"}, "oauth-personal"),
        ({}, {}, "an account"),
    ],
)
def test_by_an_account(
    tmp_path: Path, settings: dict[str, object], environ: dict[str, str], why: str
) -> None:
    """What asks elsewhere than by a key is left alone, with the reason."""
    person = Person(tmp_path)
    person.has(".gemini/settings.json", settings)
    found = person.points("gemini", **environ)
    assert why in found.off
    assert not found.models


def test_an_address_in_a_file_of_variables(tmp_path: Path) -> None:
    """An address that only Gemini CLI would read is not guessed."""
    person = Person(tmp_path)
    person.has(".gemini/.env", "GOOGLE_GEMINI_BASE_URL=http://x\n")
    assert "export it instead" in person.points("gemini", GEMINI_API_KEY="k").off
