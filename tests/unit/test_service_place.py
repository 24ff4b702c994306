"""Where a run's socket lies."""

from __future__ import annotations

import stat
from pathlib import Path

from broker.home import Home
from broker.limits import MAX_SOCKET_PATH_BYTES
from broker.service.place import Runtime

SID = "k" * 26


def home(root: Path, runtime: Path) -> Home:
    """Return a home with a runtime folder of its own."""
    found = Home.find({"BROKER_HOME": str(root)})
    return Home(found.state, found.data, found.config, runtime)


def test_the_users_own_folder_is_taken_where_it_is_fit(tmp_path: Path) -> None:
    """A private folder with room in its name holds the socket, and stays when the run is over."""
    folder = Path("/tmp") / f"b{tmp_path.name[-8:]}"  # a short name, since addresses are short
    place = Runtime(home(tmp_path, folder))
    try:
        with place:
            socket = place.socket(SID)
            assert socket == folder / SID
            socket.write_text("")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(folder.iterdir()) == []
        assert place.own == ()
    finally:
        folder.rmdir()


def test_one_is_made_where_it_is_not(tmp_path: Path) -> None:
    """A name that is too long, or a folder that others get into, is not used."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    for runtime in (tmp_path / ("long" * 20), shared):
        place = Runtime(home(tmp_path, runtime))
        with place:
            socket = place.socket(SID)
            socket.write_text("")
            assert runtime not in socket.parents
            assert len(str(socket)) <= MAX_SOCKET_PATH_BYTES
            assert str(socket.parent) in place.own
            assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        assert not socket.parent.exists()
