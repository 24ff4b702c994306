"""
The hooks that a workspace brings along: ``.broker/hooks.toml``, executed only when trusted.

    [[hook]]
    name = "no-secrets"
    when = "permission"                  # or arguments, result; a command only vetoes
    command = ["scripts/check", "--fast"]
    timeout_s = 5

Decided here: how the file reads, and which files of the workspace are executed by it: the file
itself, and each word of a command that names a file of the workspace. Not decided here: what trust
is (``trust``), and what a hook does to a call (``hooks``).

Rules a maintainer keeps: reading executes nothing; what is executed is compared with what was
trusted again each time, and one changed byte stops the call; what cannot be understood is an error
and never no hook.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
        for word in entry.command:
            files |= _named(folder, word)
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


def _named(folder: Folder, word: str) -> dict[str, str]:
    """Return the file of the workspace that a word names, with its hash."""
    place = word.removeprefix(f"{folder.path}/").removeprefix("./")
    parts = place.split("/")
    if ".." in parts:
        raise ConfigError(f"`{PLACE}` names `{word}`: write it without `..`")
    if "" in parts or "." in parts or "\0" in place:
        return {}  # an absolute path elsewhere, or no path at all
    try:
        status = folder.status(place)
        if status is None or status.kind == "folder":
            return {}
        return {place: sha256(folder.read(place, limit_bytes=MAX_FILE_BYTES)).hexdigest()}
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"`{PLACE}` names `{word}`, which cannot be read: {why}") from error


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
        try:
            content = folder.read(place, limit_bytes=MAX_FILE_BYTES)
        except OSError as error:
            raise ToolError(f"`{place}` cannot be read any more") from error
        if sha256(content).hexdigest() != digest:
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
