"""The person's MCP servers in the system settings of a run of Qwen Code."""

from __future__ import annotations

import json
from pathlib import Path

from broker.agents.adapter import Launch
from broker.agents.qwen.servers import with_servers

ENTRY = {"command": "server", "trust": True}


def put(path: Path, **servers: object) -> Path:
    """Write a settings file with these servers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_only_servers_of_the_person_alone_are_taken(tmp_path: Path) -> None:
    """One of the workspace, of the machine, or that the workspace has an entry for, stays."""
    far = {"httpUrl": "https://a.example/mcp"}
    put(tmp_path / "own/settings.json", mine=ENTRY, theirs=ENTRY, machines=ENTRY, far=far)
    put(tmp_path / "ws/.qwen/settings.json", theirs=ENTRY, workspaces=ENTRY)
    system = put(tmp_path / "system.json", machines=ENTRY)
    launch = Launch((), {}, tmp_path / "ws", tmp_path / "sid", tmp_path / "s")
    settings, beside = with_servers(launch, tmp_path / "own", system)
    found = settings["mcpServers"]
    assert isinstance(found, dict)
    assert found["machines"] == ENTRY
    assert set(found) == {"mine", "machines"}
    assert found["mine"]["trust"] is True
    assert found["mine"]["args"][-1] == "server"
    assert beside == ("far",)


def test_without_servers_nothing_is_added(tmp_path: Path) -> None:
    """The machine's settings stay as they are."""
    launch = Launch((), {}, tmp_path, tmp_path / "sid", tmp_path / "s")
    assert with_servers(launch, tmp_path, tmp_path / "none") == ({}, ())
