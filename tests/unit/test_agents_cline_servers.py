"""The MCP servers of Cline CLI in a run: in a file of its own, each behind the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.agents.adapter import Launch
from broker.agents.cline.servers import START_S, with_gateways
from broker.mcp.config import ADDRESS_VARIABLE, gateway_command

LAUNCH = Launch((), {}, Path("/ws"), Path("/b/sessions/sid"), Path("/run/s"))
FAR = {"type": "streamableHttp", "url": "https://a.example/mcp", "headers": {"A": "k"}}


def entries(servers: dict[str, object]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the entries of the run's own file, and the servers beside the gateway."""
    found = with_gateways({"mcpServers": servers, "other": 1}, LAUNCH)
    assert found.settings is not None
    assert found.settings["other"] == 1
    named = found.settings["mcpServers"]
    assert isinstance(named, dict)
    return named, found.beside


def test_both_spellings_stand_behind_the_gateway() -> None:
    """With a transport of its own or without one; all else that an entry says stays."""
    servers: dict[str, object] = {
        "nested": {"transport": {"type": "stdio", "command": "x"}, "disabled": True},
        "flat": {"command": "x", "transportType": "stdio", "timeout": 5},
        "far": {"transport": FAR},
        "flat-far": {**FAR, "disabled": False},
    }
    found, beside = entries(servers)
    assert beside == ()
    nested, flat, far, flat_far = (found[name] for name in servers)
    assert nested["transport"]["args"][-1] == "x"
    assert (nested["disabled"], nested["timeout"]) == (True, START_S)
    assert (flat["args"][-1], flat["timeout"], flat["type"]) == ("x", 5, "stdio")
    for each in (far["transport"], flat_far):
        assert each["command"] == gateway_command()[0]
        assert each["env"][ADDRESS_VARIABLE] == FAR["url"]
        assert each["type"] == "stdio"
        assert "url" not in each


def test_what_is_not_taken_stays_as_it_is() -> None:
    """One that may sign in, one of the older transport, and one of a strange shape."""
    servers: dict[str, object] = {
        "signs-in": {"transport": FAR, "oauthClient": {"clientId": "x"}},
        "older": {"transport": {"type": "sse", "url": "https://a.example/sse"}},
        "odd": 7,
        "good": {"command": "x"},
    }
    found, beside = entries(servers)
    assert beside == ("signs-in", "older")
    assert {name for name in servers if found[name] != servers[name]} == {"good"}


def test_a_file_with_a_sign_in_stays_in_its_place() -> None:
    """Cline renews sign-ins in that file; in a run's own one they would be lost with the run."""
    servers = {"signed": {"transport": FAR, "oauth": {"tokens": {}}}, "good": {"command": "x"}}
    found = with_gateways({"mcpServers": servers}, LAUNCH)
    assert (found.settings, found.beside) == (None, ("signed", "good"))


def test_a_person_without_servers() -> None:
    """Nothing is put in the place of the person's file."""
    for said in ({}, {"mcpServers": []}, {"mcpServers": {"far": {"url": "https://a.example"}}}):
        assert with_gateways(said, LAUNCH).settings is None
