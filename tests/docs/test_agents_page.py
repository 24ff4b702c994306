"""The page of agents says of each what its adapter says."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

from broker.agents.adapter import PROGRAMS, Adapter

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "agents.md"
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "copilot": "@github/copilot",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "pi": "@mariozechner/pi-coding-agent",
    "qwen": "@qwen-code/qwen-code",
}


def adapters() -> dict[str, Adapter]:
    """Return one adapter for each program; `.exe` is the same on another system."""
    found: dict[str, Adapter] = {}
    for program, place in PROGRAMS.items():
        module, name = place.split(":")
        if not program.endswith(".exe"):
            found[program] = getattr(import_module(module), name)()
    return found


def test_every_agent_stands_in_the_page_with_its_version() -> None:
    """No agent is missing, none is made up, and each version is the one that was tested."""
    rows = re.findall(r"^\| `([a-z]+)` \| ([0-9.]+) \|", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == {program: each.tested for program, each in adapters().items()}


def test_what_is_installed_is_what_was_tested() -> None:
    """The lock file has each agent in its adapter's version, exactly, and where none is a range."""
    folder = ROOT / "tests" / "agents"
    named = json.loads((folder / "package.json").read_text())["dependencies"]
    locked = json.loads((folder / "package-lock.json").read_text())["packages"]
    for program, each in adapters().items():
        assert named[PACKAGES.get(program, program)] == each.tested, program
    assert {name: locked[f"node_modules/{name}"]["version"] for name in named} == named


def test_every_agent_tells_what_is_not_seen() -> None:
    """Whoever launches one is told in sentences that stand alone."""
    for program, each in adapters().items():
        assert each.unseen(), program
        assert all(len(text) > 20 and not text.endswith(".") for text in each.unseen()), program
