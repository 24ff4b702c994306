"""What the person's configuration of opencode says of subagents and servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.agents.definitions import Listing
from broker.agents.opencode.settings import definitions, listing, servers
from broker.errors import BrokerError


def put(root: Path, name: str, content: object) -> Path:
    """Write a file of opencode's, an object as JSON."""
    place = root / ".config/opencode" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content if isinstance(content, str) else json.dumps(content))
    return place


def test_settings_and_files_define_subagents(tmp_path: Path) -> None:
    """A table of switches, in settings with comments or in a file of its own; all hold."""
    agent = {"looker": {"tools": {"bash": False}}}
    put(tmp_path, "opencode.jsonc", f"// mine\n{json.dumps({'agent': agent})}")
    text = "---\ndescription: x\ntools:\n  write: false # none\n  grep: true\n---\nlook\n"
    put(tmp_path, "agent/deep/looker.md", text.replace("\n", "\r\n"))
    found = definitions({"HOME": str(tmp_path)}).listed("looker")
    assert found == Listing(None, ("bash", "edit", "write", "apply_patch"))
    assert definitions({"HOME": str(tmp_path)}).listed("other") is None


def test_a_table_may_close_every_tool_but_some() -> None:
    """Only then there is a list of what remains."""
    assert listing({"*": False, "read": True, "bash": False}) == Listing(("read",), ("bash",))
    assert listing({"read": True}) == Listing()
    assert listing({"notes_*": False}) == Listing()


@pytest.mark.parametrize(
    "head",
    ["tools: {}", "tools:\n  write: maybe", "tools:\n  write: false\ntools:\n  bash: false"],
)
def test_a_table_that_may_be_read_in_two_ways_is_an_error(tmp_path: Path, head: str) -> None:
    """On one line, with another value, or twice."""
    put(tmp_path, "agents/looker.md", f"---\n{head}\n---\n")
    with pytest.raises(BrokerError):
        definitions({"HOME": str(tmp_path)}).listed("looker")


def test_settings_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    """They may define any kind of subagent."""
    put(tmp_path, "opencode.json", "{broken")
    with pytest.raises(BrokerError, match=r"opencode\.json"):
        definitions({"HOME": str(tmp_path)})


def test_servers_are_those_of_the_person_that_are_on(tmp_path: Path) -> None:
    """Later settings add to earlier ones, as opencode merges them."""
    entry = {"type": "local", "command": ["a"]}
    put(tmp_path, "config.json", {"mcp": {"one": entry, "two": entry}})
    other = put(tmp_path, "more.json", {"mcp": {"two": {"enabled": False}, "three": entry}})
    given = {"HOME": str(tmp_path), "OPENCODE_CONFIG": str(other)}
    given["OPENCODE_CONFIG_CONTENT"] = '{"mcp": {"one": {"timeout": 5}, "odd": 7}}'
    assert servers(given) == {"one": {**entry, "timeout": 5}, "three": entry}
