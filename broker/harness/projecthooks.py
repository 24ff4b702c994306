"""
The hooks that a workspace brings along: ``.broker/hooks.toml``, executed only when trusted.

    [[hook]]
    name = "no-secrets"
    when = "permission"                  # or arguments, result; a command only vetoes
    command = ["scripts/check", "--fast"]
    timeout_s = 5

Decided here: how the file reads, and which files of the workspace are executed by it: the file
itself, and whatever a word of a command names in the workspace, however it is spelled. What it
names and is not there yet is kept as missing, since who may write it would be executed. Not
decided here: what trust is (``trust``), and what a hook does to a call (``hooks``).

Rules a maintainer keeps: reading executes nothing; what is executed is compared with what was
trusted again each time, and one changed byte stops the call; what cannot be understood is an error
and never no hook.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from errno import ENAMETOOLONG
from functools import partial
from hashlib import sha256
from typing import Final

from broker.capabilities.fs import Folder
from broker.capabilities.process import Processes
from broker.capabilities.terminal import Terminal
from broker.errors import ConfigError
from broker.harness.files import ToolError
from broker.harness.hooks import command_hook
from broker.harness.items import CallHook, HookedCall, Veto, When
from broker.harness.shell import passed_on
from broker.harness.show import plain
from broker.harness.trust import Executables, Trust
from broker.limits import MAX_CONFIG_BYTES, MAX_FILE_BYTES

PLACE: Final = ".broker/hooks.toml"
_WHEN: Final[Mapping[str, When]] = {
    "arguments": "arguments",
    "permission": "permission",
    "result": "result",
}
_MAX_HOOKS: Final = 64
_MISSING: Final = "missing"  # in place of a hash: a command names it, and it must stay away
_PIECES: Final = re.compile(r"[\s;&|()<>{}\"'`$=,]+")  # what stands between words of a shell's line


@dataclass(frozen=True, slots=True)
class ProjectHooks:
    """The hooks of a workspace, which have not been asked anything yet, and what they execute."""

    hooks: tuple[CallHook, ...]
    executables: Executables
    commands: tuple[str, ...]


def project_hooks(folder: Folder, processes: Processes) -> ProjectHooks | None:
    """
    Read the hooks of a workspace; None where it brings none.

    Args:
        folder: the workspace.
        processes: what will run them.

    Raises:
        ConfigError: the file, or one that it names, cannot be read or is not understood.
    """
    try:
        if folder.status(PLACE) is None:
            return None
        content = folder.read(PLACE, limit_bytes=MAX_CONFIG_BYTES)
        tables = tomllib.loads(content.decode())
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"`{PLACE}` cannot be read: {why}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"`{PLACE}` is not understood: {error}") from error
    entries = tables.get("hook")
    if tables.keys() != {"hook"} or not isinstance(entries, list) or len(entries) > _MAX_HOOKS:
        raise ConfigError(
            f"`{PLACE}` holds `[[hook]]` tables and nothing else, {_MAX_HOOKS} at most"
        )
    files = {PLACE: sha256(content).hexdigest()}
    read = [_entry(entry, n) for n, entry in enumerate(entries)]
    for entry in read:
        for n, word in enumerate(entry.command):
            files |= _named(folder, word, looked_up=n == 0 and "/" not in word)
    executables = Executables(folder.path, files)
    return ProjectHooks(
        tuple(_hook(entry, folder, processes, executables) for entry in read),
        executables,
        tuple(" ".join(entry.command) for entry in read),
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    when: When
    command: tuple[str, ...]
    timeout_s: float


def _entry(data: object, n: int) -> _Entry:
    at = f"`{PLACE}`, hook {n + 1}"
    if not isinstance(data, dict):
        raise ConfigError(f"{at}: write `[[hook]]`")
    for key in data:
        if key not in ("name", "when", "command", "timeout_s"):
            raise ConfigError(f"{at} has no setting `{key}`: name, when, command, timeout_s")
    name, when, command = data.get("name"), data.get("when", "permission"), data.get("command")
    timeout_s = data.get("timeout_s", 5)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{at} needs a `name`")
    if not isinstance(when, str) or when not in _WHEN:
        raise ConfigError(f"{at}: `when` is {', '.join(_WHEN)}")
    if not isinstance(command, list) or not command or not all(isinstance(w, str) for w in command):
        raise ConfigError(f"{at}: `command` is a list of words")
    if type(timeout_s) not in (int, float) or not 0 < timeout_s <= 600:
        raise ConfigError(f"{at}: `timeout_s` is a number of seconds, up to 600")
    return _Entry(name, _WHEN[when], tuple(command), float(timeout_s))


def _named(folder: Folder, word: str, *, looked_up: bool) -> dict[str, str]:
    """
    Return the files of the workspace that a word names, each with its hash or as missing.

    A word that is a line for a shell names what its own words name. A name in it without a slash
    may be any program or text, so that one counts only where there is such a file now.
    """
    pieces = _PIECES.split(word)
    sure = pieces == [word] and not looked_up and not word.startswith("-")
    named = {}
    for piece in dict.fromkeys((word, *pieces)):
        place = _place(folder, piece)
        found = "" if place is None else _look(folder, place)
        if place and (found != _MISSING or sure or (piece in pieces and "/" in piece)):
            named[place] = found
    return {place: found for place, found in named.items() if found}


def _place(folder: Folder, word: str) -> str | None:
    """Return the place in the workspace that a word names, however it is spelled; None for none."""
    if ".." in word.split("/"):
        raise ConfigError(f"`{PLACE}` names `{word}`: write it without `..`")
    if not word or "\0" in word:
        return None
    plain = posixpath.normpath(word)
    if plain.startswith("/"):
        plain = "/" + plain.lstrip("/")
        if not plain.startswith(f"{folder.path.rstrip('/')}/"):
            return None  # an absolute path elsewhere
    place = plain.removeprefix(f"{folder.path.rstrip('/')}/")
    return None if place == "." else place


def _look(folder: Folder, place: str) -> str:
    """Return the hash of a file, that there is none, or nothing for a folder."""
    try:
        parts = place.split("/")
        for n in range(1, len(parts) + 1):
            status = folder.status("/".join(parts[:n]))
            if status is None:
                return _MISSING
            if status.kind == "link":  # it is followed when the command runs, to anywhere by then
                raise ConfigError(f"`{PLACE}` names `{place}`, which cannot be read: a link")
        if status is not None and status.kind == "folder":
            return ""
        return sha256(folder.read(place, limit_bytes=MAX_FILE_BYTES)).hexdigest()
    except OSError as error:
        if error.errno == ENAMETOOLONG:
            return _MISSING  # no file has such a name
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"`{PLACE}` names `{place}`, which cannot be read: {why}") from error


def _hook(entry: _Entry, folder: Folder, processes: Processes, trusted: Executables) -> CallHook:
    asked = command_hook(
        entry.name,
        entry.when,
        entry.command,
        processes=processes,
        cwd=folder.path,
        environ=passed_on(processes.environ),
        timeout_s=entry.timeout_s,
    )
    return replace(asked, run=partial(_checked, asked, folder, trusted))


def _checked(
    asked: CallHook, folder: Folder, trusted: Executables, call: HookedCall
) -> Veto | None:
    for place, digest in trusted.files.items():
        if _look(folder, place) != digest:
            raise ToolError(f"`{place}` was changed since it was trusted")
    return asked.run(call)


def trusted_hooks(
    found: ProjectHooks | None, trust: Trust, terminal: Terminal, *, accept: bool
) -> tuple[CallHook, ...]:
    """
    Return the hooks that a person trusts; where they do not, none, and say so.

    Args:
        found: what the workspace brings.
        trust: what was trusted before.
        terminal: where a person is asked, if one sits there.
        accept: whether the person has said yes beforehand, to what is there now.

    Raises:
        StoreError: a yes cannot be kept.
    """
    if found is None or not found.hooks:
        return ()
    if trust.holds(found.executables):
        return found.hooks
    if not accept and terminal.is_tty():
        terminal.write(f"This workspace would run, as you, for each call ({PLACE}):\n")
        for command in found.commands:
            terminal.write(f"  {plain(command)}\n")
        typed = terminal.read_line("Do you trust it, as it is now? [y/N] ")
        accept = typed is not None and typed.strip().lower() in ("y", "yes")
    if accept:
        trust.accept(found.executables)
        return found.hooks
    terminal.write_error(
        f"broker.harness: the hooks in {PLACE} do not run: nobody trusts what they say now "
        "(look at them, and give --trust)\n"
    )
    return ()
