"""
The MCP servers of every real agent, which stand behind the gateway in a run.

A person's configuration names a server; nothing of it is edited. Each test runs where its agent is
installed, and needs neither an account nor a network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agents import test_codex, test_copilot, test_gemini, test_opencode, test_qwen
from tests.agents.stage import Call, Stage, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

NOTES = str(Path(__file__).with_name("notes_server.py"))
STDIO = {"command": sys.executable, "args": [NOTES]}
TOML = f'[mcp_servers.notes]\ncommand = "{sys.executable}"\nargs = ["{NOTES}"]\n'
APPROVED = 'default_tools_approval_mode = "approve"\n'


@dataclass(frozen=True)
class Place:
    """Where an agent's servers are configured, and how its models call a tool of one."""

    name: str
    program: tuple[str, str]
    stage: Callable[[Path, str], Stage]
    put: Callable[[Stage], Path]
    look: str
    waits: tuple[Call, ...] = ()  # what is called first, where nothing waits for servers


def in_opencode(stage: Stage) -> Path:
    """Name the server in the settings that the stage writes."""
    assert isinstance(stage, test_opencode.Stage)
    stage.settings["mcp"] = {"notes": {"type": "local", "command": [sys.executable, NOTES]}}
    return stage.write("unused.json", "")


PLACES = (
    Place(
        "codex",
        ("BROKER_CODEX", "codex"),
        test_codex.Stage,
        lambda stage: stage.write("user/.codex/config.toml", TOML + APPROVED),
        "mcp__notes/look",
        (("exec_command", {"cmd": "sleep 8"}),),
    ),
    Place(
        "gemini",
        ("BROKER_GEMINI", "gemini"),
        test_gemini.Stage,
        lambda stage: stage.write(
            "user/.gemini/settings.json",
            {**test_gemini.SETTINGS, "mcpServers": {"notes": STDIO}},
        ),
        "mcp_notes_look",
    ),
    Place(
        "qwen",
        ("BROKER_QWEN", "qwen"),
        test_qwen.Stage,
        lambda stage: stage.write(
            "user/.qwen/settings.json",
            {"$version": 4, **test_qwen.QUIET, "mcpServers": {"notes": {**STDIO, "trust": True}}},
        ),
        "mcp__notes__look",
    ),
    Place(
        "copilot",
        ("BROKER_COPILOT", "copilot"),
        test_copilot.Stage,
        lambda stage: stage.write(
            "user/.copilot/mcp-config.json",
            {"mcpServers": {"notes": {**STDIO, "type": "local", "tools": ["*"]}}},
        ),
        "notes-look",
    ),
    Place(
        "opencode",
        ("BROKER_OPENCODE", "opencode"),
        test_opencode.Stage,
        in_opencode,
        "notes_look",
    ),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_a_call_is_debited_once(tmp_path: Path, place: Place) -> None:
    """Hook and gateway see a call, one decision and one result are recorded, one call is spent."""
    stage = place.stage(tmp_path, installed(*place.program))
    file = place.put(stage)
    before = file.read_bytes()
    calls: list[Call] = [*place.waits, *((place.look, {}) for _ in range(3))]
    code, _, err = stage.run(
        {"main": [*(Use([call]) for call in calls), Say("done")]},
        scope=["tools=mcp__notes__look,Bash", f"calls={len(place.waits) + 2}"],
    )
    assert code == 0, err
    assert "look was called" in stage.told(f"main-{len(place.waits)}-0")
    found = [(d["tool"], d["decision"]) for d in stage.of("decision") if d["tool"] != "Bash"]
    assert found == [("mcp__notes__look", d) for d in ("allow", "allow", "refuse")]
    assert len(stage.of("result")) == 2
    told = [data["text"] for data in stage.of("note") if "mcp:notes" in data["source"]]
    assert any("2 tools, 1 shown" in text for text in told), json.dumps(stage.of("note"))
    assert before in file.read_bytes()
