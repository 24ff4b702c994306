"""A folder is brought from one snapshot to a later one, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.capture.advancing import Advanced, advance
from broker.capture.restoring import restore
from broker.capture.snapper import Snapper
from broker.capture.treestore import git_program
from broker.errors import TraceError

pytestmark = pytest.mark.skipif(git_program() is None, reason="snapshots are kept by git")


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, str, str]:
    """A store with two trees: in the second one a file is new, one is another, a folder went."""
    space = tmp_path / "space"
    (space / "old").mkdir(parents=True)
    (space / "old/x.txt").write_text("x")
    (space / "same.txt").write_text("same")
    (space / "other.sh").write_text("one")
    order = {"root": str(space), "store": str(tmp_path / "fs"), "closed": [], "salt": ""}
    snapper = Snapper({**order, "git": git_program()})
    before = str(snapper.take("a", 1_800_000_000)["tree"])
    (space / "old/x.txt").unlink()
    (space / "old").rmdir()
    (space / "old").write_text("a file now")
    (space / "new").mkdir()
    (space / "new/y.txt").write_text("y")
    (space / "new/link").symlink_to("y.txt")
    (space / "other.sh").write_text("two")
    (space / "other.sh").chmod(0o755)
    after = str(snapper.take("b", 1_800_000_001)["tree"])
    snapper.close()
    return tmp_path / "fs", before, after


def test_what_differs_is_brought_there(trees: tuple[Path, str, str], tmp_path: Path) -> None:
    """What is new, another or gone is so afterwards, and what no snapshot held stays."""
    store, before, after = trees
    into = tmp_path / "into"
    restore(store, before, into)
    (into / "ignored.log").write_text("kept")
    assert advance(store, before, after, into) == Advanced(4, 1)
    assert (into / "old").read_text() == "a file now"
    assert (into / "new/y.txt").read_text() == "y"
    assert os.readlink(into / "new/link") == "y.txt"
    assert (into / "other.sh").read_text() == "two"
    assert os.access(into / "other.sh", os.X_OK)
    assert (into / "ignored.log").read_text() == "kept"


def test_what_is_there_already_is_not_written(trees: tuple[Path, str, str], tmp_path: Path) -> None:
    """What the agent did by itself is not done again, so that no file looks newer than it is."""
    store, before, after = trees
    into = tmp_path / "into"
    restore(store, after, into)
    at = (into / "other.sh").stat().st_mtime_ns
    assert advance(store, before, after, into) == Advanced()
    assert (into / "other.sh").stat().st_mtime_ns == at
    assert advance(store, after, after, into) == Advanced()
    fresh = tmp_path / "fresh"
    restore(store, before, fresh)
    assert advance(store, before, after, fresh, lambda path: path != b"other.sh") == Advanced(1)
    assert (fresh / "old/x.txt").exists()


def test_no_link_is_followed(trees: tuple[Path, str, str], tmp_path: Path) -> None:
    """A link that an agent put in the way leads nowhere, and what lies behind it is untouched."""
    store, before, after = trees
    into, elsewhere = tmp_path / "into", tmp_path / "elsewhere"
    restore(store, before, into)
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("mine")
    (into / "new").symlink_to(elsewhere)
    (into / "other.sh").unlink()
    (into / "other.sh").symlink_to(elsewhere / "kept")
    found = advance(store, before, after, into)
    assert sorted(found.left) == ["new/link", "new/y.txt"]
    assert [each.name for each in elsewhere.iterdir()] == ["kept"]
    assert (elsewhere / "kept").read_text() == "mine"
    assert not (into / "other.sh").is_symlink()


def test_a_store_without_the_trees_is_an_error(
    trees: tuple[Path, str, str], tmp_path: Path
) -> None:
    """A tree that is not there, or a folder that is not, is said."""
    store, before, after = trees
    with pytest.raises(TraceError, match="does not hold"):
        advance(store, before, "0" * 40, tmp_path)
    with pytest.raises(TraceError, match="cannot be opened"):
        advance(store, before, after, tmp_path / "nowhere")
