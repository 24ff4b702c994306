"""`broker catalog` drafts, checks and shows what is known of tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.console import Console, process
from tests.mcpkit import SERVER

DRAFT = ("catalog", "draft", "--mcp", "--server", "notes", "--", sys.executable, "-c", SERVER)


def test_a_draft_is_used_once_it_is_put_in_place(
    broker: Console, broker_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a server to a file that is checked, and from there to what is known."""
    monkeypatch.chdir(tmp_path)
    drafted = process(*DRAFT)
    assert drafted.code == 0
    assert "a draft of 3 tools" in drafted.err
    file = tmp_path / "notes.toml"
    file.write_text(drafted.out)
    said = broker("catalog", "check", "notes.toml")
    assert (said.code, said.out) == (0, "well-formed: 3 tools\n")
    assert broker("catalog", "show", "mcp__notes__look").code == 2
    folder = broker_home / "config" / "catalogs"
    folder.mkdir(parents=True)
    file.rename(folder / "notes.toml")
    shown: Any = broker("catalog", "show", "mcp__notes__look", "--json").json()
    assert [each["effect"] for each in shown] == ["opaque"]


def test_show(broker: Console) -> None:
    """All tools in a table, and one with its arguments in words."""
    every = broker("catalog", "show")
    assert every.code == 0
    assert any(line.split()[:2] == ["Edit", "write"] for line in every.out.splitlines())
    one = broker("catalog", "show", "Edit")
    assert "file_path  path-write: a path that is written" in one.out
    assert json.loads(broker("catalog", "show", "--json").out)


def test_check_says_what_is_in_reads_and_what_is_wrong(broker: Console, tmp_path: Path) -> None:
    """A person sees which tools they vouch for; an error has the file and the line."""
    file = tmp_path / "a.toml"
    file.write_text('[tools.look]\neffect = "read"\n')
    assert "look: in `@reads`" in broker("catalog", "check", str(file)).out
    file.write_text('[tools.look]\neffect = "raed"\n')
    said = broker("catalog", "check", str(file))
    assert said.code == 2
    assert "a.toml:2" in said.err
    assert broker("catalog", "check", str(tmp_path / "no.toml")).code == 2


def test_bad_input(broker: Console) -> None:
    """Neither a server nor an address, both, or a server that is not there."""
    for words in (
        ("catalog", "draft", "--", "x"),
        ("catalog", "draft", "--mcp"),
        ("catalog", "draft", "--mcp", "--url", "http://127.0.0.1:9/", "--", "x"),
        ("catalog", "draft", "--mcp", "--", "no-such-server"),
    ):
        said = broker(*words)
        assert (said.code, said.out) == (2, "")
