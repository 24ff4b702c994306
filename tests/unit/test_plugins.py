"""A real installed package adds an agent and a provider, and replaces nothing of ours."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.agentloop.providers import chosen_model, endpoints
from broker.agents.adapter import Plain, adapter_for
from broker.agents.claude.launch import ClaudeLaunch
from broker.errors import LaunchError
from broker.plugins import AGENTS, added, with_added
from broker.replay.translation.other import other_model

CODE = """
from broker.agentloop.providers import Endpoint
from broker.agents.adapter import Plain

print("loaded")

class Held(Plain):
    name = "nimble"

class Disguised(Plain):
    name = "claude-code"

class Nothing:
    pass

class Broken:
    def __init__(self):
        raise ValueError("no luck")

there = Endpoint("there", "chat", "http://127.0.0.1:9/v1", "", "m-1")
wrong = Endpoint("openai", "chat", "http://127.0.0.1:9/v1")
"""

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a small package as an editable one is: its code, and what it says of itself."""

    def made(name: str, points: str, code: str = CODE) -> Path:
        place = tmp_path / f"{name}-place"
        module = name.replace("-", "_")
        place.mkdir()
        (place / f"{module}.py").write_text(code, encoding="utf-8")
        about = place / f"{module}-1.0.dist-info"
        about.mkdir()
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (about / "METADATA").write_text(head, encoding="utf-8")
        (about / "entry_points.txt").write_text(points, encoding="utf-8")
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.delitem(sys.modules, module, raising=False)
        return place

    return made


def test_an_agent_is_held_as_a_package_says(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is loaded for its program's name, and for no other."""
    install("plug-one", "[broker.agents]\nnimble = plug_one:Held\n")
    assert isinstance(adapter_for(["make"]), Plain)
    assert capsys.readouterr().out == ""
    assert adapter_for(["/opt/bin/nimble", "-p", "go"]).name == "nimble"
    assert capsys.readouterr().out == "loaded\n"


def test_what_is_built_in_is_not_replaced(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package that claims Claude Code or OpenAI is never even loaded for them."""
    points = (
        "[broker.agents]\nclaude = plug_two:Held\n[broker.providers]\nopenai = plug_two:there\n"
    )
    install("plug-two", points)
    assert isinstance(adapter_for(["claude"]), ClaudeLaunch)
    assert (
        chosen_model(with_added(endpoints((), {}), "openai/m"), "openai/m", {}).endpoint.url
        != "http://127.0.0.1:9/v1"
    )
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("plug_three:Disguised", "is called `claude-code`"),
        ("plug_three:Nothing", "is no adapter: no `canary`"),
        ("plug_three:Broken", "cannot be made: ValueError: no luck"),
        ("plug_three:gone", "cannot be loaded: AttributeError"),
        ("plug_gone:Held", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_what_is_no_adapter_is_an_error(install: Install, value: str, said: str) -> None:
    """The agent is not started as one that nothing is known of: the person meant it to be held."""
    install("plug-three", f"[broker.agents]\nnimble = {value}\n")
    with pytest.raises(LaunchError, match=said):
        adapter_for(["nimble"])


def test_two_packages_of_one_name_are_an_error(install: Install) -> None:
    """Neither is taken, and both are named."""
    for name in ("plug-four", "plug-five"):
        module = name.replace("-", "_")
        install(name, f"[broker.agents]\nnimble = {module}:Held\n")
    with pytest.raises(LaunchError, match="claimed by several packages: `plug-five`, `plug-four`"):
        adapter_for(["nimble"])


def test_a_provider_is_had_from_a_package(install: Install) -> None:
    """By its name before the slash, for the agent and for a fork; one of another name is none."""
    points = "[broker.providers]\nthere = plug_six:there\nother = plug_six:wrong\n"
    install("plug-six", points)
    known = endpoints((), {})
    assert str(chosen_model(with_added(known, "there"), "there", {})) == "there/m-1"
    assert with_added(known, "") == known
    found = other_model("there/m-2", (), {})
    assert found is not None
    assert (found.api, found.model) == ("openai.chat", "m-2")
    with pytest.raises(LaunchError, match="no provider of that name"):
        with_added(known, "other/m")
    assert with_added(known, "nowhere/m") == known


def test_nothing_is_found_in_the_folder_that_one_is_in(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace adds no agent by what lies in it, even where Python would look there."""
    place = install("plug-seven", "[broker.agents]\nnimble = plug_seven:Held\n")
    assert added(AGENTS, "nimble") is not None
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend("")
    assert added(AGENTS, "nimble") is None
