"""Which files are safe to believe, and the durable calls."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError, UnverifiableError
from broker.receipt import disk
from broker.receipt.disk import DISK, OTHERS_WRITE
from tests.receiptkit import Faults, short


def code(path: Path, flags: int = os.O_RDONLY) -> str:
    """Return how opening a file is refused, without the common beginning."""
    try:
        os.close(disk.open_checked(path, "receipt", flags=flags, forbidden=OTHERS_WRITE))
    except UnverifiableError as error:
        assert str(path) in error.message
        return error.code.removeprefix("unverifiable.")
    return "fine"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sound file."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o644, 0o604])
def test_modes_that_let_nobody_write(file: Path, mode: int) -> None:
    """Reading by others is not the writer's concern; the receipt is no secret file by itself."""
    file.chmod(mode)
    assert code(file) == "fine"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_modes_that_let_others_write(file: Path, mode: int) -> None:
    """A file that group or others can write is refused."""
    file.chmod(mode)
    assert code(file) == "mode"


def test_links_pipes_folders_and_absence(file: Path, tmp_path: Path) -> None:
    """Whatever is not one regular file under one name is refused, each with its own code."""
    (tmp_path / "link").symlink_to(file)
    assert code(tmp_path / "link") == "symlink"
    (tmp_path / "dangling").symlink_to("nowhere")
    assert code(tmp_path / "dangling") == "symlink"
    os.mkfifo(tmp_path / "pipe")
    assert code(tmp_path / "pipe") == "not_regular"
    assert code(tmp_path / "pipe", os.O_WRONLY) == "not_regular"
    assert code(tmp_path) == "not_regular"
    assert code(tmp_path, os.O_RDWR) == "not_regular"
    assert code(tmp_path / "absent") == "missing"
    assert code(file / "below") == "missing"
    assert code(Path("/dev/null")) == "not_regular"
    os.link(file, tmp_path / "second")
    assert code(file) == "hardlink"


def test_another_owner(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another user is refused, unless that user is root."""
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    assert code(file) == ("fine" if file.stat().st_uid == 0 else "owner")
    if os.getuid() == 0:
        os.chown(file, 12_345, -1)
        assert code(file) == "owner"


def test_unreadable_names_are_told(tmp_path: Path) -> None:
    """An error of the system other than the known ones is passed on in words."""
    assert code(tmp_path / ("x" * 300)) == "unreadable"


def test_folders(tmp_path: Path) -> None:
    """A folder that others can write, a file in its place, and absence are all refused."""
    folder = tmp_path / "keys"
    disk.make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    disk.check_folder(folder, "key folder")
    for mode in (0o770, 0o707, 0o1777):
        folder.chmod(mode)
        with pytest.raises(UnverifiableError, match="chmod 700"):
            disk.check_folder(folder, "key folder")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnverifiableError, match="not a folder"):
        disk.check_folder(tmp_path / "file", "key folder")
    with pytest.raises(UnverifiableError, match="no key folder"):
        disk.check_folder(tmp_path / "absent", "key folder")


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of another user is refused, unless that user is root."""
    if os.getuid() != 0:
        monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    else:
        os.chown(tmp_path, 12_345, -1)
    with pytest.raises(UnverifiableError, match="belongs to user"):
        disk.check_folder(tmp_path, "key folder")


def test_replace_is_whole_private_and_durable(tmp_path: Path) -> None:
    """A replaced file has its full content, mode 0600, and was synced before it was named."""
    faults = Faults()
    path = tmp_path / "file"
    for content in (b"one", b"two" * 1_000):
        faults.disk().replace(path, content)
        assert path.read_bytes() == content
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert faults.calls == ["write", "sync", "sync"] * 2
    assert os.listdir(tmp_path) == ["file"]


def test_replace_survives_short_writes_and_leftovers(tmp_path: Path) -> None:
    """A short write is completed, and what a crash left under the temporary name is no bar."""
    (tmp_path / ".file.new").write_bytes(b"left over")
    Faults(0, short).disk().replace(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_sync_reaches_the_system(file: Path) -> None:
    """Syncing an open file works, and syncing a closed one is an error, not silence."""
    fd = os.open(file, os.O_RDWR)
    DISK.sync(fd)
    os.close(fd)
    with pytest.raises(OSError, match="Bad file"):
        DISK.sync(fd)


def test_other_systems_are_told_at_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files cannot be locked, the error says what to do; importing was no error."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(StoreError, match="WSL") as caught:
        disk.require_posix()
    assert caught.value.code == "store.platform"


def test_a_folder_of_records_is_no_link(tmp_path: Path) -> None:
    """A link in a folder's place is refused; a folder, and one that is missing, are not."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    disk.check_unlinked(tmp_path / "real", tmp_path / "none")
    with pytest.raises(UnverifiableError) as caught:
        disk.check_unlinked(tmp_path / "real", tmp_path / "link")
    assert caught.value.code == "unverifiable.symlink"


def test_a_file_that_is_replaced_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that took the name is the one that is opened, not the one that lost it."""
    path = tmp_path / "file"
    disk.DISK.replace(path, b"old")
    opened = os.open
    left = [3]

    def late(*given: Any, **more: Any) -> int:
        fd = opened(*given, **more)
        if given[0] == path and left[0]:
            left[0] -= 1
            with monkeypatch.context() as patch:
                patch.setattr(os, "open", opened)
                disk.DISK.replace(path, b"new%d" % left[0])
        return fd

    monkeypatch.setattr(os, "open", late)
    fd = disk.open_checked(path, "file", forbidden=disk.OTHERS_WRITE)
    assert os.read(fd, 9) == b"new0"
    os.close(fd)
    left[0] = 99
    with pytest.raises(UnverifiableError, match="was removed"):
        disk.open_checked(path, "file", forbidden=disk.OTHERS_WRITE)
