"""Files of an export appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from broker.errors import Break, InputError
from broker.export.outlet import new_folder, whole_file


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    """Nothing of that name is there before all of it is; only the owner may read it."""
    path = tmp_path / "x.csv"
    with whole_file(path) as stream:
        stream.write(b"one")
        assert not path.exists()
        stream.write(b"two")
    assert path.read_bytes() == b"onetwo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["x.csv"]


@pytest.mark.parametrize("error", [Break("mac", "no"), KeyboardInterrupt(), ValueError()])
def test_a_file_that_is_not_finished_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    """A break, an interruption or a fault leaves what was there before, and nothing else."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"before")

    def half() -> None:
        with whole_file(path) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(type(error)):
        half()
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x.csv"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What a link points to is not written to."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"mine")
    link.symlink_to(target)
    with whole_file(link) as stream:
        stream.write(b"new")
    assert (target.read_bytes(), link.read_bytes()) == (b"mine", b"new")
    assert not link.is_symlink()


@pytest.mark.parametrize("name", ["no/such/x", "\0", "folder"])
def test_what_cannot_be_written(tmp_path: Path, name: str) -> None:
    """A place that cannot be written is an error of the input, and leaves nothing."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError), whole_file(tmp_path / name) as stream:
        stream.write(b"x")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_folder_is_new(tmp_path: Path) -> None:
    """A folder is made for the owner alone, and one that is there is not filled."""
    new_folder(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    for taken in ("a", "no/such", "\0"):
        with pytest.raises(InputError):
            new_folder(tmp_path / taken)
