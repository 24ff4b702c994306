"""
What the broker needs of a machine, each need tried out.

Decided here: which needs there are. Every probe does the real thing (binds a socket, asks who
is at its other end, locks and syncs a file), since a version number promises little. Nothing is
made that stays: a missing key is reported, never created.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from broker.errors import BrokerError
from broker.home import Home

State = Literal["ok", "note", "bad"]
_AGENT_DEADLINE_S: Final = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe found; ``bad`` means that the broker cannot run."""

    name: str
    state: State
    text: str


def examine(home: Home) -> list[Finding]:
    """Return what every probe found, in a fixed order."""
    return [
        _python(),
        Finding("platform", "ok", f"{platform.system()} {platform.release()}"),
        _config(home),
        _key(home),
        *(_folder(name, place) for name, place in _folders(home)),
        _probe("socket", "a unix socket can be bound and reached", lambda: _socket(home)),
        _probe("peer", "the user at the other end of a socket can be told", _peer),
        _probe("storage", "a file can be locked and synced", lambda: _storage(home)),
        _claude(),
    ]


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs it may have lied to pip
        return Finding("python", "bad", f"{version}: 3.11 or newer is needed")
    return Finding("python", "ok", f"{version} at {sys.executable}")


def _key(home: Home) -> Finding:
    from broker.cli.wires import KEY_NAME, installation_key

    if not os.path.lexists(home.keys / KEY_NAME):
        return Finding("key", "note", f"none yet; the first run makes one in {home.keys}")
    try:
        key = installation_key(home)
    except (BrokerError, OSError) as error:
        return Finding("key", "bad", str(error))
    return Finding("key", "ok", f"{key.kid} in {home.keys}")


_WRITTEN: Final = ("state", "data")  # a run does without the others


def _folders(home: Home) -> list[tuple[str, Path]]:
    return [
        ("state", home.state),
        ("data", home.data),
        ("config folder", home.config),
        ("runtime", home.runtime),
    ]


def _folder(name: str, place: Path) -> Finding:
    try:
        found = place.stat()
    except FileNotFoundError:
        return _not_yet(name, place)
    except OSError as error:
        return Finding(name, "bad", f"{place}: {error.strerror}")
    mode = stat.S_IMODE(found.st_mode)
    text = f"{place} (mode {mode:04o})"
    if not stat.S_ISDIR(found.st_mode):
        return Finding(name, "bad", f"{place} is not a folder")
    if found.st_uid not in (os.geteuid(), 0):
        return Finding(name, "bad", f"{text} belongs to another user")
    if mode & 0o022:
        return Finding(name, "bad", f"{text} can be written by others: chmod go-w it")
    if name == "state" and not os.access(place, os.W_OK | os.X_OK):
        return Finding(name, "bad", f"{text} cannot be written: set BROKER_HOME elsewhere")
    return Finding(name, "ok", text)


def _not_yet(name: str, place: Path) -> Finding:
    above = place
    while not above.exists() and above != above.parent:
        above = above.parent
    if name in _WRITTEN and not os.access(above, os.W_OK | os.X_OK):
        return Finding(name, "bad", f"{place} does not exist, and {above} cannot be written")
    return Finding(name, "ok", f"{place} (not yet there)")


def _config(home: Home) -> Finding:
    from broker.config import load_config

    try:
        config = load_config(home.config)
    except BrokerError as error:
        return Finding("config", "bad", str(error))
    if not config.enabled:
        return Finding(
            "config", "note", f"switched OFF in {home.config}: nothing is refused or recorded"
        )
    return Finding("config", "ok", "enabled")


def _probe(name: str, good: str, work: Callable[[], None]) -> Finding:
    try:
        work()
    except (OSError, BrokerError, AttributeError) as error:
        return Finding(name, "bad", f"not so: {good} ({error})")
    return Finding(name, "ok", good)


def _near(place: Path) -> Path:
    """Return a folder that exists, at or above ``place``: the same kind of storage."""
    while not place.is_dir() and place != place.parent:
        place = place.parent
    return place if os.access(place, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _socket(home: Home) -> None:
    with tempfile.TemporaryDirectory(prefix="broker-", dir=_near(home.runtime)) as folder:
        path = os.path.join(folder, "probe.sock")
        with (
            closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server,
            closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as client,
        ):
            server.bind(path)
            server.listen(1)
            client.connect(path)


def _peer() -> None:
    from broker.service.peer import peer_uid

    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with closing(one), closing(other):
        uid = peer_uid(one)
    if uid != os.geteuid():
        raise OSError(f"the system says {uid}")


def _storage(home: Home) -> None:
    import fcntl

    with tempfile.NamedTemporaryFile(prefix="broker-", dir=_near(home.state)) as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(b"probe\n")
        file.flush()
        getattr(os, "fdatasync", os.fsync)(file.fileno())


def _claude() -> Finding:
    found = shutil.which("claude")
    if found is None:
        return Finding("claude", "note", "not found; any other agent can ask by `broker check`")
    try:
        told = subprocess.run(
            [found, "--version"],
            capture_output=True,
            timeout=_AGENT_DEADLINE_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return Finding("claude", "note", f"{found} does not say its version")
    version = told.stdout.decode(errors="replace").strip().partition("\n")[0]
    return Finding("claude", "ok", f"{version[:60]} at {found}")
