"""Where Claude Code's model is, by its environment and its settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.agents.adapter import Prepared
from broker.agents.models import MARK
from tests.modelkit import FRONT, Person, urls

OURS = FRONT.format("anthropic")


def test_its_own_address_and_anothers(tmp_path: Path) -> None:
    """Without a word it is Anthropic's, else the one that the environment names."""
    person = Person(tmp_path)
    found = person.points("claude", "-p", "go")
    assert urls(found) == {"anthropic": "https://api.anthropic.com"}
    assert found.prepared.environ == {"ANTHROPIC_BASE_URL": OURS}
    found = person.points("claude", ANTHROPIC_BASE_URL="http://gateway/x")
    assert urls(found) == {"anthropic": "http://gateway/x"}


def test_an_address_in_settings_is_outvoted(tmp_path: Path) -> None:
    """Settings win over the environment, so ours is put where it wins over them."""
    person = Person(tmp_path)
    person.has(".claude/settings.json", {"env": {"ANTHROPIC_BASE_URL": "http://gateway"}})
    found = person.points("claude", "-p", "go", ANTHROPIC_BASE_URL="http://other")
    assert urls(found) == {"anthropic": "http://gateway"}
    option, text = found.prepared.command[1:3]
    assert (option, json.loads(text)) == ("--settings", {"env": {"ANTHROPIC_BASE_URL": OURS}})
    assert found.prepared.command[3:] == ("-p", "go")
    ours = tmp_path / "session/settings.json"
    ours.write_text('{"hooks": {}, "env": {"A": "b"}}')
    command = ("claude", "--settings", str(ours), "-p", "go")
    found = person.points("claude", "-p", "go", prepared=Prepared(command))
    assert found.prepared.command == command
    assert json.loads(ours.read_text()) == {
        "hooks": {},
        "env": {"A": "b", "ANTHROPIC_BASE_URL": OURS},
    }


@pytest.mark.parametrize("spelled", ["{0}|{1}", "{0}={1}"])
def test_a_typed_file_of_settings_is_not_written(tmp_path: Path, spelled: str) -> None:
    """What the person typed is merged on the command line, and the file stays as it is."""
    person = Person(tmp_path)
    text = '{"model": "x", "env": {"ANTHROPIC_BASE_URL": "http://gateway"}}'
    typed = person.has("mine.json", text)
    words = spelled.format("--settings", typed).split("|")
    found = person.points("claude", *words, "-p", "go")
    assert urls(found) == {"anthropic": "http://gateway"}
    assert typed.read_text() == text
    merged = json.loads(found.prepared.command[2])
    assert merged == {"model": "x", "env": {"ANTHROPIC_BASE_URL": OURS}}
    assert found.prepared.command[3:] == ("-p", "go")


@pytest.mark.parametrize("where", ["environment", "settings"])
def test_another_provider_is_left_alone(tmp_path: Path, where: str) -> None:
    """Bedrock and its like are asked by other ways."""
    person = Person(tmp_path)
    environ = {"CLAUDE_CODE_USE_BEDROCK": "1"}
    if where == "settings":
        person.has(".claude/settings.json", {"env": environ})
        environ = {}
    found = person.points("claude", **environ)
    assert "`CLAUDE_CODE_USE_BEDROCK` is set" in found.off
    assert not found.models


def test_keys_of_a_run_without_a_person(tmp_path: Path) -> None:
    """A new key would be asked about on a screen, so there it is left; a bearer token is not."""
    person = Person(tmp_path)
    keys = {"ANTHROPIC_API_KEY": "real", "ANTHROPIC_AUTH_TOKEN": "bearer"}
    alone = person.points("claude", "-p", "go", **keys).prepared
    assert alone.tokens == ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    assert alone.environ["ANTHROPIC_API_KEY"].startswith(MARK)
    assert person.points("claude", **keys).prepared.tokens == ("ANTHROPIC_AUTH_TOKEN",)
    person.has(".claude/settings.json", {"env": {"ANTHROPIC_API_KEY": "other"}})
    assert person.points("claude", "-p", "go", **keys).prepared.tokens == ("ANTHROPIC_AUTH_TOKEN",)
