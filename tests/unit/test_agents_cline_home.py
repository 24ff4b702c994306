"""The folder of a run of Cline: what lies in it, and what no workspace may bring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.agents.cline.home import (
    NET_NAMES,
    auto_approves,
    brought_along,
    furnish,
    own_files,
    put_net,
    server_settings,
    unwelcome,
)
from broker.errors import LaunchError


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """The person's own folder, with something of each kind."""
    folder = tmp_path / "user/.cline"
    for name in ("plugins", "hooks/lib", "rules", "data/settings"):
        (folder / name).mkdir(parents=True)
    (folder / "plugins/mine.js").write_text("x")
    (folder / "hooks/PreToolUse").write_text("#!/bin/sh\n")
    (folder / "hooks/PreToolUse").chmod(0o755)
    (folder / "hooks/lib/x").write_text("x")
    return folder


def test_a_folder_is_the_persons_own_without_its_plugins(real: Path, tmp_path: Path) -> None:
    """Hooks are copied as they are, all else is linked, and plugins and data are not there."""
    home = tmp_path / "home"
    furnish(home, real)
    assert sorted(os.listdir(home)) == ["hooks", "plugins", "rules"]
    assert os.listdir(home / "plugins") == []
    assert (home / "rules").readlink() == real / "rules"
    assert os.access(home / "hooks/PreToolUse", os.X_OK)
    assert (home / "hooks/lib/x").read_text() == "x"
    assert home.stat().st_mode & 0o077 == (home / "hooks").stat().st_mode & 0o077 == 0


def test_a_person_may_have_nothing(tmp_path: Path) -> None:
    """Then there are two empty folders."""
    furnish(tmp_path / "home", tmp_path / "none")
    assert sorted(os.listdir(tmp_path / "home")) == ["hooks", "plugins"]


def test_the_net_lies_beside_hooks_of_the_persons(real: Path, tmp_path: Path) -> None:
    """It takes a name that is free, and where none is free the run does not start."""
    home = tmp_path / "home"
    furnish(home, real)
    net = put_net(home, "ask")
    assert net.name == "PreToolUse.sh"
    assert net.read_text() == "#!/bin/sh\nask\n"
    assert os.access(net, os.X_OK)
    assert (home / "hooks/PreToolUse").read_text() == "#!/bin/sh\n"
    for name in NET_NAMES:
        (home / "hooks" / name).touch()
    with pytest.raises(LaunchError):
        put_net(home, "ask")


def test_what_no_tool_may_touch(real: Path) -> None:
    """Credentials, hooks and plugins, also where variables move them."""
    environ = {"HOME": str(real.parent), "CLINE_MCP_SETTINGS_PATH": "/x/mcp.json"}
    found = {str(path) for path in own_files(environ)}
    assert {str(real / "plugins"), str(real / "hooks"), str(real / "data")} <= found
    assert {"/x/mcp.json", str(real.parent / "Documents/Cline/Hooks")} <= found
    moved = {
        str(path) for path in own_files({**environ, "CLINE_DIR": "/c", "CLINE_DATA_DIR": "/d"})
    }
    assert {"/c/plugins", "/d"} <= moved


@pytest.mark.parametrize(
    ("text", "asks"),
    [("", False), ("{}", False), ('{"toolAutoApprove":true}', False)],
)
def test_who_is_asked_before_a_call(real: Path, text: str, asks: bool) -> None:
    """Nobody, unless the person's settings say so; settings that cannot be read refuse."""
    environ = {"HOME": str(real.parent)}
    settings = real / "data/settings/global-settings.json"
    if text:
        settings.write_text(text)
    assert auto_approves(environ) is not asks
    settings.write_text('{"toolAutoApprove":false}')
    assert auto_approves(environ) is False
    settings.write_text("[")
    with pytest.raises(LaunchError, match="global-settings"):
        auto_approves(environ)


def test_the_persons_servers(real: Path, tmp_path: Path) -> None:
    """They stand in a file of the person's, or where a variable says; broken ones refuse."""
    environ = {"HOME": str(real.parent)}
    assert server_settings(environ) == {}
    settings = real / "data/settings/cline_mcp_settings.json"
    settings.write_text('{"mcpServers":{"a":{}}}')
    assert server_settings(environ) == {"mcpServers": {"a": {}}}
    (tmp_path / "mcp.json").write_text("[")
    with pytest.raises(LaunchError, match=r"mcp\.json"):
        server_settings({**environ, "CLINE_MCP_SETTINGS_PATH": str(tmp_path / "mcp.json")})


@pytest.mark.parametrize("name", [".cline/plugins", ".cline/hooks", ".clinerules/hooks"])
def test_what_a_workspace_must_not_bring(real: Path, tmp_path: Path, name: str) -> None:
    """In the folder itself and in every one above it; an empty folder is nothing."""
    cwd = tmp_path / "repo/deep"
    cwd.mkdir(parents=True)
    places = brought_along(cwd, real)
    assert unwelcome(places) is None
    place = tmp_path / "repo" / name
    place.mkdir(parents=True)
    assert unwelcome(places) is None
    (place / "x").touch()
    assert str(place) in str(unwelcome(places))


def test_a_file_in_the_place_of_a_folder(real: Path, tmp_path: Path) -> None:
    """What cannot be listed is taken to hold something."""
    (tmp_path / ".cline").mkdir()
    (tmp_path / ".cline/hooks").write_text("x")
    assert unwelcome(brought_along(tmp_path, real)) is not None


def test_the_persons_own_folder_is_no_workspace(real: Path) -> None:
    """A workspace below the person's home does not see the person's hooks as its own."""
    cwd = real.parent / "repo"
    cwd.mkdir()
    assert unwelcome(brought_along(cwd, real)) is None
