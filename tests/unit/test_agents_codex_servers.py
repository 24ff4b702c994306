"""Codex's own word on its MCP servers, and the settings that put the gateway before them."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from broker.agents.adapter import Launch
from broker.agents.codex.servers import START_S, gateway_settings

TRANSPORT = {"type": "stdio", "command": "server", "args": ["-v"], "env": {"A": "secret"}}
ROW = {"name": "notes", "enabled": True, "transport": TRANSPORT}


def asked(
    root: Path, rows: object, *settings: str, config: str = "[mcp_servers.notes]"
) -> list[str]:
    """Ask a program that pretends to be Codex, and return the settings."""
    program, file = root / "codex", root / "config.toml"
    file.write_text(config)
    said = rows if isinstance(rows, str) else json.dumps(rows)
    program.write_text(f"#!{sys.executable}\nimport sys\nprint({said!r})\n")
    program.chmod(0o755)
    launch = Launch((), {"PATH": os.defpath}, root, root / "sid", root / "s")
    return gateway_settings(str(program), file, launch, settings)[0]


def test_a_server_is_started_behind_the_gateway(tmp_path: Path) -> None:
    """Command and arguments are set, each in TOML that means what was meant, and our variables."""
    row = {**ROW, "transport": {**TRANSPORT, "args": ["-v", 'b"c']}}
    found = asked(tmp_path, [row])
    read = tomllib.loads("\n".join(found))["mcp_servers"]["notes"]
    assert read["args"][-3:] == ["server", "-v", 'b"c']
    assert read["env"]["BROKER_SOCKET"] == str(tmp_path / "s")
    assert set(read) == {"command", "args", "env", "startup_timeout_sec"}
    assert read["startup_timeout_sec"] == START_S
    assert asked(tmp_path, [{**ROW, "startup_timeout_sec": 90}])[-1].endswith("_sec=90.0")


def test_no_key_of_a_server_stands_on_a_command_line(tmp_path: Path) -> None:
    """Every user of the machine could read it there; Codex takes it from the configuration."""
    found = asked(tmp_path, [ROW])
    assert "secret" in json.dumps(ROW)
    assert not [setting for setting in found if "secret" in setting]


@pytest.mark.parametrize(
    "rows",
    [
        [{**ROW, "enabled": False}],
        [{**ROW, "transport": {"type": "streamable_http", "url": "https://a.example"}}],
        [{**ROW, "name": "a.b"}],
        [{**ROW, "transport": None}],
        [7],
        {},
        "broken",
    ],
)
def test_others_stay_as_they_are(tmp_path: Path, rows: object) -> None:
    """Switched off, with an address, with a name that is no key, and answers of any shape."""
    assert asked(tmp_path, rows) == []


def test_a_server_with_an_address_stays_and_is_told(tmp_path: Path) -> None:
    """Codex takes no server that has an address and a command."""
    far = {"type": "streamable_http", "url": "https://a.example", "bearer_token_env_var": "T"}
    program, file = tmp_path / "codex", tmp_path / "config.toml"
    file.write_text("[mcp_servers.notes]")
    rows = json.dumps([ROW, {"name": "far", "enabled": True, "transport": far}])
    program.write_text(f"#!{sys.executable}\nprint({rows!r})\n")
    program.chmod(0o755)
    launch = Launch((), {"PATH": os.defpath}, tmp_path, tmp_path / "sid", tmp_path / "s")
    settings, beside = gateway_settings(str(program), file, launch, ())
    assert beside == ("far",)
    assert settings
    assert not [each for each in settings if "far" in each]


def test_what_was_typed_is_left_alone(tmp_path: Path) -> None:
    """It stands behind our settings on the command line, and half of each would count."""
    assert asked(tmp_path, [ROW], "-c", "mcp_servers.notes.command=x") == []


def test_codex_is_asked_only_where_it_has_servers(tmp_path: Path) -> None:
    """A configuration that names none is not worth a process."""
    assert asked(tmp_path, [ROW], config="") == []
