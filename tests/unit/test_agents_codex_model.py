"""Where Codex's model is, by what was typed, its profile, its configuration and its account."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.modelkit import FRONT, Person, urls

CONFIG = """
model_provider = "mine"
[model_providers.mine]
base_url = "http://here/v1"
env_key = "MY_KEY"
[model_providers.other]
base_url = "http://there/v1"
[profiles.work]
model_provider = "other"
"""


def pointing(name: str, setting: str) -> str:
    """Return the setting that points a provider at us."""
    return f'{setting}="{FRONT.format(name)}"'


def test_a_provider_of_the_persons_own(tmp_path: Path) -> None:
    """Its address and its key are changed for the run, beside all else that it says."""
    person = Person(tmp_path)
    person.has(".codex/config.toml", CONFIG)
    found = person.points("codex", "exec", "go", MY_KEY="real", OPENAI_API_KEY="not for it")
    assert urls(found) == {"mine": "http://here/v1"}
    assert found.prepared.command == (
        "codex", "-c", pointing("mine", "model_providers.mine.base_url"),
        "-c", "model_providers.mine.supports_websockets=false", "exec", "go",
    )  # fmt: skip
    assert found.prepared.tokens == ("MY_KEY",)


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        (("-c", "model_provider=other"), "http://there/v1"),
        (("-c", 'model_provider="other"'), "http://there/v1"),
        (("--config=model_provider=other",), "http://there/v1"),
        (("-c", "model_providers.mine.base_url=http://typed"), "http://typed"),
        (("-p", "work"), "http://there/v1"),
        (("--profile", "work"), "http://there/v1"),
        (("-p", "work", "-c", "model_provider=mine"), "http://here/v1"),
    ],
)
def test_what_was_typed_goes_first(tmp_path: Path, typed: tuple[str, ...], url: str) -> None:
    """An option goes before a profile, and that before the rest of the configuration."""
    person = Person(tmp_path)
    person.has(".codex/config.toml", CONFIG)
    assert list(urls(person.points("codex", *typed, "exec", "go")).values()) == [url]


@pytest.mark.parametrize(
    ("auth", "environ", "url"),
    [
        (None, {}, "https://api.openai.com/v1"),
        ({"OPENAI_API_KEY": "k"}, {}, "https://api.openai.com/v1"),
        ({"tokens": {"access_token": "t"}}, {}, "https://chatgpt.com/backend-api/codex"),
        ({"auth_mode": "chatgpt"}, {}, "https://chatgpt.com/backend-api/codex"),
        ({"tokens": {"a": "t"}}, {"CODEX_API_KEY": "k"}, "https://api.openai.com/v1"),
        ("not JSON", {}, "https://api.openai.com/v1"),
    ],
)
def test_the_built_in_provider(
    tmp_path: Path, auth: object, environ: dict[str, str], url: str
) -> None:
    """With an account it has another address than with a key."""
    person = Person(tmp_path)
    if auth is not None:
        person.has(".codex/auth.json", auth)
    found = person.points("codex", "exec", "go", **environ)
    assert urls(found) == {"openai": url}
    assert found.prepared.command[2] == pointing("openai", "openai_base_url")
    assert found.prepared.tokens == tuple(environ)


def test_an_address_for_the_built_in_provider(tmp_path: Path) -> None:
    """An address that the person gave it is the one we stand for."""
    person = Person(tmp_path)
    person.has(".codex/config.toml", 'openai_base_url = "http://eu/v1"')
    assert urls(person.points("codex")) == {"openai": "http://eu/v1"}


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("model_provider=ollama", "`ollama` is not one that is known"),
        ('model_provider="a b"', "a name of another shape"),
        ("model_providers.mine.base_url=3", "`mine` has no `base_url`"),
    ],
)
def test_what_is_not_known_is_left_alone(tmp_path: Path, typed: str, why: str) -> None:
    """A provider whose address is not known is said, and not guessed."""
    person = Person(tmp_path)
    person.has(".codex/config.toml", CONFIG)
    found = person.points("codex", "-c", typed)
    assert why in found.off
    assert not found.models
