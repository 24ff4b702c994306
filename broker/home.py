"""
Where the broker keeps its own files.

Decided here: the four folders and what lies in each. Not decided here: who may read them
(the catalogs and the sandbox refuse them to every tool call, see ``Home.own``), and what is
written into them.

- ``state``: ``sessions/<sid>/`` one folder per session, ``heads/<sid>`` its head,
  ``checkpoints/<sid>`` its latest signed checkpoint, ``ledger/`` the record of all sessions,
  ``projects/`` what was accepted of project files, ``runs/<run>/`` one recording each,
  ``revoked/`` one file per ticket that was taken back.
- ``data``: ``keys/`` the secret that signs receipts and tickets.
- ``config``: ``broker.toml``, ``catalogs/``, ``policies/``; a person edits these.
- ``runtime``: sockets; gone after a restart of the machine.

Rule a maintainer keeps: nothing here creates a folder. Looking is free of effects.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.errors import ConfigError

APPLICATION = "capability-broker"


@dataclass(frozen=True, slots=True)
class Home:
    """
    The four folders of one installation.

    >>> Home.find({"BROKER_HOME": "/x"}).heads.as_posix()
    '/x/state/heads'
    """

    state: Path
    data: Path
    config: Path
    runtime: Path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Home:
        """
        Return the home that ``BROKER_HOME`` names, else the user's own folders.

        Without it the platform's customs decide. Only ``BROKER_HOME`` and ``XDG_RUNTIME_DIR``
        are read from ``environ``; the customs read the environment of the process.

        Raises:
            ConfigError: ``BROKER_HOME`` is set and is not an absolute path.
        """
        root = environ.get("BROKER_HOME")
        if root is not None:
            place = Path(root)
            if not place.is_absolute():
                raise ConfigError(f"BROKER_HOME is `{root}`: give an absolute path")
            return cls(place / "state", place / "data", place / "config", place / "run")
        from platformdirs import PlatformDirs  # noqa: PLC0415  kept out of the import of broker

        dirs = PlatformDirs(APPLICATION, appauthor=False)
        state = Path(dirs.user_state_dir)
        # Without the session's own runtime folder the custom is one under /tmp, whose name
        # anyone can take first; ours is in the state folder then.
        session = environ.get("XDG_RUNTIME_DIR", "")
        runtime = Path(session) / APPLICATION if os.path.isabs(session) else state / "run"
        return cls(state, Path(dirs.user_data_dir), Path(dirs.user_config_dir), runtime)

    @property
    def sessions(self) -> Path:
        """The folder that holds one folder per session."""
        return self.state / "sessions"

    @property
    def heads(self) -> Path:
        """The folder that holds one head per session, apart from the receipts."""
        return self.state / "heads"

    @property
    def checkpoints(self) -> Path:
        """The folder that holds the latest signed checkpoint of each session."""
        return self.state / "checkpoints"

    @property
    def ledger(self) -> Path:
        """The folder of the ledger: the record of all sessions."""
        return self.state / "ledger"

    @property
    def projects(self) -> Path:
        """The folder that holds what a person accepted of project files."""
        return self.state / "projects"

    @property
    def runs(self) -> Path:
        """The folder that holds one folder per recorded run."""
        return self.state / "runs"

    @property
    def revoked(self) -> Path:
        """The folder that holds one file per ticket that was revoked."""
        return self.state / "revoked"

    @property
    def keys(self) -> Path:
        """The folder that holds secrets."""
        return self.data / "keys"

    def records(self, sid: str) -> tuple[Path, ...]:
        """Return the folders that hold what there is of a session."""
        return (self.sessions, self.sessions / sid, self.heads, self.checkpoints, self.ledger)

    def own(self) -> tuple[str, ...]:
        """
        Return the folders that no tool call may touch: absolute, links followed, no repeats.

        A folder reached through a link is listed by both of its names.
        """
        return every_name((self.state, self.data, self.config, self.runtime))


def every_name(paths: Iterable[Path]) -> tuple[str, ...]:
    """
    Return the names of files and folders: absolute, as given and with links followed, each once.

    >>> every_name([Path("/x/../y")])
    ('/y',)
    """
    found: dict[str, None] = {}
    for path in paths:
        found[os.path.abspath(path)] = None
        found[os.path.realpath(path)] = None
    return tuple(found)
