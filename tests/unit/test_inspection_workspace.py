"""The configuration that a workspace brings along: listed, not used."""

from __future__ import annotations

import hashlib
from pathlib import Path

from broker.capabilities.fs import SystemFiles
from broker.capabilities.memory import MemoryFiles
from broker.inspection.workspace import MAX_FILE_BYTES, MAX_FILES, workspace_files


def test_each_file_has_its_role_and_digest() -> None:
    """Settings, instructions and catalogs are told apart; what is none of them is not listed."""
    files = MemoryFiles(
        {
            "/ws/.broker/catalogs/mine.toml": b"x",
            "/ws/.broker/hook.py": b"",
            "/ws/.claude/settings.json": b"{}",
            "/ws/.claude/commands/go.md": b"",
            "/ws/AGENTS.md": b"",
            "/ws/.mcp.json": b"{}",
            "/ws/src/AGENTS.md": b"",
            "/ws/README.md": b"",
        }
    )
    found = workspace_files(files.below("/ws"))
    assert [(file.path, file.role) for file in found] == [
        (".broker/catalogs/mine.toml", "catalog"),
        (".broker/hook.py", "unknown"),
        (".claude/commands/go.md", "instructions"),
        (".claude/settings.json", "settings"),
        (".mcp.json", "settings"),
        ("AGENTS.md", "instructions"),
    ]
    assert found[0].sha256 == hashlib.sha256(b"x").hexdigest()


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A link is listed as one, without what it leads to, and a folder behind one is not entered."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/settings.json").write_text("secret")
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / ".claude").symlink_to(tmp_path / "out")
    (workspace / "AGENTS.md").symlink_to(tmp_path / "out/settings.json")
    found = workspace_files(SystemFiles().below(str(workspace)))
    assert [(file.path, file.sha256) for file in found] == [(".claude", None), ("AGENTS.md", None)]


def test_there_is_an_end(tmp_path: Path) -> None:
    """Many files, deep folders and a large file cost no more than their limits."""
    deep = "/".join(["d"] * 30)
    many = {f"/ws/.broker/{n:04}": b"" for n in range(MAX_FILES + 9)}
    assert len(workspace_files(MemoryFiles(many).below("/ws"))) == MAX_FILES
    files = MemoryFiles(
        {f"/ws/.broker/{deep}/x": b"", "/ws/AGENTS.md": b"x" * (MAX_FILE_BYTES + 1)}
    )
    (large,) = workspace_files(files.below("/ws"))
    assert (large.path, large.sha256) == ("AGENTS.md", None)


def test_a_workspace_without_any() -> None:
    """Nothing there is nothing listed."""
    assert workspace_files(MemoryFiles({"/ws/a.py": b""}).below("/ws")) == []
