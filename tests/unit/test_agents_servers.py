"""Which MCP servers of an agent stand behind the gateway, and what their gateway is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, adapter_for
from broker.agents.servers import behind_gateway, beside_gateway
from broker.mcp.config import ADDRESS_VARIABLE, HEADERS_VARIABLE, gateway_command

LAUNCH = Launch((), {"BROKER_HOME": "/b"}, Path("/ws"), Path("/b/sessions/sid"), Path("/run/s"))


def test_a_server_that_is_started_stands_behind_the_gateway() -> None:
    """It asks the session of this run, and all else that the entry says stays."""
    entry = {"command": "server", "args": ["-v"], "env": {"A": "b"}, "timeout": 5}
    found = behind_gateway({"notes": entry}, LAUNCH)
    words = [*gateway_command(), "--server", "notes", "--quiet", "--", "server", "-v"]
    environ = {"A": "b", "BROKER_SOCKET": "/run/s", "BROKER_SESSION": "sid", "BROKER_HOME": "/b"}
    assert found == {
        "notes": {"command": words[0], "args": words[1:], "env": environ, "timeout": 5}
    }


KEY = {"Authorization": "Bearer k"}


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "http", "url": "https://a.example/mcp", "headers": KEY},
        {"httpUrl": "https://a.example/mcp", "headers": KEY},
        {"type": "remote", "url": "https://a.example/mcp", "headers": KEY},
        {"type": "streamableHttp", "url": "https://a.example/mcp", "http_headers": KEY},
        {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        {"type": "http", "url": "http://[::1]:9/mcp"},
    ],
)
def test_a_server_whose_entry_says_all_stands_behind_it_too(entry: dict[str, object]) -> None:
    """It has headers, or lies on this machine; neither address nor key is on a command line."""
    (found,) = behind_gateway({"notes": entry}, LAUNCH).values()
    assert isinstance(found, dict)
    command = found["command"]
    words = command if isinstance(command, list) else [command, *found["args"]]
    assert words == [*gateway_command(), "--server", "notes", "--quiet"]
    environ = found["environment" if isinstance(command, list) else "env"]
    assert environ[ADDRESS_VARIABLE] in entry.values()
    if "headers" in entry or "http_headers" in entry:
        assert json.loads(environ[HEADERS_VARIABLE]) == KEY


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "https://a.example/mcp"},
        {"type": "http", "url": "https://a.example/mcp"},
        {"type": "http", "url": "https://a.example/mcp", "headers": {}},
        {"type": "http", "url": "https://127.0.0.1.a.example/mcp"},
        {"type": "http", "url": "https://a.example/mcp", "headers": KEY, "oauth": {}},
        {"type": "http", "url": "https://a.example/mcp", "headers": {"A": 7}},
        {"type": "sse", "url": "https://a.example/mcp", "headers": KEY},
        {"url": "https://a.example/sse", "headers": KEY},
        {"type": "http", "url": "https://u:p@a.example/mcp", "headers": KEY},
        {"type": "http", "url": "${BASE}/mcp", "headers": KEY},
        {"type": "http", "url": 7, "headers": KEY},
        {"type": "http", "url": "https://a.example", "httpUrl": "https://b.example"},
        {"type": "sse", "command": "x"},
        {"command": "x", "url": "https://a.example"},
        {"command": "x", "args": "y"},
        {"command": "x", "args": [1]},
        {"command": 7},
        {"command": []},
        {"command": ""},
        {"command": "/usr/bin/broker", "args": ["mcp", "--", "x"]},
        {"command": [*gateway_command(), "--", "x"]},
        {},
        None,
        "x",
    ],
)
def test_what_is_not_understood_stays_as_it_is(entry: object) -> None:
    """One with an address, one behind a gateway already, and one of a strange shape."""
    good = {"command": "server"}
    assert set(behind_gateway({"odd": entry, "good": good}, LAUNCH)) == {"good"}


def test_who_stays_beside_the_gateway_is_told() -> None:
    """Each server with an address that does not stand behind it, and no other one."""
    servers = {
        "signs-in": {"type": "http", "url": "https://a.example/mcp"},
        "keyed": {"type": "http", "url": "https://a.example/mcp", "headers": KEY},
        "odd": {"url": 7},
        "started": {"command": "x"},
        "broken": None,
    }
    gateways = behind_gateway(servers, LAUNCH)
    assert set(gateways) == {"keyed", "started"}
    assert beside_gateway(servers, gateways) == ("signs-in",)
    assert beside_gateway(None, ()) == ()


@pytest.mark.parametrize("servers", [None, [], "x", 7])
def test_what_is_no_table_holds_no_servers(servers: object) -> None:
    """The agent says so itself."""
    assert behind_gateway(servers, LAUNCH) == {}


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("claude", ".claude.json"),
        ("copilot", ".copilot/mcp-config.json"),
        ("gemini", ".gemini/settings.json"),
        ("qwen", ".qwen/settings.json"),
        ("cline", ".cline/data/settings/cline_mcp_settings.json"),
    ],
)
def test_what_repeats_a_servers_keys_goes_with_the_run(
    tmp_path: Path, name: str, file: str
) -> None:
    """Every file of a run that has them is named to the launch, which takes it away."""
    for folder in ("session", "ws", "home"):
        (tmp_path / folder).mkdir()
    place = tmp_path / "home" / file
    place.parent.mkdir(exist_ok=True, parents=True)
    entry = {"command": "server", "env": {"KEY": "secret"}}
    place.write_text(json.dumps({"mcpServers": {"notes": entry}}))
    environ = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    session = tmp_path / "session"
    adapter = adapter_for([name])
    command = (name, *adapter.trial, "-p", "go")
    prepared = adapter.prepare(Launch(command, environ, tmp_path / "ws", session, tmp_path / "s"))
    files = [path for path in session.rglob("*") if path.is_file() and not path.is_symlink()]
    found = {path for path in files if b"secret" in path.read_bytes()}
    assert found
    assert found <= set(prepared.fleeting)
