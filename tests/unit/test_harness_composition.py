"""What a run is made of, put together in one place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.capabilities.bundle import FakeWorld
from broker.errors import BrokerError, ConfigError, InputError
from broker.harness.composition import Choices, Composition, compose, settle
from broker.harness.items import Flag
from broker.harness.tools import TOOLS
from broker.home import Home


def put_together(workspace: Path, choices: Choices | None = None, **environ: str) -> Composition:
    """Put a harness together on fakes."""
    world = FakeWorld.of(environ={"BROKER_HOME": os.environ["BROKER_HOME"], **environ})
    return compose(world.capabilities(), str(workspace), choices or Choices())


def configured(text: str) -> None:
    """Write the person's settings."""
    config = Home.find(os.environ).config
    config.mkdir(parents=True, mode=0o700, exist_ok=True)
    (config / "broker.toml").write_text(text)
    (config / "broker.toml").chmod(0o600)


def test_it_does_nothing(tmp_path: Path, broker_home: Path) -> None:
    """Putting a harness together writes nothing and dispatches nothing."""
    found = put_together(tmp_path)
    assert list(found.registry.current.tools) == [tool.name for tool in TOOLS]
    assert list(broker_home.rglob("*")) == []
    assert found.mode == "ask"


def test_what_is_given_is_registered_in_its_order(tmp_path: Path) -> None:
    """The items take the place of the reference agent's own."""
    world = FakeWorld.of(environ={"BROKER_HOME": os.environ["BROKER_HOME"]})
    flags = (Flag("b", "about", 1), Flag("a", "about", 2))
    found = compose(world.capabilities(), str(tmp_path), Choices(), flags)
    assert list(found.registry.current.flags) == ["b", "a"]
    assert not found.registry.current.tools


def test_a_choice_wins_over_the_settings(tmp_path: Path) -> None:
    """The mode is what was chosen, then what is configured, then the narrow default."""
    configured('[harness]\nmode = "auto"\n')
    assert put_together(tmp_path).mode == "auto"
    assert put_together(tmp_path, Choices("read-only")).mode == "read-only"


def test_yolo_is_not_had_by_configuration_alone(tmp_path: Path) -> None:
    """A configured `yolo` needs a person's confirmation."""
    configured('[harness]\nmode = "yolo"\n')
    with pytest.raises(ConfigError):
        put_together(tmp_path)
    assert put_together(tmp_path, BROKER_YOLO="1").mode == "yolo"


@pytest.mark.parametrize("choices", [Choices("wild"), Choices(said_yes=["fly"]), Choices(depth=99)])
def test_a_wrong_choice_is_told_before_anything_begins(choices: Choices) -> None:
    """What is not understood is an error, of the choices alone and of the whole."""
    world = FakeWorld.of(environ={"BROKER_HOME": os.environ["BROKER_HOME"]}).capabilities()
    with pytest.raises(BrokerError):
        settle(world, choices)
    with pytest.raises(BrokerError):
        compose(world, "/", choices)


def test_a_catalog_that_is_not_understood_is_told(tmp_path: Path) -> None:
    """A workspace's catalog with an error stops the composition, with its file and line."""
    (tmp_path / ".broker/catalogs").mkdir(parents=True)
    (tmp_path / ".broker/catalogs/mine.toml").write_text("nonsense = [")
    with pytest.raises(InputError, match=r"mine\.toml"):
        put_together(tmp_path)
