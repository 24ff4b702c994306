"""An agent's servers, each behind the gateway."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from broker.errors import LaunchError
from broker.mcp.config import (
    ADDRESS_VARIABLE,
    HEADERS_VARIABLE,
    gateway_command,
    wrap_servers,
)

RUN = {"BROKER_SOCKET": "/run/s", "BROKER_SESSION": "sid", "HOME": "/h", "BROKER_HOME": "/b"}
HANDED = {"BROKER_SOCKET": "/run/s", "BROKER_SESSION": "sid", "BROKER_HOME": "/b"}
OURS = list(gateway_command())


def wrapped(entry: object, name: str = "notes") -> dict[str, Any]:
    """Return one entry behind the gateway."""
    found = wrap_servers({name: entry}, RUN)[name]
    assert isinstance(found, dict)
    return found


def test_a_started_server_keeps_its_command_behind_ours() -> None:
    """Arguments, environment and what else is set stay; the run's socket is handed on."""
    found = wrapped({"command": "s", "args": ["-v"], "env": {"A": "1"}, "timeout": 5})
    assert found["command"] == OURS[0]
    assert found["args"] == [*OURS[1:], "--server", "notes", "--quiet", "--", "s", "-v"]
    assert found["env"] == {"A": "1", **HANDED}
    assert found["timeout"] == 5


def test_a_command_in_one_list_stays_one_list() -> None:
    """Agents that spell a command so have another word for the environment."""
    found = wrapped({"type": "local", "command": ["s", "-v"], "environment": {"A": "1"}})
    assert found["command"] == [*OURS, "--server", "notes", "--quiet", "--", "s", "-v"]
    assert found["environment"] == {"A": "1", **HANDED}
    assert "args" not in found


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"type": "http", "url": "https://h/m"}, "stdio"),
        ({"url": "https://h/m"}, None),
        ({"httpUrl": "https://h/m"}, None),
        ({"type": "streamableHttp", "url": "https://h/m"}, "stdio"),
        ({"type": "remote", "url": "https://h/m"}, "local"),
    ],
)
def test_a_server_with_an_address_is_started_by_us(entry: dict[str, object], kind: object) -> None:
    """Every agent's spelling of one becomes its spelling of a command."""
    found = wrapped({**entry, "headers": {"Authorization": "Bearer x"}, "enabled": True})
    command = found["command"]
    words = command if isinstance(command, list) else [command, *found["args"]]
    assert words == [*OURS, "--server", "notes", "--quiet"]  # a command line is public
    assert found.get("type") == kind
    assert found["enabled"] is True
    assert not {"url", "httpUrl", "headers"} & found.keys()
    environ = found["environment" if isinstance(command, list) else "env"]
    assert json.loads(environ.pop(HEADERS_VARIABLE)) == {"Authorization": "Bearer x"}
    assert environ == {**HANDED, ADDRESS_VARIABLE: "https://h/m"}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "s",
        {},
        {"command": ""},
        {"command": []},
        {"command": 7},
        {"command": ["s", 7]},
        {"command": "s", "args": "x"},
        {"command": "s", "args": [7]},
        {"command": "s", "env": ["A=1"]},
        {"command": "s", "url": "https://h/m"},
        {"command": "s", "type": "http"},
        {"type": "sse", "url": "https://h/m"},
        {"type": "ws", "url": "wss://h/m"},
        {"type": "sdk", "name": "x"},
        {"url": "https://h/m", "httpUrl": "https://h/n"},
        {"url": 7},
        {"url": "https://h/m", "headers": ["A"]},
        {"url": "https://h/m", "headers": {"A": 1}},
        {"url": "https://h/m", "bearer_token_env_var": "T"},
        {"url": "https://h/m", "oauth": {"clientId": "x"}},
    ],
)
def test_an_entry_that_is_not_understood_keeps_the_run_from_starting(entry: object) -> None:
    """Nothing is passed on as it is, since its server would not be held."""
    with pytest.raises(LaunchError, match="notes"):
        wrapped(entry)


def test_names_are_spelled_as_agents_spell_them() -> None:
    """Two that come to the same are an error."""
    assert "my_server" in wrapped({"command": "s"}, "my server")["args"]
    with pytest.raises(LaunchError):
        wrap_servers({"a b": {"command": "s"}, "a.b": {"command": "s"}}, RUN)


def test_our_command_starts_wherever_it_is_started(tmp_path: Any) -> None:
    """A folder named like the package in the workspace is not what runs."""
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").write_text("raise SystemExit(9)")
    done = subprocess.run(
        [*gateway_command(), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "--server" in done.stdout
