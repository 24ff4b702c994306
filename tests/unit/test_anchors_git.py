"""A branch of a git remote: what is pushed, and what the remote shows."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.anchors.anchor import AnchorError
from broker.anchors.git import GitRemote
from broker.errors import Break
from tests.anchorkit import Log, bare_remote


@pytest.fixture
def remote(tmp_path: Path) -> str:
    """An empty remote."""
    return bare_remote(tmp_path / "remote.git")


@pytest.fixture
def anchor(tmp_path: Path, remote: str) -> GitRemote:
    """The remote as an installation knows it."""
    return GitRemote("g", remote, "receipts", tmp_path / "mine.git")


def git(remote: str, *words: str) -> str:
    """Ask the remote itself."""
    done = subprocess.run(["git", "-C", remote, *words], check=True, capture_output=True, text=True)
    return done.stdout


def test_every_checkpoint_is_a_commit(anchor: GitRemote, remote: str) -> None:
    """The branch keeps them all, and evidence of each counts as long as it does."""
    log = Log(20)
    sizes = (3, 9, 20)
    pushed = [anchor.submit(log.note(size), log.grown(size)) for size in sizes]
    assert len(git(remote, "log", "--format=%H", "receipts").split()) == 3
    for size, evidence in zip(sizes, pushed, strict=True):
        assert anchor.check(log.note(size), evidence, 0).by == "g"
    assert anchor.newest(f"{log.key.name}/ledger") == log.note(20)
    assert anchor.newest("another/log") is None
    assert anchor.submit(log.note(20), log.grown(20)) == pushed[-1]


def test_logs_stand_beside_each_other(anchor: GitRemote) -> None:
    """A checkpoint of one log leaves those of others where they are."""
    one, two = Log(9), Log(9, bytes(range(1, 33)))
    for log in (one, two):
        anchor.submit(log.note(3), log.grown(3))
    anchor.submit(one.note(9), one.grown(9))
    assert anchor.newest(f"{one.key.name}/ledger") == one.note(9)
    assert anchor.newest(f"{two.key.name}/ledger") == two.note(3)


def test_a_log_that_was_cut_or_forked_is_not_taken(anchor: GitRemote) -> None:
    """Fewer lines than the remote has, or other ones, are a break and nothing is pushed."""
    log = Log(20)
    anchor.submit(log.note(9), log.grown(9))
    with pytest.raises(Break, match="9 lines and 5 are left"):
        anchor.submit(log.note(5), log.grown(5))
    log.lines[2] = b"rewritten"
    for size in (9, 12):
        with pytest.raises(Break, match="a fork"):
            anchor.submit(log.note(size), log.grown(size))
    assert anchor.newest(f"{log.key.name}/ledger") == Log(20).note(9)


def test_evidence_that_the_remote_does_not_hold(anchor: GitRemote, remote: str) -> None:
    """A commit of our own making, another checkpoint's, and none at all do not count."""
    log = Log(20)
    first = anchor.submit(log.note(3), log.grown(3))
    second = anchor.submit(log.note(9), log.grown(9))
    for note, evidence in (
        (log.note(3), second),
        (log.note(9), first),
        (log.note(9), b"f" * 40),
        (log.note(9), b"HEAD"),
        (log.note(9), b"--help"),
    ):
        with pytest.raises(Break):
            anchor.check(note, evidence, 0)
    git(remote, "update-ref", "refs/heads/receipts", first.decode().strip())
    with pytest.raises(Break, match="does not hold commit"):
        anchor.check(log.note(9), second, 0)


def test_two_installations_push_at_once(tmp_path: Path, remote: str) -> None:
    """Nobody's checkpoint is lost when several push to one branch."""
    logs = [Log(5, bytes([n]) + bytes(31)) for n in range(1, 4)]

    def push(n: int) -> bytes:
        anchor = GitRemote("g", remote, "receipts", tmp_path / f"mine{n}.git")
        for _ in range(5):
            try:
                return anchor.submit(logs[n].note(5), logs[n].grown(5))
            except AnchorError:
                continue
        raise AssertionError("never taken")

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(push, range(3)))
    reader = GitRemote("g", remote, "receipts", tmp_path / "reader.git")
    assert all(reader.newest(f"{log.key.name}/ledger") == log.note(5) for log in logs)


def test_a_remote_that_is_away(tmp_path: Path) -> None:
    """Nothing there is told as that, for handing in and for checking."""
    log = Log(3)
    anchor = GitRemote("g", str(tmp_path / "gone.git"), "receipts", tmp_path / "mine.git")
    with pytest.raises(AnchorError, match="git cannot ls-remote"):
        anchor.submit(log.note(3), log.grown(3))
    with pytest.raises(AnchorError):
        anchor.check(log.note(3), b"0" * 40, 0)


def test_the_callers_repository_is_not_touched(
    anchor: GitRemote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that point git at a repository of the caller's are not followed."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "theirs"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    log = Log(3)
    assert anchor.submit(log.note(3), log.grown(3))
    assert not (tmp_path / "theirs").exists()
    assert not (tmp_path / "index").exists()
