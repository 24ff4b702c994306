"""What could outvote the hook in a run of Qwen Code, and what could not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.agents.qwen.rivals import Rivals

AGENT = "---\nname: helper\ndescription: helps with hooks\n{}---\nThe hooks: are text here.\n"
HOOK = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}
SEQUENTIAL = {"hooks": {"PreToolUse": [{"sequential": True, "hooks": []}]}}


def put(path: Path, content: object) -> None:
    """Write a file, an object as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def found(root: Path, *, extensions: bool = True) -> str | None:
    """Return what is found with the workspace, and the user's home, below a folder."""
    rivals = Rivals(root / "home/.qwen", root / "home", extensions=extensions)
    return rivals.found(root / "ws")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("ws/.qwen/settings.json", HOOK, "PreToolUse"),
        ("ws/.qwen/settings.json", '// x\n{"hooks": /* y */ {"PreToolUse": [{}]}}', "PreToolUse"),
        ("ws/.qwen/settings.json", '{"a": ' + "1" * 5000 + "}", "not understood"),
        ("ws/.qwen/settings.json", "[" * 100_000, "not understood"),
        ("ws/.qwen/settings.json", "[]", "not a JSON object"),
        ("ws/.qwen/settings.json", {"skills": {"directories": ["x"]}}, "folders of skills"),
        ("home/.qwen/settings.json", SEQUENTIAL, "sequential"),
        ("home/.qwen/settings.json", {"tools": {"sandbox": "docker"}}, "tools.sandbox"),
        ("home/.qwen/settings.json", {"tools": {"executionSandbox": {}}}, "executionSandbox"),
        ("ws/.qwen/agents/a.md", AGENT.format("hooks:\n  PreToolUse: []\n"), "`hooks`"),
        ("ws/.qwen/agents/a.md", AGENT.format('"executor": {kind: acp}\n'), "`executor`"),
        ("ws/.qwen/agents/a.md", AGENT.format("executionBackend: container\n"), "executionBackend"),
        ("ws/.qwen/agents/a.md", AGENT.format('"\\x68ooks": {}\n'), "spells its keys"),
        ("ws/.qwen/agents/a.md", AGENT.format("? hooks # x\n: {}\n"), "spells its keys"),
        ("ws/.qwen/agents/a.md", AGENT.format("x: &a hooks\n*a : {}\n"), "spells its keys"),
        ("ws/.qwen/agents/a.md", "no frontmatter\nhooks: {}\n", "`hooks`"),
        ("home/.qwen/agents/a.md", AGENT.format("executor: {}\n"), "`executor`"),
        ("ws/.qwen/skills/s/SKILL.md", AGENT.format("hooks: {}\n"), "`hooks`"),
        ("ws/.agents/skills/s/SKILL.md", AGENT.format("hooks: {}\n"), "`hooks`"),
        ("home/.agents/skills/s/SKILL.md", AGENT.format("hooks: {}\n"), "`hooks`"),
        ("home/.qwen/extensions/e/qwen-extension.json", HOOK, "brings hooks"),
        ("home/.qwen/extensions/e/hooks/hooks.json", {}, "brings hooks"),
        ("home/.qwen/extensions/e/agents/a.md", AGENT.format("executor: {}\n"), "`executor`"),
    ],
)
def test_a_rival_is_found(tmp_path: Path, name: str, content: object, why: str) -> None:
    """Each is named with its file, and with what is wrong about it."""
    put(tmp_path / name, content)
    told = found(tmp_path)
    assert told is not None
    assert why in told
    assert str(tmp_path / name) in told


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ws/.qwen/settings.json", {"hooks": {"PostToolUse": [{}], "PreToolUse": []}}),
        ("ws/.qwen/settings.json", {"disableAllHooks": True, "tools": {"sandbox": "docker"}}),
        ("ws/.qwen/settings.json", '{"about": "// no comment, /* none */"}'),
        ("home/.qwen/settings.json", HOOK),
        ("home/.qwen/settings.json", {"tools": {"sandbox": False}}),
        ("ws/.qwen/agents/a.md", AGENT.format("tools: [read_file]\n")),
        ("ws/.qwen/skills/s/SKILL.md", AGENT.format("")),
        ("ws/.qwen/skills/s/other.md", AGENT.format("hooks: {}\n")),
        ("home/.qwen/extensions/e/qwen-extension.json", {"name": "e"}),
    ],
)
def test_what_is_no_rival_is_left_alone(tmp_path: Path, name: str, content: object) -> None:
    """What cannot outvote the hook, or what other means hold, does not keep a run from starting."""
    put(tmp_path / name, content)
    assert found(tmp_path) is None


def test_extensions_that_are_not_loaded_do_not_count(tmp_path: Path) -> None:
    """A person who asked for none of them is not kept from starting by one."""
    put(tmp_path / "home/.qwen/extensions/e/hooks/hooks.json", HOOK)
    assert found(tmp_path, extensions=False) is None


@pytest.mark.parametrize("kind", ["pipe", "folder", "dangling", "huge"])
def test_what_cannot_be_read_counts_as_a_rival(tmp_path: Path, kind: str) -> None:
    """A pipe is not waited for, and nothing is guessed about what is not a plain file."""
    place = tmp_path / "ws/.qwen/settings.json"
    place.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "huge":
        place.write_bytes(b" " * (4 * 2**20 + 1))
    else:
        place.symlink_to(tmp_path / "nothing")
    assert "cannot be read" in str(found(tmp_path))


def test_a_change_is_seen_and_a_file_is_read_once(tmp_path: Path) -> None:
    """The second look is at what changed since the first."""
    rivals = Rivals(tmp_path / "home/.qwen", tmp_path / "home")
    place = tmp_path / "ws/.qwen/settings.json"
    assert rivals.found(tmp_path / "ws") is None
    put(place, HOOK)
    assert rivals.found(tmp_path / "ws") is not None
    assert rivals.found(tmp_path / "ws") is not None
    place.unlink()
    assert rivals.found(tmp_path / "ws") is None


def test_a_workspace_that_is_the_home_is_the_persons_own(tmp_path: Path) -> None:
    """There the settings are the user's, whose hooks stand before ours."""
    put(tmp_path / ".qwen/settings.json", HOOK)
    assert Rivals(tmp_path / ".qwen", tmp_path).found(tmp_path) is None


@pytest.mark.parametrize("text", ["helper", "'helper'", '"helper"'])
def test_an_agents_name_is_read(tmp_path: Path, text: str) -> None:
    """A kind that a file defines is known, in each spelling, and no other."""
    put(tmp_path / "ws/.qwen/agents/a.md", f"---\nname: {text}\ndescription: x\n---\nhi\n")
    rivals = Rivals(tmp_path / "home/.qwen", tmp_path / "home")
    assert rivals.defines(tmp_path / "ws", "helper")
    assert not rivals.defines(tmp_path / "ws", "help")
