"""
`broker agent` with real MCP servers behind it, under a ticket.

``mcp-server-filesystem`` (``BROKER_MCP_FILESYSTEM``), ``mcp-server-everything``
(``BROKER_MCP_EVERYTHING``), ``mcp-server-git`` (``BROKER_MCP_GIT``) and ``mcp-server-fetch``
(``BROKER_MCP_FETCH``) are the reference servers; a test of one that is not there is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agentkit import scripted

pytestmark = pytest.mark.agent


def found(variable: str, program: str, what: str) -> str:
    """Return the path of a server, or leave the test out."""
    path = os.environ.get(variable) or shutil.which(program)
    if path is None:
        pytest.skip(f"the MCP server for {what} is not installed")
    return path


def table(name: str, *command: str) -> str:
    """Return the table of the settings that starts a server."""
    return f"[mcp.{name}]\ncommand = {json.dumps(list(command))}\n"


def played(
    tmp_path: Path, config: str, scope: list[str], *calls: tuple[str, dict[str, object]]
) -> tuple[dict[str, int], list[tuple[str, str]], str]:
    """Make calls; return how they came out, what was decided, and what the model was told last."""
    script = {"main": [*(Use([call]) for call in calls), Say("Done.")]}
    with scripted(tmp_path, script, config=config) as (bench, model):
        ended = bench.run("[script main] go", mode="yolo", texts=scope)
    assert "is not there" not in bench.terminal.errors, bench.terminal.errors
    (sid,) = bench.sids
    counts: dict[str, int] = ended.document["calls"]  # type: ignore[assignment]  # a table
    return counts, bench.decisions(sid), model.asked[-1]


def test_files(tmp_path: Path) -> None:
    """The server for files reads what the scope names, and writes nothing that it does not."""
    server = found("BROKER_MCP_FILESYSTEM", "mcp-server-filesystem", "files")
    root = tmp_path / "ws"
    root.mkdir()
    counts, decisions, told = played(
        tmp_path,
        table("fs", server, str(root)),
        ["tools=mcp__fs__read_text_file"],
        ("mcp__fs__read_text_file", {"path": str(root / "a.txt")}),
        ("mcp__fs__write_file", {"path": str(root / "b.txt"), "content": "x"}),
    )
    assert counts == {"done": 1, "failed": 0, "refused": 1}
    assert [answer for _, answer in decisions] == ["allow", "refuse"]
    assert "one" in told
    assert not (root / "b.txt").exists()


def test_everything(tmp_path: Path) -> None:
    """The server that tries clients out echoes, and shows its environment to nobody in scope."""
    server = found("BROKER_MCP_EVERYTHING", "mcp-server-everything", "clients")
    counts, decisions, told = played(
        tmp_path,
        table("all", server, "stdio"),
        ["tools=mcp__all__echo,mcp__all__get-sum(a<=5, b<=5)"],
        ("mcp__all__echo", {"message": "there and back"}),
        ("mcp__all__get-sum", {"a": 2, "b": 3}),
        ("mcp__all__get-sum", {"a": 2, "b": 30}),
        ("mcp__all__get-env", {}),
    )
    assert counts == {"done": 2, "failed": 0, "refused": 2}
    assert [answer for _, answer in decisions] == ["allow", "allow", "refuse", "refuse"]
    assert "there and back" in told


def test_git(tmp_path: Path) -> None:
    """The server for git tells the log, and a commit that the scope does not name is refused."""
    server = found("BROKER_MCP_GIT", "mcp-server-git", "git")
    root = tmp_path / "ws"
    root.mkdir()
    settings = ("-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "the beginning")):
        subprocess.run(["git", *settings, *words], cwd=root, check=True)
    counts, _, told = played(
        tmp_path,
        table("git", server, "--repository", str(root)),
        ["tools=mcp__git__git_log"],
        ("mcp__git__git_log", {"repo_path": str(root)}),
        ("mcp__git__git_commit", {"repo_path": str(root), "message": "more"}),
    )
    assert counts == {"done": 1, "failed": 0, "refused": 1}
    assert "the beginning" in told


def test_fetch(tmp_path: Path) -> None:
    """What the server for pages would fetch is refused under hosts that do not name it."""
    server = found("BROKER_MCP_FETCH", "mcp-server-fetch", "pages")
    counts, decisions, told = played(
        tmp_path,
        table("web", server),
        ["tools=mcp__web__fetch", "hosts=example.org"],
        ("mcp__web__fetch", {"url": "https://other.test/"}),
    )
    assert counts == {"done": 0, "failed": 0, "refused": 1}
    assert decisions == [("mcp__web__fetch", "refuse")]
    assert "refused by `hosts`" in told
