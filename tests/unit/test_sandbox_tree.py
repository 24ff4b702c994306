"""What lies in a folder, as the walls need to know it."""

from __future__ import annotations

import os
from pathlib import Path

from broker.sandbox.plan import Item
from broker.sandbox.tree import guarded_in, listing


def test_each_kind_is_told(tmp_path: Path) -> None:
    """Files, folders, links, other things and second names are told apart, no link followed."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/one").write_text("")
    (tmp_path / "d/two").write_text("")
    os.link(tmp_path / "d/two", tmp_path / "again")
    (tmp_path / "d/link").symlink_to(tmp_path / "d")
    os.mkfifo(tmp_path / "d/pipe")
    found = listing(str(tmp_path))
    assert sorted(found("d/")) == [
        Item("link", "link"),
        Item("one", "file"),
        Item("pipe", "other"),
        Item("two", "file", True),
    ]
    assert Item("d", "folder") in found("")


def test_what_cannot_be_listed_is_empty(tmp_path: Path) -> None:
    """A folder that is not there has no entries."""
    assert list(listing(str(tmp_path))("gone/")) == []


def test_guarded_places_are_found(tmp_path: Path) -> None:
    """Repositories and our settings are found below the trees that are asked for, and no others."""
    for name in ("src/a/.git/hooks", ".broker", "docs/.git"):
        (tmp_path / name).mkdir(parents=True)
    assert guarded_in(str(tmp_path), [str(tmp_path / "src")]) == ["src/a/.git"]
    found = guarded_in(str(tmp_path), [str(tmp_path)])
    assert sorted(found) == [".broker", "docs/.git", "src/a/.git"]
