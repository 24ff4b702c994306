"""Where a repository stands, read from its files, whatever they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from broker.capture.repository import git_state
from broker.trace.about import GitState

WHO = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main")


def git(folder: Path, *words: str) -> str:
    """Run git there, and return what it says."""
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a commit."""
    git(tmp_path, "init", "-q", "repo")
    (tmp_path / "repo/a").write_text("a\n")
    git(tmp_path / "repo", "add", "a")
    git(tmp_path / "repo", "commit", "-qm", "one")
    return tmp_path / "repo"


def test_what_git_says_itself(repo: Path) -> None:
    """On a branch, with packed names, on none, in a working tree of its own, before a commit."""
    head = git(repo, "rev-parse", "HEAD")
    assert git_state(repo) == GitState(head, "main")
    git(repo, "pack-refs", "--all")
    assert git_state(repo) == GitState(head, "main")
    git(repo, "worktree", "add", "-q", "-b", "feat/x", "../other")
    assert git_state(repo.parent / "other") == GitState(head, "feat/x")
    git(repo, "checkout", "-q", "--detach")
    assert git_state(repo) == GitState(head)
    git(repo.parent, "init", "-q", "new")
    assert git_state(repo.parent / "new") == GitState("", "main")
    assert git_state(repo.parent) is None


def test_a_repository_is_not_touched_and_nothing_of_it_runs(repo: Path, tmp_path: Path) -> None:
    """Its settings may name programs; they are not read."""
    git(repo, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    before = {p: p.stat().st_mtime_ns for p in (repo / ".git").rglob("*")}
    assert git_state(repo) is not None
    assert {p: p.stat().st_mtime_ns for p in (repo / ".git").rglob("*")} == before
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "said", [b"", b"ref: refs/heads/", b"ref: refs/tags/x", b"\xff", b"z" * 40, b"x" * 9_000]
)
def test_what_is_no_head_is_no_repository(repo: Path, said: bytes) -> None:
    """Half a file, a strange one, a huge one: nothing is guessed."""
    (repo / ".git/HEAD").write_bytes(said)
    assert git_state(repo) is None


def test_a_pipe_is_not_waited_for(repo: Path) -> None:
    """Whoever put it there waits for a reader that would never come back."""
    (repo / ".git/HEAD").unlink()
    os.mkfifo(repo / ".git/HEAD")
    assert git_state(repo) is None
    (repo / ".git").rename(repo / "moved")
    (repo / ".git").write_text("gitdir: nowhere\n")
    assert git_state(repo) is None
