"""Where Qwen Code's model is, by what was typed, its environment and its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.modelkit import FRONT, Person, urls

OURS = FRONT.format("openai")


@pytest.mark.parametrize(
    ("typed", "environ", "auth", "url"),
    [
        (
            ("--openai-base-url", "http://typed"),
            {"OPENAI_BASE_URL": "http://set"},
            {},
            "http://typed",
        ),
        ((), {"OPENAI_BASE_URL": "http://set"}, {"baseUrl": "http://file"}, "http://set"),
        ((), {}, {"baseUrl": "http://file"}, "http://file"),
    ],
)
def test_which_address_counts(
    tmp_path: Path, typed: tuple[str, ...], environ: dict[str, str], auth: dict[str, str], url: str
) -> None:
    """What was typed goes before the environment, and that before settings; ours replaces all."""
    person = Person(tmp_path)
    person.has(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai", **auth}}})
    found = person.points("qwen", *typed, "go", OPENAI_API_KEY="real", **environ)
    assert urls(found) == {"openai": url}
    assert found.prepared.command == ("qwen", "--openai-base-url", OURS, "go")
    assert found.prepared.environ["OPENAI_BASE_URL"] == OURS
    assert found.prepared.tokens == ("OPENAI_API_KEY",)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security": {"auth": {"selectedType": "qwen-oauth"}}}, "`qwen-oauth`"),
        ({"modelProviders": {"openai": []}}, "`modelProviders`"),
        ({}, "set `OPENAI_BASE_URL`"),
    ],
)
def test_what_is_left_alone(tmp_path: Path, settings: dict[str, object], why: str) -> None:
    """An account, a table of providers, and no address at all are not guessed at."""
    person = Person(tmp_path)
    person.has(".qwen/settings.json", settings)
    environ = {"OPENAI_BASE_URL": "http://set"} if settings else {}
    found = person.points("qwen", **environ)
    assert why in found.off
