"""
A folder for Cline CLI that is the person's own, with the broker's plugin in it.

Cline takes plugins and hooks from its own folder and from the workspace. So a run gets a folder of
its own, in the session's, with links to what the person has and copies of the person's hooks; what
Cline keeps (credentials, settings, past conversations) stays where it is.

Decided here: what lies in that folder, where the person's own one is, and what a workspace must
not bring: plugins, which run in the plugin's own process before any call, and hooks, which are
programs that no call starts. Not decided here: when this is looked at
(``broker.agents.cline.launch``).

Rules a maintainer keeps: the person's files are read, linked and copied, never written; the
person's plugins stay out of the process that decides.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.agents.client import write_new
from broker.agents.settingsfile import read_settings
from broker.errors import LaunchError

HOME_NAME: Final = "cline-home"
PLUGINS: Final = "plugins"
HOOKS: Final = "hooks"
NET_NAMES: Final = ("PreToolUse", "PreToolUse.sh", "PreToolUse.bash", "PreToolUse.zsh")

_OF_WORKSPACES: Final = (".cline/plugins", ".cline/hooks", ".clinerules/hooks")
_DOCUMENTS: Final = "Documents/Cline"


def user_folder(environ: Mapping[str, str]) -> Path:
    """
    Return the person's own folder of Cline's.

    >>> user_folder({"HOME": "/home/a"}).as_posix(), user_folder({"CLINE_DIR": "/x"}).as_posix()
    ('/home/a/.cline', '/x')
    """
    given = environ.get("CLINE_DIR", "").strip()
    return Path(os.path.abspath(given or Path(environ.get("HOME") or "/", ".cline")))


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return where Cline keeps credentials, settings and conversations."""
    given = environ.get("CLINE_DATA_DIR", "").strip()
    return Path(os.path.abspath(given or user_folder(environ) / "data"))


def own_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield what could free a run, or holds what no tool may read."""
    folder, home = user_folder(environ), Path(environ.get("HOME") or "/")
    yield from (folder / name for name in (PLUGINS, HOOKS, "agents", "cron"))
    yield data_folder(environ)
    yield from (home / _DOCUMENTS / name for name in ("Hooks", "Plugins", "Agents"))
    yield home / ".agents" / PLUGINS
    for name in ("MCP", "PROVIDER", "GLOBAL"):
        given = environ.get(f"CLINE_{name}_SETTINGS_PATH", "").strip()
        if given:
            yield Path(given)


def furnish(home: Path, real: Path) -> None:
    """
    Make the folder of a run.

    Raises:
        OSError: it cannot be made.
    """
    for folder in (home, home / PLUGINS, home / HOOKS):
        folder.mkdir(mode=0o700)
    for name in sorted(os.listdir(real)) if real.is_dir() else ():
        if name not in (PLUGINS, HOOKS, "data"):
            (home / name).symlink_to(real / name)
    if (real / HOOKS).is_dir():  # Cline follows no link there
        shutil.copytree(real / HOOKS, home / HOOKS, dirs_exist_ok=True)
        (home / HOOKS).chmod(0o700)


def put_net(home: Path, command: str) -> Path:
    """
    Put the net into the folder of a run, beside the person's own hooks of the same event.

    Raises:
        OSError: it cannot be written.
        LaunchError: every name that Cline would look for is taken.
    """
    folder = home / HOOKS
    name = next((n for n in NET_NAMES if not os.path.lexists(folder / n)), None)
    if name is None:
        raise LaunchError(f"your own hooks have every name of `{NET_NAMES[0]}`: take one away")
    net = folder / name
    write_new(net, f"#!/bin/sh\n{command}\n".encode())
    net.chmod(0o700)
    return net


def auto_approves(environ: Mapping[str, str]) -> bool:
    """
    Return whether Cline, by the person's settings, asks nobody before a call.

    Raises:
        LaunchError: its settings cannot be read.
    """
    found = _settings(environ, "GLOBAL", "global-settings.json")
    return found.get("toolAutoApprove", True) is not False


def server_settings(environ: Mapping[str, str]) -> dict[str, object]:
    """
    Return what the person's file of MCP servers says.

    Raises:
        LaunchError: it cannot be read.
    """
    return _settings(environ, "MCP", "cline_mcp_settings.json")


def brought_along(cwd: Path, real: Path) -> tuple[Path, ...]:
    """Return where a workspace could bring plugins and hooks, in it and above it."""
    places = (folder / name for folder in (cwd, *cwd.parents) for name in _OF_WORKSPACES)
    return tuple(p for p in places if not p.is_relative_to(real))


def unwelcome(places: tuple[Path, ...]) -> str | None:
    """Return what a workspace brings that none may bring, or None."""
    for place in places:
        try:
            empty = not os.listdir(place)
        except FileNotFoundError:
            continue
        except OSError:
            empty = False
        if not empty:
            what = "plugins run inside" if place.name == PLUGINS else "hooks are programs of"
            return f"`{place}`: {what} Cline itself, outside of every call"
    return None


def _settings(environ: Mapping[str, str], kind: str, name: str) -> dict[str, object]:
    given = environ.get(f"CLINE_{kind}_SETTINGS_PATH", "").strip()
    path = Path(given) if given else data_folder(environ) / "settings" / name
    found, why = read_settings(path)
    if why is not None:
        raise LaunchError(f"`{path}` {why}")
    return found
