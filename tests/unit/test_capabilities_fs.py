"""Files: the real ones and those in memory keep the same promises."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.capabilities.fs import FileStatus, FileSystem, Folder, SystemFiles, parts_of
from broker.capabilities.memory import MemoryFiles
from broker.receipt.disk import Disk


@dataclass
class Stage:
    """A file system, a folder in it, and a way to put a link there."""

    fs: FileSystem
    folder: Folder
    link: Callable[[str, str], object]

    def fails(self, work: Callable[[], object], *numbers: int) -> None:
        """Expect an ``OSError`` with one of these numbers."""
        with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is what counts
            work()
        assert caught.value.errno in numbers


@pytest.fixture(params=["real", "fake"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """A folder of the machine, or one in memory."""
    if request.param == "real":
        root = os.path.realpath(tmp_path)
        return Stage(
            SystemFiles(),
            SystemFiles().below(root),
            lambda place, target: os.symlink(target, f"{root}/{place}"),
        )
    files = MemoryFiles({"/ws/seed": b""})
    files.below("/ws").remove("seed")
    return Stage(
        files, files.below("/ws"), lambda place, target: files.link(f"/ws/{place}", target)
    )


def test_what_is_written_is_read(stage: Stage) -> None:
    """A file is written with the folders above it, and written again it is the new content."""
    stage.folder.write("a/b/c.txt", b"one, and longer")
    stage.folder.write("a/b/c.txt", b"two")
    assert stage.folder.read("a/b/c.txt", limit_bytes=3) == b"two"
    stage.fails(lambda: stage.folder.read("a/b/c.txt", limit_bytes=2), errno.EFBIG)
    assert (stage.folder.names(), stage.folder.names("a/b")) == (("a",), ("c.txt",))
    assert [(name, found.kind) for name, found in stage.folder.entries("a")] == [("b", "folder")]
    assert stage.folder.entries("a/b")[0][1] == stage.folder.status("a/b/c.txt")


def test_a_new_file_is_private_and_really_new(stage: Stage) -> None:
    """A created file has its mode; where something is, nothing is created, not even by a link."""
    stage.folder.create("a", b"one")
    assert stage.folder.status("a") == FileStatus("file", 3, 0o600)
    stage.link("l", "nowhere")
    for place in ("a", "l"):
        stage.fails(lambda place=place: stage.folder.create(place, b"two"), errno.EEXIST)
    assert stage.folder.names() == ("a", "l")
    assert stage.folder.read("a", limit_bytes=9) == b"one"


def test_a_file_is_replaced_in_one_step(stage: Stage) -> None:
    """What is replaced is the name: a link goes, and what it led to stays."""
    stage.folder.create("a", b"one")
    stage.link("l", "a")
    stage.folder.replace("l", b"two", mode=0o640)
    assert stage.folder.status("l") == FileStatus("file", 3, 0o640)
    assert stage.folder.read("a", limit_bytes=9) == b"one"
    stage.folder.make("f")
    stage.fails(lambda: stage.folder.replace("f", b""), errno.EISDIR, errno.ENOTEMPTY)


def test_lines_are_appended(stage: Stage) -> None:
    """What is appended stands behind what was there, and a new file is private."""
    stage.folder.append("log", b"one\n")
    stage.folder.append("log", b"two\n")
    assert stage.folder.read("log", limit_bytes=99) == b"one\ntwo\n"
    assert stage.folder.status("log") == FileStatus("file", 8, 0o600)


def test_folders_are_made_private(stage: Stage) -> None:
    """A folder is made with those above it, for the owner alone, and twice is no error."""
    deep = stage.fs.below(f"{stage.folder.path}/x/y")
    for _ in range(2):
        deep.make("z/w")
    for place in ("x", "x/y", "x/y/z", "x/y/z/w"):
        status = stage.folder.status(place)
        assert status is not None
        assert (status.kind, status.mode) == ("folder", 0o700)
    assert deep.status(".") == stage.folder.status("x/y")
    stage.folder.create("file", b"")
    stage.fails(lambda: stage.folder.make("file/below"), errno.ENOTDIR)


def test_what_is_removed_is_gone(stage: Stage) -> None:
    """A file goes, a link goes itself, a folder stays."""
    stage.folder.create("a", b"")
    stage.link("l", "a")
    stage.folder.remove("l")
    assert stage.folder.names() == ("a",)
    stage.folder.remove("a")
    assert stage.folder.status("a") is None
    stage.fails(lambda: stage.folder.remove("a"), errno.ENOENT)
    stage.folder.make("f")
    stage.fails(lambda: stage.folder.remove("f"), errno.EISDIR, errno.EPERM)


@pytest.mark.parametrize("operation", ["read", "write", "append", "names", "create", "make"])
def test_no_link_is_followed(stage: Stage, operation: str) -> None:
    """A link as the last name or on the way makes every operation fail, and nothing is changed."""
    stage.folder.make("real")
    stage.folder.create("real/a", b"one")
    stage.link("way", "real")
    stage.link("real/last", "a")

    def act(place: str) -> object:
        if operation == "read":
            return stage.folder.read(place, limit_bytes=9)
        if operation == "names":
            return stage.folder.names(place)
        return getattr(stage.folder, operation)(place, *([b"x"] if operation != "make" else []))

    for place in ("way/a", "real/last", "way"):
        if (operation, place) in {("create", "way"), ("create", "real/last")}:
            continue  # something is there: said in another test
        numbers = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
        stage.fails(lambda place=place: act(place), *numbers)
    assert stage.folder.read("real/a", limit_bytes=9) == b"one"
    assert stage.folder.names("real") == ("a", "last")


@pytest.mark.parametrize("place", ["", "/a", "..", "a/../b", "a//b", "./a", "a/", "a\0b"])
def test_what_is_no_place_is_refused(stage: Stage, place: str) -> None:
    """A place never leaves its folder, whatever it is spelled like."""
    for act in (
        lambda: stage.folder.status(place),
        lambda: stage.folder.names(place),
        lambda: stage.folder.entries(place),
        lambda: stage.folder.read(place, limit_bytes=1),
        lambda: stage.folder.write(place, b""),
        lambda: stage.folder.create(place, b""),
        lambda: stage.folder.replace(place, b""),
        lambda: stage.folder.append(place, b""),
        lambda: stage.folder.make(place),
        lambda: stage.folder.remove(place),
        lambda: parts_of(place),
    ):
        stage.fails(act, errno.EINVAL)
    stage.fails(lambda: stage.fs.below("ws"), errno.EINVAL)


def test_the_folder_itself_is_no_file(stage: Stage) -> None:
    """The dot names the folder, which is neither read nor written as a file."""
    for act in (
        lambda: stage.folder.read(".", limit_bytes=1),
        lambda: stage.folder.write(".", b""),
        lambda: stage.folder.create(".", b""),
        lambda: stage.folder.append(".", b""),
        lambda: stage.folder.remove("."),
    ):
        stage.fails(act, errno.EINVAL)


def test_where_a_path_leads(stage: Stage) -> None:
    """Links are followed to where they lead, and what is missing stays as it is spelled."""
    root = stage.folder.path
    stage.folder.make("a/b")
    stage.link("to", "a/b")
    stage.link("a/up", "../..")
    assert stage.fs.real(f"{root}/to/../x") == f"{root}/a/x"
    assert stage.fs.real(f"{root}/a/up") == os.path.dirname(root)
    assert stage.fs.real(f"{root}/missing/./y") == f"{root}/missing/y"
    for path in ("to/x", "./a//b", "to/../x", "missing/y", "a/up", ".", f"{root}/to"):
        assert stage.fs.real(path, root) == stage.fs.real(os.path.join(root, path))


def test_a_pipe_is_neither_read_nor_waited_for(tmp_path: Path) -> None:
    """What is no regular file is an error at once."""
    os.mkfifo(tmp_path / "pipe")
    folder = SystemFiles().below(os.path.realpath(tmp_path))
    status = folder.status("pipe")
    assert status is not None
    assert status.kind == "other"
    with pytest.raises(OSError, match="not a regular file"):
        folder.read("pipe", limit_bytes=1)
    with pytest.raises(OSError):  # noqa: PT011 - ENXIO: nobody reads it
        folder.append("pipe", b"x")


@pytest.mark.parametrize("what", ["write", "sync"])
@pytest.mark.parametrize("operation", ["create", "replace", "append"])
def test_a_failing_disk_leaves_nothing_behind(tmp_path: Path, operation: str, what: str) -> None:
    """When a write or its sync fails, the folder is as it was: no new name, no torn line."""
    (tmp_path / "old").write_bytes(b"one")

    def full(fd: int, content: bytes) -> int:
        os.write(fd, content[:1])
        raise OSError(errno.ENOSPC, "full")

    def broken(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, "broken")

    disk = Disk(write=full) if what == "write" else Disk(sync=broken)
    folder = SystemFiles(disk).below(os.path.realpath(tmp_path))
    place = "new" if operation == "create" else "old"
    with pytest.raises(OSError, match=r"full|broken"):
        getattr(folder, operation)(place, b"two and more")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"one"


def test_the_mode_is_there_from_the_first_byte(tmp_path: Path) -> None:
    """A private file is never open to others, not even while it is written."""
    seen: list[int] = []

    def look(fd: int, content: bytes) -> int:
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return os.write(fd, content)

    folder = SystemFiles(Disk(write=look)).below(os.path.realpath(tmp_path))
    folder.create("a", b"one")
    folder.replace("b", b"one")
    folder.append("c", b"one")
    assert seen == [0o600] * 3
