"""Which of pi's providers are known, and that its extension points them at us."""

from __future__ import annotations

import json
from pathlib import Path

from broker.agents.adapter import Prepared
from broker.agents.pi.model import VARIABLE, folder_of
from tests.modelkit import FRONT, Person, urls

EXTENDED = Prepared(("pi", "--no-extensions", "-e", "x.mjs"))


def test_providers_of_its_file_and_known_ones(tmp_path: Path) -> None:
    """Each address of the person's, and three that are known, with their keys."""
    person = Person(tmp_path)
    models = {"providers": {"mine": {"baseUrl": "http://here/v1"}, "odd name": {"baseUrl": "x"}}}
    person.has(".pi/agent/models.json", models)
    found = person.points("pi", prepared=EXTENDED, OPENAI_API_KEY="real")
    assert urls(found) == {
        "mine": "http://here/v1",
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com/v1",
        "google": "https://generativelanguage.googleapis.com/v1beta",
    }
    said = json.loads(found.prepared.environ[VARIABLE])
    assert said == {name: FRONT.format(name) for name in urls(found)}
    assert found.prepared.tokens == ("OPENAI_API_KEY",)


def test_without_our_extension(tmp_path: Path) -> None:
    """Nothing would read the variable, so pi is left alone."""
    assert "by an extension" in Person(tmp_path).points("pi").off


def test_its_folder() -> None:
    """It is the person's, or the one that a variable names, as pi reads it."""
    assert folder_of({"HOME": "/h"}) == Path("/h/.pi/agent")
    assert folder_of({"HOME": "/h", "PI_CODING_AGENT_DIR": "~/x"}) == Path("/h/x")
    assert folder_of({"HOME": "/h", "PI_CODING_AGENT_DIR": "/y"}) == Path("/y")
