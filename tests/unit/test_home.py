"""The broker's own folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.home import Home


def test_one_variable_moves_everything() -> None:
    """`BROKER_HOME` holds all four folders."""
    home = Home.find({"BROKER_HOME": "/x"})
    folders = (home.state, home.data, home.config, home.runtime)
    assert [str(folder) for folder in folders] == ["/x/state", "/x/data", "/x/config", "/x/run"]
    assert (home.sessions, home.heads) == (Path("/x/state/sessions"), Path("/x/state/heads"))
    assert home.keys == Path("/x/data/keys")


@pytest.mark.parametrize("value", ["", "relative/home", "./x", "~/x"])
def test_a_home_that_depends_on_the_folder_is_refused(value: str) -> None:
    """A relative home would be another one in each folder, so it is an error that says so."""
    with pytest.raises(ConfigError, match="absolute path"):
        Home.find({"BROKER_HOME": value})


def test_without_the_variable_the_platform_decides() -> None:
    """The folders are the user's own: all absolute, all different, none created."""
    home = Home.find({})
    folders = {home.state, home.data, home.config, home.runtime}
    assert len(folders) == 4
    assert all(folder.is_absolute() for folder in folders)
    assert all("capability-broker" in str(folder) for folder in folders)


def test_sockets_never_lie_where_anyone_can_be_first() -> None:
    """The runtime folder is the session's own, or lies in the state folder; never in /tmp."""
    assert Home.find({"XDG_RUNTIME_DIR": "/run/user/7"}).runtime == Path(
        "/run/user/7/capability-broker"
    )
    for environ in ({}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "relative"}):
        home = Home.find(environ)
        assert home.runtime == home.state / "run"


def test_own_folders_are_listed_by_every_name(tmp_path: Path) -> None:
    """A folder reached through a link is refused to tools under both of its names."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    own = Home.find({"BROKER_HOME": str(tmp_path / "link")}).own()
    assert str(tmp_path / "link" / "state") in own
    assert str(real / "state") in own
    assert len(own) == len(set(own)) == 8


def test_looking_loads_no_library() -> None:
    """With the variable set, finding the home does not import the platform's customs."""
    code = (
        "import sys; from broker.home import Home; Home.find({'BROKER_HOME': '/x'});"
        "sys.exit('platformdirs' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
