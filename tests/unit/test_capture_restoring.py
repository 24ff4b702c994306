"""A snapshot laid out again: the same files, nowhere else, and nothing followed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from broker.capture.restoring import Restored, restore, restore_folders, within
from broker.capture.treestore import EMPTY, TreeEntry, TreeStore, environ, git_program
from broker.errors import InputError, TraceError

GIT = git_program() or ""


def stored(place: Path, files: dict[bytes, tuple[str, bytes]]) -> tuple[Path, str]:
    """Return a store and a tree that holds these files, by path their mode and content."""
    store = TreeStore(place / "fs", GIT)
    try:
        entries = [
            TreeEntry(path, mode, store.blob(content)) for path, (mode, content) in files.items()
        ]
        return store.folder, store.tree(entries, 1, "all")
    finally:
        store.close()


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    """Contents, programs, links and strange names are laid out again."""
    store, tree = stored(
        tmp_path,
        {
            b"a/b/f": ("100644", b"1\r\n\0"),
            b"run": ("100755", b"#!/bin/sh\n"),
            b"a/l": ("120000", b"b/f"),
            b"x\ny\xff": ("100644", b""),
        },
    )
    into = tmp_path / "into"
    assert restore(store, tree, into) == Restored(3, 1, ())
    assert (into / "a/b/f").read_bytes() == b"1\r\n\0"
    assert os.access(into / "run", os.X_OK)
    assert not os.access(into / "a/b/f", os.X_OK)
    assert os.readlink(into / "a/l") == "b/f"
    assert os.path.exists(os.fsencode(into) + b"/x\ny\xff")
    assert into.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    """Nothing is laid out over what is there, nor through a link."""
    store, tree = stored(tmp_path, {b"f": ("100644", b"1")})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_bytes(b"mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("full", "link", "full/mine"):
        with pytest.raises(InputError):
            restore(store, tree, tmp_path / name)
    assert os.listdir(tmp_path / "full") == ["mine"]
    assert os.listdir(tmp_path / "empty") == []


def test_links_that_lead_out_are_left_out(tmp_path: Path) -> None:
    """A link to elsewhere, by its text or by way of another link, is named and not made."""
    store, tree = stored(
        tmp_path,
        {
            b"d/e/f/up": ("120000", b"../../.."),
            b"by": ("120000", b"d/e/f/up/.."),
            b"abs": ("120000", b"/etc/passwd"),
            b"out": ("120000", b"../secret"),
            b"git": ("120000", b".git/config"),
            b"d/ok": ("120000", b"../d/e"),
        },
    )
    found = restore(store, tree, tmp_path / "into")
    assert found == Restored(0, 2, ("abs", "by", "git", "out"))
    assert sorted(os.listdir(tmp_path / "into")) == ["d"]


def test_a_hostile_store_writes_nothing_outside(tmp_path: Path) -> None:
    """A tree whose names lead out of the folder, or into a `.git`, is refused."""
    for name in (b"..", b".git", b".GIT"):
        store = tmp_path / f"fs-{name.decode()}"
        subprocess.run([GIT, "init", "-q", "--bare", store], check=True, env=environ("/"))
        blob = _git(store, b"evil", "hash-object", "-w", "--stdin")
        row = b"100644 " + name + b"\0" + bytes.fromhex(blob)
        tree = _git(store, row, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
        with pytest.raises(TraceError, match="leads elsewhere"):
            restore(store, tree, tmp_path / f"into-{name.decode()}")
    outer = _git(store, b"160000 sub\0" + bytes.fromhex(blob),
                 "hash-object", "-w", "-t", "tree", "--literally", "--stdin")  # fmt: skip
    with pytest.raises(TraceError, match="of the kind 160000"):
        restore(store, outer, tmp_path / "into-sub")


def _git(store: Path, said: bytes, *words: str) -> str:
    return subprocess.run(
        [GIT, f"--git-dir={store}", *words], input=said, capture_output=True, check=True,
        env=environ("/"),
    ).stdout.decode().strip()  # fmt: skip


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    """A name that is none, a tree that is missing and an incomplete store are errors."""
    store, tree = stored(tmp_path, {b"f": ("100644", b"1")})
    with pytest.raises(InputError, match="40 hex digits"):
        restore(store, "HEAD", tmp_path / "a")
    with pytest.raises(TraceError, match="does not hold"):
        restore(store, "0" * 40, tmp_path / "b")
    with pytest.raises(TraceError, match="does not hold"):
        restore(tmp_path / "nowhere", tree, tmp_path / "c")
    assert restore(store, EMPTY, tmp_path / "d") == Restored(0, 0, ())


def test_links_are_judged_by_their_text() -> None:
    """A link is within its tree if no part of its text leads above it."""
    assert within(b"a/b/l", b"../../c")
    assert within(b"l", b"./a/../b")
    assert not within(b"l", b"a/../../b")
    assert not within(b"l", b"")


def test_empty_folders_are_made(tmp_path: Path) -> None:
    """As a snapshot names them; none that leads elsewhere, and through no link."""
    into, elsewhere = tmp_path / "into", tmp_path / "elsewhere"
    into.mkdir()
    elsewhere.mkdir()
    (into / "link").symlink_to(elsewhere)
    restore_folders([".gemini", "a/b"], into)
    assert (into / ".gemini").is_dir()
    assert (into / "a/b").is_dir()
    for name in ("../x", "/x", "", 7, ".git", "link/x"):
        with pytest.raises(TraceError):
            restore_folders([name], into)
    assert list(elsewhere.iterdir()) == []
