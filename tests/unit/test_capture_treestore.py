"""The git store of a run: what goes in comes out, and nothing of the person's git has a say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.capture import treestore
from broker.capture.treestore import (
    EMPTY,
    Change,
    TreeEntry,
    TreeStore,
    environ,
    git_program,
    object_name,
    with_diffs,
)
from broker.errors import TraceError

GIT = git_program() or ""
AT = 1_800_000_000


def listed(store: Path, tree: str) -> dict[bytes, bytes]:
    """Return what a tree holds, as git itself says."""
    out = subprocess.run(
        [GIT, f"--git-dir={store}", "ls-tree", "-r", "-z", tree],
        capture_output=True, check=True, env=environ("/"),
    ).stdout  # fmt: skip
    found = {}
    for row in filter(None, out.split(b"\0")):
        head, _, path = row.partition(b"\t")
        found[path] = subprocess.run(
            [GIT, f"--git-dir={store}", "cat-file", "blob", head.split()[2].decode()],
            capture_output=True, check=True, env=environ("/"),
        ).stdout  # fmt: skip
    return found


def test_trees_follow_one_another(tmp_path: Path) -> None:
    """Each tree is the one before, with what is new, other or gone; the empty one has its name."""
    store = TreeStore(tmp_path / "fs", GIT)
    try:
        one = TreeEntry(b"a/one", "100644", store.blob(b"1\n"))
        first = store.tree([one, TreeEntry(b"two", "100755", store.blob(b"2\n"))], AT, "first")
        assert listed(store.folder, first) == {b"a/one": b"1\n", b"two": b"2\n"}
        second = store.tree(
            [TreeEntry(b"two"), TreeEntry(b"a/l", "120000", store.blob(b"one"))], AT, "2"
        )
        assert listed(store.folder, second) == {b"a/one": b"1\n", b"a/l": b"one"}
        assert store.tree([TreeEntry(b"a/one"), TreeEntry(b"a/l")], AT, "third") == EMPTY
        assert store.changes(first, second) == [
            Change(b"a/l", "added", 1, 0, _diff(store, first, second, "a/l")),
            Change(b"two", "deleted", 0, 1, _diff(store, first, second, "two")),
        ]
    finally:
        store.close()
    said = subprocess.run(
        [GIT, f"--git-dir={tmp_path}/fs", "log", "--format=%s %at"],
        capture_output=True, check=True, env=environ("/"), text=True,
    ).stdout  # fmt: skip
    assert said.splitlines() == [f"third {AT}", f"2 {AT}", f"first {AT}"]


def _diff(store: TreeStore, before: str, after: str, path: str) -> bytes:
    words = ["diff-tree", "-p", "--full-index", before, after, "--", path]
    return subprocess.run(
        [GIT, f"--git-dir={store.folder}", *words],
        capture_output=True, check=True, env=environ("/"),
    ).stdout  # fmt: skip


NAME = st.binary(min_size=1, max_size=6).filter(lambda n: b"\0" not in n and b"/" not in n)
PATH = st.lists(
    NAME.filter(lambda n: n not in (b".", b"..") and n.lower() not in (b".git", b"git~1")),
    min_size=1, max_size=3,
).map(b"/".join)  # fmt: skip


@settings(max_examples=8)
@given(files=st.dictionaries(PATH, st.binary(max_size=40), min_size=1, max_size=5))
def test_every_name_and_content_comes_out_as_it_went_in(
    files: dict[bytes, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Names of any bytes and contents of any bytes are kept as they are."""
    taken: dict[bytes, bytes] = {}
    for path, content in files.items():
        if not any(path.startswith(t + b"/") or t.startswith(path + b"/") for t in taken):
            taken[path] = content
    store = TreeStore(tmp_path_factory.mktemp("s") / "fs", GIT)
    try:
        entries = [
            TreeEntry(path, "100644", store.blob(content)) for path, content in taken.items()
        ]
        tree = store.tree(entries, AT, "all")
    finally:
        store.close()
    assert listed(store.folder, tree) == taken


def test_an_object_has_gits_own_name(tmp_path: Path) -> None:
    """The name that we give a content is the one under which git finds it."""
    store = TreeStore(tmp_path / "fs", GIT)
    try:
        oid = store.blob(b"content\n")
        store.tree([TreeEntry(b"f", "100644", oid)], AT, "one")
    finally:
        store.close()
    assert oid == object_name(b"content\n")
    assert b"content\n" in listed(store.folder, "world").values()


def test_what_is_told_can_be_read_at_once(tmp_path: Path) -> None:
    """A tree that was answered is on the disk, also when its git is killed before it closes."""
    store = TreeStore(tmp_path / "fs", GIT)
    tree = store.tree([TreeEntry(b"f", "100644", store.blob(b"1"))], AT, "one")
    store._process.kill()
    store.close()
    assert listed(store.folder, tree) == {b"f": b"1"}
    with pytest.raises(TraceError, match="no more snapshots"):
        store.tree([TreeEntry(b"f")], AT, "two")


def test_no_setting_of_a_person_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, filters and templates that a person has set up for git run nowhere here."""
    home = tmp_path / "home"
    (home / "template" / "hooks").mkdir(parents=True)
    proof = tmp_path / "it-ran"
    for hook in ("post-commit", "reference-transaction", "post-index-change"):
        place = home / "template" / "hooks" / hook
        place.write_text(f"#!/bin/sh\ntouch {proof}\n", encoding="utf-8")
        place.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[init]\n templateDir = {home}/template\n[core]\n hooksPath = {home}/template/hooks\n"
        f" fsmonitor = touch {proof}\n autocrlf = true\n"
        f"[diff]\n external = touch {proof}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {proof}")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    store = TreeStore(tmp_path / "fs", GIT)
    try:
        one = store.tree([TreeEntry(b"f", "100644", store.blob(b"1\r\n"))], AT, "one")
        two = store.tree([TreeEntry(b"f", "100644", store.blob(b"2\r\n"))], AT, "two")
        (change,) = store.changes(one, two)
    finally:
        store.close()
    assert b"+2\r\n" in change.diff
    assert not proof.exists()
    assert not (tmp_path / "elsewhere").exists()


def test_long_differences_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of one file, and of a turn, has a limit; the counts are told all the same."""
    monkeypatch.setattr(treestore, "MAX_DIFFS_BYTES", 20_000)
    monkeypatch.setattr(treestore, "MAX_DIFF_BYTES", 5_000)
    store = TreeStore(tmp_path / "fs", GIT)
    try:
        one = store.tree([TreeEntry(b"0", "100644", store.blob(b"0"))], AT, "one")
        sizes = {b"a": 100, b"b": 3_000, b"c": 100, b"d": 20_000, b"e": 100}
        entries = [
            TreeEntry(name, "100644", store.blob((name + b"\n") * count))
            for name, count in sizes.items()
        ]
        two = store.tree([*entries, TreeEntry(b"z", "100644", store.blob(b"\0\xff"))], AT, "two")
        found = {change.path: change for change in store.changes(one, two)}
    finally:
        store.close()
    assert {name: change.insertions for name, change in found.items()} == {**sizes, b"z": None}
    assert [name for name, change in found.items() if change.diff] == [b"a", b"c"]


def test_a_store_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    """Where git is missing, or there is no room for a store, the reason is told."""
    with pytest.raises(TraceError, match="git cannot keep snapshots"):
        TreeStore(tmp_path / "fs", "/nowhere/git")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TraceError):
        TreeStore(tmp_path / "file", GIT)


def test_the_store_is_private(tmp_path: Path) -> None:
    """The folder of the store is for this user only."""
    TreeStore(tmp_path / "fs", GIT).close()
    assert (tmp_path / "fs").stat().st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path / "fs" / "refs" / "heads") == []


def test_a_patch_that_does_not_fit_is_not_guessed() -> None:
    """Where parts and changes do not come out even, no change gets another's difference."""
    changes = [Change(b"a", "added", 1, 0), Change(b"b", "added", 1, 0)]
    assert with_diffs(changes, b"diff --git a/a b/a\n+x\n") == changes
