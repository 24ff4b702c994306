"""
The project file: ``.broker/broker.toml`` of a workspace, the scopes that a person accepted there.

    [scope]
    default = ["@review"]                    # for every agent that has no line of its own
    claude = ["@fix-tests", "until=45m"]     # by the name of the program

Beside it, ``.broker/policies/NAME.scope`` are policies that its scopes may name.

Decided here: what the file may say, and that it counts only while a person accepted exactly what
it and its policies say now. Not decided here: how a person is asked (``broker.cli``), and what a
scope means (``broker.scope``).

A workspace may come from anybody, and an agent works in it, so its file alone gives no authority:
a scope that nobody typed would mint a ticket. What a person accepted is kept in the broker's state
folder, which is closed to tools, and is used from there: between looking and using, the workspace
may change. The folder ``.broker`` is one that no tool writes.

Rules a maintainer keeps: what was accepted and what is there are compared whole; a file that cannot
be read or understood is an error and never an absent one; a policy names no file by its path, since
nobody accepted what that file says.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.errors import ConfigError, PolicyError, StoreError
from broker.home import Home
from broker.limits import MAX_CONFIG_BYTES, MAX_POLICY_BYTES, MAX_PROJECT_POLICIES
from broker.policy import SUFFIX, Policy, find_policy, load_policy
from broker.receipt.disk import Disk, make_private_folder, said

FOLDER: Final = ".broker"
FILE_NAME: Final = "broker.toml"
POLICIES: Final = "policies"
DEFAULT: Final = "default"

_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BY_PATH: Final = re.compile(r"^[ \t]*@[^\s#]*/", re.MULTILINE)
_MAX_KEPT_BYTES: Final = 2 * (MAX_CONFIG_BYTES + MAX_PROJECT_POLICIES * MAX_POLICY_BYTES)


@dataclass(frozen=True, slots=True)
class Project:
    """
    What a workspace's project file says.

    ``scopes`` holds scope texts by the agent's program; ``files`` all that was read, by its name
    below ``.broker``: this is what a person accepts.
    """

    workspace: Path
    scopes: Mapping[str, tuple[str, ...]]
    files: Mapping[str, str]

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return project_path(self.workspace)

    @property
    def digest(self) -> str:
        """A name for all that was read: 64 hex digits."""
        return sha256(json.dumps(dict(sorted(self.files.items()))).encode()).hexdigest()

    def scope(self, program: str) -> tuple[str, ...] | None:
        """Return the scope texts for a program, or None where the file has none for it."""
        name = os.path.basename(program).removesuffix(".exe")
        return self.scopes.get(name, self.scopes.get(DEFAULT))


def project_path(workspace: Path) -> Path:
    """Return where a workspace's project file lies."""
    return workspace / FOLDER / FILE_NAME


def load_project(workspace: Path) -> Project | None:
    """
    Read a workspace's project file and its policies; None where there is no such file.

    Raises:
        ConfigError: something cannot be read, or says what is not understood; the message names
            the file.
    """
    text = _plain(project_path(workspace), MAX_CONFIG_BYTES)
    if text is None:
        return None
    files = {FILE_NAME: text}
    folder = workspace / FOLDER / POLICIES
    for name in _policies(folder):
        found = _plain(folder / name, MAX_POLICY_BYTES)
        if found is None:
            raise ConfigError(f"`{folder / name}` is gone: try again")
        files[f"{POLICIES}/{name}"] = found
    return parse_project(workspace, files)


def parse_project(workspace: Path, files: Mapping[str, str]) -> Project:
    """
    Return what a project's files say.

    Raises:
        ConfigError: they are not understood.

    >>> parse_project(Path("/w"), {"broker.toml": 'scope.pi = ["calls=3"]'}).scope("pi")
    ('calls=3',)
    """
    path = project_path(workspace)
    try:
        tables = tomllib.loads(files[FILE_NAME])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"`{path}`: {str(error)[:1].lower()}{str(error)[1:]}") from None
    for name in tables:
        if name != "scope":
            raise ConfigError(f"`{path}`: no such table `{name}`; the table is `[scope]`")
    found = tables.get("scope")
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"`{path}` says nothing: it needs a table `[scope]`")
    for name, texts in found.items():
        if _AGENT.fullmatch(name) is None:
            raise ConfigError(f"`{path}`: `{name[:80]}` is no name of an agent's program")
        if not _is_scope(texts):
            raise ConfigError(
                f"`{path}`: the scope of `{name}` is a list of texts, such as "
                '`["@review", "calls=60"]`'
            )
        for text in texts:
            if text.lstrip().startswith("@") and "/" in text:
                raise ConfigError(f"`{path}`: `{text}`: name a policy of `{FOLDER}/{POLICIES}`")
    for name, text in files.items():
        if name != FILE_NAME and _BY_PATH.search(text):
            where = workspace / FOLDER / name
            raise ConfigError(f"`{where}`: a policy of a project includes others by name only")
    return Project(workspace, {k: tuple(v) for k, v in found.items()}, dict(files))


def written(scopes: Mapping[str, Sequence[str]]) -> str:
    """
    Return the text of a project file.

    >>> print(written({"default": ["calls=3"]}), end="")
    # The scopes of this project, by the agent's program: `broker run` uses them where none
    # is typed, once you have accepted them (`broker init --help`).
    [scope]
    default = ["calls=3"]
    """
    lines = [
        "# The scopes of this project, by the agent's program: `broker run` uses them where none",
        "# is typed, once you have accepted them (`broker init --help`).",
        "[scope]",
    ]
    for name, texts in scopes.items():
        key = name if _BARE.fullmatch(name) else json.dumps(name)
        lines.append(f"{key} = [{', '.join(json.dumps(t, ensure_ascii=False) for t in texts)}]")
    return "\n".join(lines) + "\n"


# ── what a person accepted ──


def accept(project: Project, home: Home, disk: Disk | None = None) -> None:
    """
    Keep that a person accepted what a project says now.

    Raises:
        StoreError: it cannot be written.
    """
    place = _kept(project.workspace, home)
    document = {"workspace": os.path.realpath(project.workspace), "files": dict(project.files)}
    try:
        make_private_folder(place.parent)
        (disk or Disk()).replace(place, json.dumps(document, indent=1).encode() + b"\n")
    except OSError as error:
        raise StoreError(f"`{place}` cannot be written: {said(error)}") from error


def accepted(project: Project, home: Home) -> Project | None:
    """
    Return the project as a person accepted it, if what is there now is still the same.

    Raises:
        ConfigError: what was kept cannot be read.
    """
    place = _kept(project.workspace, home)
    text = _plain(place, _MAX_KEPT_BYTES)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("files"), dict):
        raise ConfigError(f"`{place}` cannot be read: remove it, and accept the project again")
    same = found["files"] == dict(project.files)
    here = found.get("workspace") == os.path.realpath(project.workspace)
    return project if same and here else None


def spelled(
    project: Project, texts: Sequence[str], folders: Sequence[Path] = ()
) -> tuple[str, ...]:
    """
    Return scope texts with every policy in the place of its name.

    A name is looked for in the project first, then in the person's folders, and then among those
    that are shipped.

    Raises:
        PolicyError, ScopeError: no such policy, or one that is not understood.
    """
    found: list[str] = []
    for text in texts:
        name = text.strip()
        found += _policy(project, name[1:], folders, ()).texts if name[:1] == "@" else (text,)
    return tuple(found)


def _policy(project: Project, name: str, folders: Sequence[Path], above: tuple[str, ...]) -> Policy:
    file = f"{POLICIES}/{name}{SUFFIX}"
    text = project.files.get(file)
    if text is None:
        return find_policy(name, folders)
    if name in above:
        raise PolicyError(f"policies include each other: {' → '.join((*above, name))}")
    source = os.fspath(project.workspace / FOLDER / file)
    inner = (*above, name)
    return load_policy(
        text, name, source=source, include=lambda other: _policy(project, other, folders, inner)
    )


def _kept(workspace: Path, home: Home) -> Path:
    """Return where it is kept what was accepted of a workspace."""
    name = sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()
    return home.projects / f"{name}.json"


def _is_scope(texts: object) -> bool:
    return isinstance(texts, list) and bool(texts) and all(isinstance(t, str) and t for t in texts)


def _policies(folder: Path) -> list[str]:
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"`{folder}` cannot be read: {said(error)}") from error
    if len(found) > MAX_PROJECT_POLICIES:
        raise ConfigError(f"`{folder}` holds more than {MAX_PROJECT_POLICIES} policies")
    return found


def _plain(path: Path, most_bytes: int) -> str | None:
    """Return the text of a plain file that no link leads to; None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {said(error)}") from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ConfigError(f"`{path}` is not a plain file")
        content = os.read(fd, most_bytes + 1)
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {said(error)}") from error
    finally:
        os.close(fd)
    if len(content) > most_bytes:
        raise ConfigError(f"`{path}` has more than {most_bytes} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"`{path}` is not UTF-8 text") from None
