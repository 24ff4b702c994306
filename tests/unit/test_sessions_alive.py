"""Whether the broker of a session still runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.sessions.alive import LOCK_NAME, Alive, abandoned


def test_a_living_session_is_not_abandoned(tmp_path: Path) -> None:
    """While it is held nobody else gets it; given back without an end, it is found."""
    lock = Alive.begin(tmp_path / "one")
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700
    assert list(abandoned(tmp_path)) == []
    with pytest.raises(StoreError) as caught:
        Alive.hold(tmp_path / "one")
    assert caught.value.code == "store.alive"
    lock.drop()
    ((sid, found),) = abandoned(tmp_path)
    assert sid == "one"
    found.release()
    assert list(abandoned(tmp_path)) == []
    assert not (tmp_path / "one" / LOCK_NAME).exists()


def test_an_ended_session_is_not_abandoned(tmp_path: Path) -> None:
    """Once released the file is gone, and releasing again does nothing."""
    lock = Alive.begin(tmp_path / "one")
    lock.release()
    lock.release()
    lock.drop()
    assert list(abandoned(tmp_path)) == []


def test_a_killed_holder_gives_the_lock_back(tmp_path: Path) -> None:
    """The kernel gives the lock back however its holder ends."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        Alive.begin(tmp_path / "one")
        os.write(tell, b"x")
        signal.pause()  # until killed
        os._exit(0)
    assert os.read(ready, 1) == b"x"
    assert list(abandoned(tmp_path)) == []
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert [sid for sid, _ in abandoned(tmp_path)] == ["one"]


def test_a_session_begins_once(tmp_path: Path) -> None:
    """A folder that is there already is another's."""
    Alive.begin(tmp_path / "one")
    with pytest.raises(StoreError):
        Alive.begin(tmp_path / "one")


def test_a_missing_folder_has_no_sessions(tmp_path: Path) -> None:
    """Before the first session there is nothing to find, and a link is not followed."""
    assert list(abandoned(tmp_path / "none")) == []
    (tmp_path / "s" / "one").mkdir(parents=True)
    (tmp_path / "s" / "one" / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    assert list(abandoned(tmp_path / "s")) == []
    assert not (tmp_path / "elsewhere").exists()
