"""Credentials: nobody has any by default, and a secret does not show itself."""

from __future__ import annotations

import builtins
import pickle
from collections.abc import Iterator
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from broker.capabilities.credentials import (
    SERVICE,
    Credentials,
    KeyringCredentials,
    NoCredentials,
    Secret,
    SeededCredentials,
)
from broker.errors import CapabilityError


class Chain(KeyringBackend):
    """A keychain of this test."""

    priority = 1  # type: ignore[assignment]  # as the library's own backends do

    def __init__(self) -> None:
        super().__init__()
        self.locked = False
        self.asked: list[str] = []

    def get_password(self, service: str, username: str) -> str | None:
        """Return the one secret there is."""
        self.asked.append(username)
        if self.locked:
            raise KeyringLocked("it is locked")
        return "s3cr3t" if (service, username) == (SERVICE, "anthropic") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        """Set nothing."""

    def delete_password(self, service: str, username: str) -> None:
        """Delete nothing."""


@pytest.fixture
def chain() -> Iterator[Chain]:
    """A keychain in place of the system's."""
    before = keyring.get_keyring()
    keyring.set_keyring(Chain())
    yield keyring.get_keyring()  # type: ignore[misc]  # the one just set
    keyring.set_keyring(before)


def code(credentials: Credentials, name: str) -> str:
    """Return why a credential is not given."""
    with pytest.raises(CapabilityError) as caught:
        credentials.get(name)
    assert "s3cr3t" not in str(caught.value)
    return caught.value.code


def test_the_default_is_empty_and_denies() -> None:
    """Without a word of the person there is no name, and every one is denied."""
    assert (NoCredentials().names(), NoCredentials().kind) == ((), "empty")
    assert code(NoCredentials(), "anthropic") == "capability.denied"


def test_a_listed_name_comes_from_the_keychain(chain: Chain) -> None:
    """Only what the person listed is looked up at all."""
    credentials = KeyringCredentials(["openai", "anthropic", "openai"])
    assert credentials.names() == ("anthropic", "openai")
    assert credentials.get("anthropic").reveal() == "s3cr3t"
    assert code(credentials, "openai") == "capability.unavailable"
    assert code(credentials, "github") == "capability.denied"
    assert code(KeyringCredentials([]), "anthropic") == "capability.denied"
    assert chain.asked == ["anthropic", "openai"]


def test_a_locked_keychain_is_no_credential(chain: Chain) -> None:
    """What the keychain does not give away is not there."""
    chain.locked = True
    assert code(KeyringCredentials(["anthropic"]), "anthropic") == "capability.unavailable"


def test_without_the_extra_the_answer_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is not installed, the person reads what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("keyring"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CapabilityError, match="install the extra `keyring`"):
        KeyringCredentials(["anthropic"]).get("anthropic")


def test_seeded_credentials_are_those_given() -> None:
    """A test's secrets are found by name, and no other."""
    credentials = SeededCredentials({"b": "2", "a": "1"})
    assert (credentials.names(), credentials.get("b").reveal()) == (("a", "b"), "2")
    assert code(credentials, "c") == "capability.denied"


def test_a_secret_does_not_show_itself() -> None:
    """Neither printed nor formatted nor pickled nor listed among its fields is a secret told."""
    secret = Secret("s3cr3t")
    assert "s3cr3t" not in f"{secret} {secret!r} {[secret]} {secret!s:>30}"
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)
