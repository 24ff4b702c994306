"""The repository of a copy says what the person's own said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.capture.repository import git_state
from broker.replay.repository import NONE, repository
from tests.unit.test_capture_repository import git, repo

__all__ = ["repo"]

ASKED = (
    ("status", "--short", "--branch"),
    ("log", "--oneline", "-n", "5"),
    ("rev-parse", "--abbrev-ref", "HEAD"),
    ("diff", "--stat"),
)


def copied(repo: Path, *without: str) -> Path:
    """Return a copy of a workspace as a snapshot would lay it out."""
    copy = repo.parent / "copy"
    shutil.copytree(repo, copy, ignore=shutil.ignore_patterns(".git", *without))
    return copy


@pytest.mark.parametrize("state", ["clean", "changed", "on no branch", "with a secret", "deep"])
def test_an_agent_is_told_the_same(repo: Path, state: str) -> None:
    """Branch, last commits and what changed are those of the person's repository."""
    without: tuple[str, ...] = ()
    if state == "with a secret":
        (repo / ".env").write_text("TOKEN=x\n")
        git(repo, "add", ".env")
        git(repo, "commit", "-qm", "two")
        without = (".env",)
    if state == "deep":
        for n in range(70):
            git(repo, "commit", "-q", "--allow-empty", "-m", f"c{n}")
    if state == "on no branch":
        git(repo, "checkout", "-q", "--detach")
    if state == "changed":
        (repo / "a").write_text("b\n")
        (repo / "new").write_text("n\n")
    known = git_state(repo)
    assert known is not None
    copy = copied(repo, *without)
    before = sorted(p for p in (repo / ".git").rglob("*"))
    assert repository(repo, known.head, known.branch, copy) == ""
    for words in ASKED:
        assert git(copy, *words) == git(repo, *words)
    assert git(copy, "remote") == ""
    assert sorted(p for p in (repo / ".git").rglob("*")) == before


def test_nothing_is_shared_and_no_setting_comes_along(repo: Path, tmp_path: Path) -> None:
    """What a replayed agent does to the copy's objects is done to no other; hooks stay behind."""
    hook = repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(repo, "config", "uploadpack.packObjectsHook", f"touch {tmp_path}/ran;")
    git(repo, "config", "alias.st", "!true")
    known = git_state(repo)
    assert known is not None
    copy = copied(repo)
    assert repository(repo, known.head, known.branch, copy) == ""
    objects = [p for p in (copy / ".git/objects").rglob("*") if p.is_file()]
    assert objects
    assert all(p.stat().st_nlink == 1 for p in objects)
    assert not (copy / ".git/objects/info/alternates").exists()
    assert "alias" not in (copy / ".git/config").read_text()
    assert not (tmp_path / "ran").exists()


def test_a_repository_that_is_gone_is_told(repo: Path) -> None:
    """The copy is a repository all the same, without a commit; so it is before the first."""
    copy = copied(repo)
    assert repository(repo.parent / "gone", "0" * 40, "main", copy) == NONE
    assert git(copy, "rev-parse", "--is-inside-work-tree") == "true"
    shutil.rmtree(copy)
    copy.mkdir()
    assert repository(repo, "", "feat/x", copy) == ""
    assert git(copy, "symbolic-ref", "--short", "HEAD") == "feat/x"
