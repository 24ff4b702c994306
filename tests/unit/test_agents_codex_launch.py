"""How Codex is started: what is added, and what cannot be held."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.client import CLIENT_NAME
from broker.agents.codex import launch as module
from broker.agents.codex.launch import CodexLaunch
from broker.errors import LaunchError
from tests.unit.test_agents_codex_trust import ANSWERS, pretend


@pytest.fixture
def adapter() -> CodexLaunch:
    """An adapter of this test's own."""
    return CodexLaunch()


def prepare(
    adapter: CodexLaunch, root: Path, *arguments: str, answers: str = ANSWERS
) -> tuple[Prepared, list[str]]:
    """Prepare a run of a pretended Codex; return what is started, and what Codex was asked."""
    program = pretend(root, answers)
    for name in ("session", "ws"):
        (root / name).mkdir(exist_ok=True)
    launch = Launch(
        (str(program), *arguments),
        {"PATH": os.defpath, "HOME": str(root)},
        root / "ws",
        root / "session",
        root / "s",
    )
    prepared = adapter.prepare(launch)
    asked = root / "asked"
    return prepared, asked.read_text().splitlines() if asked.exists() else []


def test_it_is_found_by_its_name() -> None:
    """A command named codex, wherever it lies, is held as Codex."""
    assert isinstance(adapter_for(["/opt/bin/codex", "exec", "hi"]), CodexLaunch)


def test_the_hook_stands_before_every_call(adapter: CodexLaunch, tmp_path: Path) -> None:
    """Our settings come first, what was typed stays, and the trust is for the hashes told."""
    prepared, asked = prepare(adapter, tmp_path, "exec", "-m", "gpt", "fix it")
    words = list(prepared.command)
    assert words[-4:] == ["exec", "-m", "gpt", "fix it"]
    settings = [words[i + 1] for i, word in enumerate(words) if word == "-c"]
    assert [s.partition("=")[0] for s in settings] == [
        "hooks.PreToolUse",
        "hooks.SessionStart",
        "hooks.SubagentStart",
        "hooks.SubagentStop",
        "hooks.PostToolUse",
        "features.hooks",
        "features.daemon_auto_start",
        "hooks.state",
    ]
    assert CLIENT_NAME in settings[0]
    after = tomllib.loads(settings[4])["hooks"]["PostToolUse"]
    assert [each.get("matcher") for each in after] == [".*spawn_agent", None]
    commands = [each["hooks"][0]["command"] for each in after]
    assert [command[-1] for command in commands] == [":", "&"]  # the second is not waited for
    assert "sha256:one" in settings[-1]
    assert "--dangerously-bypass-hook-trust" not in words
    assert len(asked) == 2


def test_typed_settings_are_asked_with(adapter: CodexLaunch, tmp_path: Path) -> None:
    """Codex is asked under the settings that the person gave, in every spelling."""
    _, asked = prepare(
        adapter, tmp_path, "exec", "-c", "model=x", "--profile", "p", "--enable=apps", "go"
    )
    for line in asked:
        words = json.loads(line)
        assert words[:6] == ["app-server", "-c", "model=x", "--profile", "p", "--enable=apps"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("[]", "does not see"),
        ('[{"runs": false}, {"runs": false}]', "does not run"),
        ("broken", "does not say"),
        ("", "does not say"),
    ],
)
def test_a_codex_that_would_not_run_the_hook_is_not_started(
    adapter: CodexLaunch, tmp_path: Path, answers: str, why: str
) -> None:
    """No hook, hooks that stay untrusted, and no answer at all end before the run."""
    with pytest.raises(LaunchError, match=why):
        prepare(adapter, tmp_path, "exec", "go", answers=answers)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dangerously-bypass-hook-trust"],
        ["exec", "--remote", "ws://x"],
        ["exec", "--remote=ws://x"],
        ["app-server"],
        ["-m", "x", "cloud"],
        ["mcp", "add"],
        ["exec", "-c", "features.hooks=false", "go"],
        ["exec", "-cfeatures.hooks=false", "go"],
        ["exec", "--config=hooks={}", "go"],
        ["exec", "-c", '"features" . "hooks" = false', "go"],
        ["exec", "-c", "features={hooks=false}", "go"],
        ["exec", "-c", "hooks.state={}", "go"],
        ["exec", "--disable", "hooks", "go"],
        ["exec", "--disable=hooks", "go"],
        ["exec", "--enable", "daemon_auto_start", "go"],
    ],
)
def test_what_cannot_be_held_is_not_started(adapter: CodexLaunch, arguments: Sequence[str]) -> None:
    """An option that would free the agent is refused with its name, in any spelling."""
    with pytest.raises(LaunchError):
        adapter.check(["codex", *arguments], {})


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["exec", "go"],
        ["exec", "-c", "model=x", "--enable", "apps", "go"],
        ["resume", "--last"],
        ["login"],
        ["--", "--dangerously-bypass-hook-trust"],
    ],
)
def test_what_can_be_held_is_started(adapter: CodexLaunch, arguments: Sequence[str]) -> None:
    """Everything else is left to the person."""
    adapter.check(["codex", *arguments], {})


@pytest.mark.parametrize("arguments", [["--version"], ["login"], ["exec", "--help"]])
def test_what_asks_no_model_is_started_as_it_is(
    adapter: CodexLaunch, tmp_path: Path, arguments: Sequence[str]
) -> None:
    """Looking needs no hook, and is not waited for."""
    prepared, asked = prepare(adapter, tmp_path, *arguments)
    assert list(prepared.command[1:]) == list(arguments)
    assert asked == []
    assert adapter.escaped() is None


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["exec", "fix it"], "fix it"),
        (["e", "-m", "x", "-C", "/ws", "--json", "fix it"], "fix it"),
        (["fix it"], "fix it"),
        (["--", "exec"], "exec"),
        (["exec", "-"], None),
        (["exec"], None),
        (["resume", "--last"], None),
        (["exec", "resume", "--last"], None),
        ([], None),
    ],
)
def test_the_typed_prompt_is_found(arguments: Sequence[str], prompt: str | None) -> None:
    """The one word that is neither an option nor its value is what the person asked."""
    assert CodexLaunch().prompt(["codex", *arguments]) == prompt


def test_its_configuration_is_closed_to_tools(adapter: CodexLaunch, tmp_path: Path) -> None:
    """Where hooks and credentials stand is the broker's business, by every name it has."""
    home = tmp_path / "codex"
    home.mkdir()
    link = tmp_path / "link"
    link.symlink_to(home)
    own = adapter.own({"CODEX_HOME": str(link)})
    for folder in (home, link):
        for name in ("config.toml", "hooks.json", "auth.json"):
            assert str(folder / name) in own


def test_a_run_without_its_hook_has_escaped(
    adapter: CodexLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that was overwritten, and a headless run whose hooks never start, are seen."""
    prepare(adapter, tmp_path, "exec", "go")
    assert adapter.escaped() is None
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    assert "did not start" in str(adapter.escaped())
    (tmp_path / "session" / CLIENT_NAME).write_bytes(b"")
    assert "was changed" in str(adapter.escaped())


def test_it_says_what_it_does_not_see(adapter: CodexLaunch) -> None:
    """A person who launches it is told what no hook of Codex shows."""
    assert any("write_stdin" in text for text in adapter.unseen())
