"""Where Cline CLI's model is: in a file beside a key, of which a run gets a copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.agents.cline.model import PROVIDERS_NAME
from tests.modelkit import FRONT, Person, urls

ROW = {"settings": {"provider": "openai-compatible", "apiKey": "k", "baseUrl": "http://x/v1"}}
FILE = {
    "version": 1,
    "lastUsedProvider": "openai-compatible",
    "providers": {"openai-compatible": ROW},
}


def test_a_run_gets_a_copy_with_another_address(tmp_path: Path) -> None:
    """The person's file stays; the copy has one provider, and goes when the run is over."""
    person = Person(tmp_path)
    theirs = person.has(".cline/data/settings/providers.json", FILE)
    before = theirs.read_text()
    found = person.points("cline", "go")
    assert urls(found) == {"provider": "http://x/v1"}
    copy = tmp_path / "session" / PROVIDERS_NAME
    assert found.prepared.environ == {"CLINE_PROVIDER_SETTINGS_PATH": str(copy)}
    assert found.prepared.fleeting == (copy,)
    settings = json.loads(copy.read_text())["providers"]["openai-compatible"]["settings"]
    assert settings == {**ROW["settings"], "baseUrl": FRONT.format("provider")}
    assert copy.stat().st_mode & 0o077 == 0
    assert theirs.read_text() == before


@pytest.mark.parametrize("typed", [("-P", "anthropic"), ("--provider=anthropic",)])
def test_a_typed_provider_counts(tmp_path: Path, typed: tuple[str, ...]) -> None:
    """What was typed goes before what was used last; a known address needs not be written down."""
    person = Person(tmp_path)
    rows = {**FILE["providers"], "anthropic": {"settings": {"apiKey": "k"}}}
    person.has(".cline/data/settings/providers.json", {**FILE, "providers": rows})
    assert urls(person.points("cline", *typed, "go")) == {"provider": "https://api.anthropic.com"}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"settings": {"baseUrl": "http://x"}}, "by a sign-in"),
        ({"settings": {"apiKey": "k"}}, "by a sign-in"),
        ({"settings": 3}, "is not set"),
        (None, "is not set"),
    ],
)
def test_what_is_left_alone(tmp_path: Path, row: object, why: str) -> None:
    """A sign-in is renewed in that file, so no copy is made of it."""
    person = Person(tmp_path)
    person.has(
        ".cline/data/settings/providers.json", {**FILE, "providers": {"openai-compatible": row}}
    )
    assert why in person.points("cline", "go").off
    assert not (tmp_path / "session" / PROVIDERS_NAME).exists()
