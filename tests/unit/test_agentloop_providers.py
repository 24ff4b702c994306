"""Where models are had, and which one is meant."""

from __future__ import annotations

import pytest

from broker.agentloop.providers import ModelChoice, chosen_model, endpoints, provider_items
from broker.config import ModelSetting
from broker.errors import CapabilityError, InputError

LOCAL = ModelSetting("local", "http://localhost:1/v1")
KEYED = ModelSetting("keyed", "https://models.test/v1", "responses", "THEIR_KEY")


@pytest.mark.parametrize(
    ("wanted", "environ", "found"),
    [
        ("anthropic/m", {}, "anthropic/m"),
        ("openai", {}, "openai/gpt-6.2-sol"),
        ("local/qwen/qwen3:8b", {}, "local/qwen/qwen3:8b"),
        ("", {"OPENAI_API_KEY": "k"}, "openai/gpt-6.2-sol"),
        ("", {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-5-5"),
    ],
)
def test_a_model_is_chosen(wanted: str, environ: dict[str, str], found: str) -> None:
    """By what was typed, and else by the first key that is set."""
    assert str(chosen_model(endpoints((LOCAL, KEYED), environ), wanted, environ)) == found


@pytest.mark.parametrize("wanted", ["", "local", "local/", "nobody/m", "/m"])
def test_what_is_not_clear_is_said(wanted: str) -> None:
    """A provider that is not known, a server of models without a model, and no word at all."""
    with pytest.raises(InputError, match="model"):
        chosen_model(endpoints((LOCAL,), {}), wanted, {})


def test_a_key_is_looked_up_and_kept_nowhere() -> None:
    """The key comes from its variable; without one, a provider that wants one cannot be asked."""
    found = endpoints((LOCAL, KEYED), {})
    keyed = ModelChoice(found[-1], "m")
    secret = keyed.secret({"THEIR_KEY": "s3cr3t"})
    assert secret is not None
    assert secret.reveal() == "s3cr3t"
    assert "s3cr3t" not in repr(keyed)
    with pytest.raises(CapabilityError, match="THEIR_KEY"):
        keyed.secret({})
    assert ModelChoice(found[-2], "m").secret({}) is None


def test_a_person_s_own_table_takes_the_place_of_a_known_one() -> None:
    """A gateway in front of a provider is that provider's table."""
    own = ModelSetting("openai", "https://gateway.test/v1", "chat")
    (found,) = [each for each in endpoints((own,), {}) if each.name == "openai"]
    assert (found.url, found.api) == ("https://gateway.test/v1", "chat")


def test_providers_are_registered_without_their_keys() -> None:
    """A registry holds the address and the API, and makes a choice by a model's name."""
    item = provider_items(endpoints((KEYED,), {}))[-1]
    assert item.settings == {"api": "responses", "url": "https://models.test/v1"}
    assert str(item.model("m")) == "keyed/m"


@pytest.mark.parametrize(
    "url",
    [":::bad", "https://", "http://:80", "http://a:x", "http://a:99999", "http://[::1", "ftp://a",
     "a.test/v1", "http://a b", "http://a\n"],
)  # fmt: skip
def test_an_address_that_is_none_is_said_before_anything_begins(url: str) -> None:
    """What cannot be asked is bad input, by the name of what set it."""
    with pytest.raises(InputError, match="ANTHROPIC_BASE_URL"):
        chosen_model(endpoints((), {"ANTHROPIC_BASE_URL": url}), "anthropic/x", {})
