"""Opening a file of a run without following anything that is not one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.errors import TraceError
from broker.trace.safefiles import open_inside, read_inside


def test_a_file_is_read(tmp_path: Path) -> None:
    """A file in folders below is read up to its limit, and not beyond."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"four")
    assert read_inside(tmp_path, "a", "b", "c", limit=4) == b"four"
    with pytest.raises(TraceError, match="more than 3") as caught:
        read_inside(tmp_path, "a", "b", "c", limit=3)
    assert caught.value.code == "trace.limit"


def test_what_is_not_there(tmp_path: Path) -> None:
    """A missing file, folder or way is told as missing or unsafe, and no descriptor is lost."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    (tmp_path / "file").write_text("")
    for steps, code in (
        (("none",), "trace.missing"),
        (("none", "x"), "trace.missing"),
        (("file", "x"), "trace.unsafe"),
    ):
        with pytest.raises(TraceError) as caught:
            open_inside(tmp_path, *steps)
        assert caught.value.code == code
    with pytest.raises(TraceError):
        open_inside(tmp_path / "nowhere", "x")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert before == after


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    """Links, pipes, folders and devices are not opened, and a pipe holds nobody up."""
    (tmp_path / "target").write_text("x")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to("folder")
    (tmp_path / "folder" / "x").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for steps in (("link",), ("folder",), ("pipe",), ("way", "x")):
        with pytest.raises(TraceError) as caught:
            open_inside(tmp_path, *steps)
        assert caught.value.code == "trace.unsafe"
