"""A store, as fsspec reaches it: objects are put once, whole, and every fault is one kind."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest

from broker.errors import InputError, StoreError, UnverifiableError
from broker.fleet.target import CHUNK_BYTES, Target, check_address


@pytest.fixture(params=["file", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A store of each kind that needs no server."""
    place = f"{tmp_path}/store" if request.param == "file" else uuid4().hex
    return Target(f"{request.param}://{place}")


def test_an_object_is_put_once(target: Target) -> None:
    """The same content again is no fault; another content under its name is never written."""
    target.put(b"one", "a", "b", "x")
    target.put(b"one", "a", "b", "x")
    with pytest.raises(StoreError, match="nothing is written over it"):
        target.put(b"two", "a", "b", "x")
    assert target.read(9, "a", "b", "x") == b"one"
    assert target.folder("a", "b") == {"x": 3}
    assert target.folder("a") == {"b": None}
    assert target.folder() == {"a": None}


def test_what_is_not_there(target: Target) -> None:
    """An empty folder is no fault; an object that is gone is."""
    assert target.folder("nowhere") == {}
    with pytest.raises(StoreError):
        target.read(9, "nowhere")


def test_a_listing_is_never_an_old_one(target: Target) -> None:
    """What another client has put since is seen."""
    assert target.folder("a") == {}
    Target(target.url).put(b"x", "a", "y")
    assert target.folder("a") == {"y": 1}


def test_no_more_is_read_than_is_wanted(target: Target) -> None:
    """A large object is read in parts, and one that is too large not at all."""
    content = os.urandom(2 * CHUNK_BYTES + 5)
    target.put(content, "big")
    assert b"".join(target.chunks(len(content), "big")) == content
    assert b"".join(target.chunks(7, "big")) == content[:7]
    with pytest.raises(UnverifiableError, match="more than"):
        target.read(100, "big")


def test_a_put_that_is_cut_off_leaves_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder an object is there whole or not at all."""
    target = Target(f"file://{tmp_path}/store")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        target.put(b"x", "a", "y")
    assert target.folder("a") == {}


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There too an object is put once."""

    def none(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", none)
    target = Target(f"file://{tmp_path}/store")
    target.put(b"x", "y")
    with pytest.raises(StoreError, match="written over"):
        target.put(b"z", "y")
    assert target.folder() == {"y": 1}


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nope://x/y", "no address of a store"),
        ("/srv/receipts", "no address of a store"),
        ("", "no address of a store"),
        ("simplecache::s3://x", "no address of a store"),
        ("s3://key:secret@bucket/x", "no user, no password"),
        ("s3://bucket/x?versionId=1", "no `"),
        ("file://", "names no folder"),
        ("s3:///", "names no folder"),
        ("gdrive://x/y", r"capability-broker\[fleet\]"),
        ("memory://[x", "no address"),
    ],
)
def test_what_is_no_address(url: str, word: str) -> None:
    """An unknown store, a password, and what is not installed are told before anything begins."""
    with pytest.raises(InputError, match=word):
        check_address(url)


def test_a_folder_in_the_workspace_is_no_mirror(tmp_path: Path) -> None:
    """An agent could change it; through a link too."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ws")
    assert check_address(f"file://{tmp_path}/other/", tmp_path / "ws").endswith("/other")
    for name in ("ws", "ws/deep", "link/deep"):
        with pytest.raises(InputError, match="workspace"):
            check_address(f"file://{tmp_path}/{name}", tmp_path / "ws")
    assert not Target("memory://x").shared
    assert Target(f"file://{tmp_path}").shared
