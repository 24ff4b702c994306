"""How pi is started: what is added, and what cannot be held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.pi import launch as module
from broker.agents.pi.launch import EXTENSION_NAME, PiLaunch, runs_a_program
from broker.errors import LaunchError


@pytest.fixture
def adapter() -> PiLaunch:
    """An adapter of this test's own."""
    return PiLaunch()


def prepare(adapter: PiLaunch, root: Path, *arguments: str) -> Prepared:
    """Prepare a run."""
    for name in ("session", "ws"):
        (root / name).mkdir(exist_ok=True)
    launch = Launch(("pi", *arguments), {}, root / "ws", root / "session", root / "s")
    return adapter.prepare(launch)


def test_it_is_found_by_its_name() -> None:
    """A command named pi, wherever it lies, is held as pi."""
    assert isinstance(adapter_for(["/opt/bin/pi", "-p", "hi"]), PiLaunch)


def test_the_extension_comes_first_and_what_was_typed_stays(
    adapter: PiLaunch, tmp_path: Path
) -> None:
    """Ours is loaded before any other, no other is looked for, and nothing else changes."""
    prepared = prepare(adapter, tmp_path, "-e", "mine.ts", "-p", "fix it")
    extension = str(tmp_path / "session" / EXTENSION_NAME)
    assert prepared.command == (
        *("pi", "--no-extensions", "-e", extension),
        *("-e", "mine.ts", "-p", "fix it"),
    )
    assert prepared.environ == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["install", "npm:x"],
        ["uninstall", "x"],
        ["update"],
        ["--mode", "rpc"],
        ["-p", "--mode", "rpc", "go"],
        ["--", "--mode", "rpc"],
        ["--session", "sessions/x"],
        ["--session", "x.jsonl"],
        ["--fork", "/elsewhere/x.jsonl"],
    ],
)
def test_what_cannot_be_held_is_not_started(adapter: PiLaunch, arguments: Sequence[str]) -> None:
    """A command or option that would free the agent is refused with its name."""
    with pytest.raises(LaunchError, match=r"`.*(pi|--)"):
        adapter.check(["pi", *arguments], {})


@pytest.mark.parametrize(
    "arguments",
    [[], ["-p", "go"], ["--mode", "json", "go"], ["-c"], ["--session", "1f2e"], ["list"]],
)
def test_what_can_be_held_is_started(adapter: PiLaunch, arguments: Sequence[str]) -> None:
    """Everything else is left to the person."""
    adapter.check(["pi", *arguments], {})


def test_what_asks_no_model_is_started_as_it_is(adapter: PiLaunch, tmp_path: Path) -> None:
    """`pi list` must stand first, so nothing is put before it."""
    assert prepare(adapter, tmp_path, "list").command == ("pi", "list")


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["-p", "fix it"], "fix it"),
        (["--model", "x", "--tools", "read", "fix it"], "fix it"),
        (["--continue", "@a.md", "fix it"], "fix it"),
        (["--plan", "deep", "fix it"], "fix it"),
        (["--plan=deep", "fix it"], "fix it"),
        (["one", "two"], None),
        (["list"], None),
        (["@a.md"], None),
        ([], None),
    ],
)
def test_the_typed_prompt_is_found(arguments: Sequence[str], prompt: str | None) -> None:
    """The one word that is no option, no value and no file is what the person asked."""
    assert PiLaunch().prompt(["pi", *arguments]) == prompt


def test_its_settings_are_closed_to_tools(adapter: PiLaunch, tmp_path: Path) -> None:
    """Where settings, models and credentials stand is the broker's business, by every name."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "agent")
    own = adapter.own({"PI_CODING_AGENT_DIR": str(tmp_path / "link")})
    for folder in ("agent", "link"):
        for name in ("settings.json", "models.json", "auth.json"):
            assert str(tmp_path / folder / name) in own
    assert "/home/x/.pi/agent/auth.json" in adapter.own({"HOME": "/home/x"})
    moved = adapter.own({"HOME": "/home/x", "PI_CODING_AGENT_DIR": "~/y"})
    assert "/home/x/y/models.json" in moved


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"packages":[]}', "packages"),
        ('{"npmCommand":["x"]}', "npmCommand"),
        ('{"shellPath":"/x"}', "shellPath"),
        ('{"shellCommandPrefix":"x"}', "shellCommandPrefix"),
        ("{", "cannot be read"),
        ("[]", "not a JSON object"),
        ('{"theme":"dark"}', None),
        ("{}", None),
    ],
)
def test_settings_that_run_a_program(tmp_path: Path, text: str, why: str | None) -> None:
    """Settings of a workspace are looked through for what would run; looks alone are harmless."""
    file = tmp_path / "settings.json"
    assert runs_a_program(file) is None
    file.write_text(text)
    found = runs_a_program(file)
    assert (found is None) if why is None else (why in str(found))


def test_such_a_workspace_is_refused_before_and_during_a_run(
    adapter: PiLaunch, tmp_path: Path
) -> None:
    """The settings that would run a program end a run whenever they appear."""
    assert prepare(adapter, tmp_path, "go")
    assert adapter.escaped() is None
    settings = tmp_path / "ws/.pi/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"theme":"dark"}')
    assert adapter.escaped() is None
    settings.write_text(json.dumps({"packages": ["npm:x"]}))
    assert "`packages`" in str(adapter.escaped())
    (tmp_path / "again").mkdir()
    with pytest.raises(LaunchError, match="packages"):
        PiLaunch().prepare(Launch(("pi",), {}, tmp_path / "ws", tmp_path / "again", tmp_path / "s"))


def test_a_run_without_its_extension_has_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose extension never speaks is stopped; one where a person chooses is waited for."""
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    for n, arguments in enumerate((["go"], ["--resume"], ["--version"])):
        root = tmp_path / str(n)
        root.mkdir()
        adapter = PiLaunch()
        prepare(adapter, root, *arguments)
        assert bool(adapter.escaped()) is (n == 0)


def test_it_says_what_it_does_not_see(adapter: PiLaunch) -> None:
    """A person who launches it is told what no extension of pi shows."""
    assert any("`@`" in text for text in adapter.unseen())
