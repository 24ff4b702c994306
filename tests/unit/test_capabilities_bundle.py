"""The bundle: seven capabilities, real or fake, and no more."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from broker.capabilities.bundle import Capabilities, FakeWorld, real_capabilities
from broker.capabilities.credentials import SeededCredentials
from broker.capabilities.terminal import FakeTerminal

SEVEN = ("clock", "fs", "process", "credentials", "browser", "transcription", "terminal")


def test_there_are_seven() -> None:
    """The bundle has the seven capabilities, each with a kind."""
    assert tuple(field.name for field in fields(Capabilities)) == SEVEN
    assert tuple(real_capabilities().kinds()) == SEVEN


def test_the_default_is_real_but_without_credentials() -> None:
    """Nobody gets a secret or a transcription without choosing one."""
    kinds = real_capabilities().kinds()
    assert (kinds["credentials"], kinds["transcription"]) == ("empty", "unavailable")
    assert {kinds[name] for name in ("clock", "fs", "process", "browser", "terminal")} == {"real"}
    chosen = real_capabilities(credentials=SeededCredentials({"a": "1"}))
    assert chosen.credentials.names() == ("a",)


def test_a_fake_world_is_fake_throughout() -> None:
    """Its bundle holds exactly the fakes that the test has in its hands."""
    world = FakeWorld.of(
        files={"/ws/a": b"one"},
        credentials={"a": "1"},
        transcripts=["text"],
        typed=["yes"],
        argv=("x",),
        environ={"A": "b"},
    )
    bundle = world.capabilities()
    assert bundle.kinds() == dict.fromkeys(SEVEN, "fake")
    assert all(getattr(bundle, name) is getattr(world, name) for name in SEVEN)
    assert bundle.fs.below("/ws").read("a", limit_bytes=9) == b"one"
    assert (bundle.process.argv, bundle.process.environ) == (("x",), {"A": "b"})
    assert bundle.transcription.transcribe(b"", "audio/wav") == "text"


def test_the_bundle_does_not_change() -> None:
    """No capability is put into a bundle later."""
    bundle = FakeWorld.of().capabilities()
    with pytest.raises(FrozenInstanceError):
        bundle.terminal = FakeTerminal()  # type: ignore[misc]  # what must not work
