"""Which of opencode's providers are known, and how they are pointed at us."""

from __future__ import annotations

import json
from pathlib import Path

from tests.modelkit import FRONT, Person, urls


def named(found) -> dict[str, str]:
    """Return the addresses that its configuration has then."""
    content = json.loads(found.prepared.environ["OPENCODE_CONFIG_CONTENT"])
    return {name: each["options"]["baseURL"] for name, each in content["provider"].items()}


def test_providers_that_are_configured(tmp_path: Path) -> None:
    """Each address of the person's is changed, also one that stands in a variable."""
    person = Person(tmp_path)
    provider = {
        "mine": {"options": {"baseURL": "http://here/v1", "apiKey": "k"}},
        "other": {"options": {"baseURL": "{env:OTHER_URL}/v1"}},
        "nameless": {"npm": "x"},
        "a/b": {"options": {"baseURL": "http://odd"}},
        "anthropic": {},
    }
    person.has(".config/opencode/opencode.json", {"provider": provider})
    found = person.points("opencode", "run", "go", OTHER_URL="http://there")
    assert urls(found) == {
        "mine": "http://here/v1",
        "other": "http://there/v1",
        "anthropic": "https://api.anthropic.com/v1",
    }
    assert named(found) == {name: FRONT.format(name) for name in urls(found)}


def test_providers_that_the_person_has_a_key_for(tmp_path: Path) -> None:
    """A known provider is named only where there is a key, or its models would be offered."""
    person = Person(tmp_path)
    person.has(".local/share/opencode/auth.json", {"google": {"type": "api", "key": "k"}})
    found = person.points("opencode", OPENAI_API_KEY="real")
    assert urls(found) == {
        "openai": "https://api.openai.com/v1",
        "google": "https://generativelanguage.googleapis.com/v1beta",
    }
    assert found.prepared.tokens == ("OPENAI_API_KEY",)


def test_what_is_set_already_stays(tmp_path: Path) -> None:
    """Ours comes beside what the person put into the same variable."""
    mine = {"theme": "dark", "provider": {"x": {"options": {"baseURL": "http://x", "apiKey": "k"}}}}
    found = Person(tmp_path).points("opencode", OPENCODE_CONFIG_CONTENT=json.dumps(mine))
    content = json.loads(found.prepared.environ["OPENCODE_CONFIG_CONTENT"])
    assert content["theme"] == "dark"
    assert content["provider"]["x"]["options"] == {"baseURL": FRONT.format("x"), "apiKey": "k"}
    assert urls(found) == {"x": "http://x"}


def test_an_address_of_the_environment(tmp_path: Path) -> None:
    """The variable for Anthropic counts, and without any provider opencode is left alone."""
    person = Person(tmp_path)
    assert urls(person.points("opencode", ANTHROPIC_BASE_URL="http://x/v1")) == {
        "anthropic": "http://x/v1"
    }
    assert "none of its providers" in person.points("opencode").off
