"""Files: what is opened is the place that was located, and nothing outside the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.fs import SystemFiles
from broker.harness.files import Files, ToolError
from broker.limits import MAX_FILE_BYTES


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A workspace with one file in it, beside a file that is none of its business."""
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a = 1\n")
    (tmp_path / "outside.txt").write_text("outside\n")
    return Files(SystemFiles(), os.path.realpath(root))


def test_a_written_file_reads_back(files: Files) -> None:
    """What is written is read, and missing folders above it are made."""
    files.write("new/deep/b.txt", b"one, and longer")
    files.write("new/deep/b.txt", b"two")
    assert files.read("new/deep/b.txt") == b"two"


@pytest.mark.parametrize("spelled", ["src/a.py", "./src//a.py", "src/../src/a.py"])
def test_spellings_lead_to_one_place(files: Files, spelled: str) -> None:
    """Every spelling of a file is located at the same place."""
    assert files.locate(spelled) == "src/a.py"


def test_the_root_is_a_dot(files: Files) -> None:
    """The workspace itself is located as a dot, also by its absolute path."""
    assert files.locate(".") == files.locate(files.root) == files.locate("src/..") == "."


@pytest.mark.parametrize("spelled", ["", "~/x", "a\0b", "..", "../outside.txt", "/etc/passwd"])
def test_outside_and_odd_paths_are_not_located(files: Files, spelled: str) -> None:
    """A path that is odd or leads out of the workspace is an error."""
    with pytest.raises(ToolError):
        files.locate(spelled)


def test_a_sibling_with_the_same_beginning_is_outside(files: Files) -> None:
    """A folder whose name begins with the workspace's name is not in the workspace."""
    with pytest.raises(ToolError, match="outside"):
        files.locate(f"{files.root}-other/a")


def test_a_link_is_located_where_it_leads(files: Files) -> None:
    """A link inside is followed to its place; one that leads out is an error."""
    os.symlink("src/a.py", f"{files.root}/inside")
    os.symlink("../outside.txt", f"{files.root}/out")
    assert files.locate("inside") == "src/a.py"
    with pytest.raises(ToolError, match="outside"):
        files.locate("out")


@pytest.mark.parametrize("swapped", ["src", "src/a.py"])
def test_a_link_swapped_in_is_not_followed(files: Files, tmp_path: Path, swapped: str) -> None:
    """A file or folder replaced by a link after it was located is not opened any more."""
    place = files.locate("src/a.py")
    os.rename(f"{files.root}/{swapped}", tmp_path / "moved")
    os.symlink(tmp_path / "moved", f"{files.root}/{swapped}")
    with pytest.raises(ToolError):
        files.read(place)
    with pytest.raises(ToolError):
        files.write(place, b"changed")
    moved = tmp_path / "moved"
    assert (moved if moved.is_file() else moved / "a.py").read_text() == "a = 1\n"


def test_what_is_no_file_is_not_read(files: Files) -> None:
    """A folder and a pipe are not files, and a pipe does not keep the reader waiting."""
    os.mkfifo(f"{files.root}/pipe")
    for place in ("src", "pipe", "src/a.py/x", "missing"):
        with pytest.raises(ToolError):
            files.read(place)


def test_a_file_over_the_limit_is_not_read(files: Files) -> None:
    """A file at the limit is read, one byte more is an error."""
    Path(files.root, "big").touch()
    os.truncate(f"{files.root}/big", MAX_FILE_BYTES)
    assert len(files.read("big")) == MAX_FILE_BYTES
    os.truncate(f"{files.root}/big", MAX_FILE_BYTES + 1)
    with pytest.raises(ToolError, match="larger"):
        files.read("big")


def test_walking_leaves_out_links_credentials_and_git(files: Files) -> None:
    """A walk yields the regular files in order, follows no link and reads no secret."""
    files.write(".git/config", b"")
    files.write("b/c.txt", b"")
    files.write("src/.env", b"KEY=1")
    os.symlink("/etc", f"{files.root}/etc")
    os.symlink("src/a.py", f"{files.root}/link")
    assert list(files.walk(".")) == ["b/c.txt", "src/a.py"]
    assert list(files.walk("src/a.py")) == ["src/a.py"]
    with pytest.raises(ToolError, match="no `missing`"):
        list(files.walk("missing"))


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "in", "up"]), max_size=6).map("/".join))
def test_locating_agrees_with_the_kernel(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    """What is located is inside, without links, and what the kernel opens under that spelling."""
    root = tmp_path_factory.getbasetemp() / "kernel" / "ws"
    if not root.exists():
        (root / "a/b").mkdir(parents=True)
        os.symlink("a/b", root / "in")
        os.symlink("../..", root / "a/up")
    files = Files(SystemFiles(), os.path.realpath(root))
    try:
        place = files.locate(path)
    except ToolError:
        return
    full = os.path.join(files.root, place)
    assert os.path.realpath(full) == os.path.normpath(full)
    if os.path.exists(os.path.join(files.root, path)):
        assert os.path.samefile(full, os.path.join(files.root, path))
