"""
Starts Qwen Code with the broker's hook in front of every tool call.

Decided here: which settings and variables a run gets, which invocations cannot be held to a
ticket, and when a run has slipped away. Not decided here: what the hook answers (``hook``), and
what could outvote it (``rivals``).

The hook is given by system settings of this run, in a file of the session's folder that the
environment names; what the machine's own system settings say is in there too. They also pin
``disableAllHooks`` to false, which no other settings can outvote, and the environment pins the
variables that switch hooks off, which a workspace's ``.env`` could set otherwise.

Rules a maintainer keeps: nothing of the user's is edited; what the person typed is kept, or
refused with a reason.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.children import Children
from broker.agents.client import (
    CLIENT_NAME,
    TIMEOUT_S,
    compiled_client,
    hook_command,
    quiet_shell,
    telling_command,
    write_new,
)
from broker.agents.commandline import options
from broker.agents.definitions import Definitions, Listing
from broker.agents.hooks import BEFORE, AgentHook
from broker.agents.models import Front, Redirected
from broker.agents.qwen.canary import canary
from broker.agents.qwen.hook import AFTER, FAILED, NAME, OVER, STARTS, QwenDialect, spelled
from broker.agents.qwen.model import redirected
from broker.agents.qwen.rivals import Rivals, before, boxes, no_extensions
from broker.agents.qwen.servers import with_servers
from broker.agents.settingsfile import read_settings
from broker.agents.watch import stamp
from broker.errors import InputError, LaunchError
from broker.home import every_name
from broker.service.protocol import HookRefusal
from broker.service.server import Hook
from broker.session import Session

SETTINGS_NAME: Final = "qwen-settings.json"
SILENCE_S: Final = 45.0  # a headless run whose hooks have not started by then has none
VERSION: Final = 4  # of the settings' layout, so that Qwen Code does not rewrite them

_SYSTEM: Final = "QWEN_CODE_SYSTEM_SETTINGS_PATH"
_DEFAULTS: Final = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
_HOME: Final = "QWEN_HOME"
_MACHINE: Final = (
    "/Library/Application Support/QwenCode/settings.json"
    if sys.platform == "darwin"
    else "/etc/qwen-code/settings.json"
)
# What switches hooks off, and to what it is pinned: a variable that is set is not set again by
# the `.env` of a workspace.
_PINNED: Final = {"QWEN_CODE_SIMPLE": "0", "QWEN_CODE_SAFE_MODE": "0", "QWEN_SANDBOX": "0"}
_UNSET: Final = ("QWEN_AGENT_EXECUTION_BACKEND", "QWEN_CODE_RELAUNCH_ARGS")
_OFF: Final = frozenset(("", "0", "false", "no", "off"))

_FLAGS: Final = {
    "bare": "it skips hooks",
    "safe-mode": "it skips hooks",
    "sandbox": "no hook runs in Qwen Code's own sandbox",
    "acp": "another program gives it its work",
    "experimental-acp": "another program gives it its work",
    "worktree": "it moves to another folder: start it there",
}
_SHORT: Final = {"s": "sandbox"}
_HARMLESS: Final = frozenset(("auth", "hooks", "hook", "sessions"))
_OTHERS: Final = frozenset(
    ("board", "channel", "extensions", "mcp", "review", "sandbox", "serve", "update")
)
_LISTS: Final = frozenset(
    (
        *("--allowed-mcp-server-names", "--allowed-tools", "-e", "--extensions", "--core-tools"),
        *("--include-directories", "--add-dir", "--fallback-model", "--exclude-tools"),
        "--disabled-slash-commands",
    )
)
_SWITCHES: Final = frozenset(
    (
        *("-d", "--debug", "-y", "--yolo", "-c", "--continue", "-l", "--list-extensions"),
        *("--telemetry", "--telemetry-log-prompts", "--insecure", "--chat-recording"),
        *("--experimental-lsp", "--restore-ask-user-question", "--openai-logging"),
        *("--screen-reader", "--include-partial-messages", "--fork-session", "-v", "--version"),
        *("-h", "--help"),
    )
)
_PROMPTS: Final = ("-p", "--prompt", "-i", "--prompt-interactive")
_LOOKS: Final = frozenset(("-h", "--help", "-v", "--version", "-l", "--list-extensions"))
_SETS_HOME: Final = re.compile(rf"^\s*(?:export\s+)?{_HOME}\s*[=:]", re.MULTILINE)


class QwenHook(AgentHook):
    """The hook of one run. It refuses, and says so, once something could outvote it."""

    def __init__(self) -> None:
        super().__init__(QwenDialect(self._defined), children=Children(self._listed))
        self.rivals: Rivals | None = None
        self.workspace = Path("/")

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """
        Decide the call in a payload.

        Raises:
            InputError: it cannot be read, or the answer might not count.
        """
        why = self.outvoted()
        if why is not None:
            raise InputError(f"{why}, and the run is stopped")
        return super().answer(payload, session)

    def outvoted(self) -> str | None:
        """Return what could outvote this hook by now, or None."""
        return None if self.rivals is None else self.rivals.found(self.workspace)

    def _defined(self, kind: str) -> bool:
        return self.rivals is not None and self.rivals.defines(self.workspace, kind)

    def _listed(self, kind: str) -> Listing | None:
        if self.rivals is None:
            return None
        return Definitions(self.rivals.definitions(self.workspace), spelled).listed(kind)


class QwenLaunch:
    """One run of Qwen Code."""

    name = NAME
    tested = "0.24.4"
    point = "its `PreToolUse` hook, pinned by system settings"
    trial: tuple[str, ...] = ()
    programs = frozenset(("qwen",))

    def __init__(self, machine: Path | None = None) -> None:
        self._hook = QwenHook()
        self._machine = Path(_MACHINE) if machine is None else machine
        self._client = self._settings = Path("/")
        self._stamps: list[object] = []
        self._pinned: object = None
        self._headless = False
        self._begun_s = 0.0

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: a command, an option, a variable or a setting keeps hooks from running.
        """
        arguments = options(command)
        for argument, name in _names(arguments):
            if name in _FLAGS:
                raise LaunchError(f"`{argument}` cannot be held to a ticket: {_FLAGS[name]}")
        verb = _verb(arguments)
        if verb in _OTHERS:
            raise LaunchError(f"`qwen {verb}` runs what no ticket would hold")
        for name in (*_PINNED, *_UNSET):
            if environ.get(name, "").strip().lower() not in _OFF:
                raise LaunchError(f"`{name}` is set and keeps hooks from running: unset it")
        folder = config_folder(environ)
        for path in (folder / ".env", _home(environ) / ".env"):
            if _HOME not in environ and path.is_file() and _SETS_HOME.search(_lines(path)):
                raise LaunchError(f"`{path}` sets `{_HOME}`: export it instead")
        for path in self._system(environ):
            settings, why = read_settings(path)
            if why is None and settings.get("disableAllHooks") not in (None, False):
                why = "sets `disableAllHooks`"
            if why is None and any(entry.get("sequential") for entry in before(settings)):
                why = "has a `sequential` hook, which changes what later hooks are told"
            why = why or boxes(settings)
            if why is not None:
                raise LaunchError(f"`{path}` keeps the broker's hook from holding: it {why}")

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> QwenLaunch().prompt(["qwen", "-m", "coder", "fix the test"])
        'fix the test'
        """
        if _verb(options(command)):
            return None
        words = list(_positional(command[1:], _PROMPTS))
        return words[0] if len(words) == 1 and words[0].strip() else None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return Qwen Code's own settings, credentials and extensions, by every name they have."""
        folder = config_folder(environ)
        home = _home(environ)
        names = (
            *("settings.json", ".env", "oauth_creds.json", "trustedFolders.json"),
            *("extensions", "agents", "skills", "updates"),
        )
        ours = [folder / name for name in names]
        return every_name((*ours, home / ".env", home / ".agents" / "skills"))

    def unseen(self) -> tuple[str, ...]:
        """Return what the hook does not see."""
        return (
            "files named with `@` in a prompt are read without a call",
            "commands in the text of a skill or of a custom command run without a call",
            "MCP servers and tools that are discovered are started by the agent itself",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Write the system settings of this run and the hook's client into the session's folder.

        Raises:
            LaunchError: they cannot be written, or something could outvote the hook.
        """
        arguments = options(launch.command)
        folder, home = config_folder(launch.environ), _home(launch.environ)
        if launch.cwd.is_relative_to(folder / "ssh-workspaces"):
            raise LaunchError("a workspace on another machine cannot be held to a ticket")
        rivals = Rivals(folder, home, extensions=not no_extensions(arguments))
        self._hook.rivals, self._hook.workspace = rivals, launch.cwd
        why = self._hook.outvoted()
        if why is not None:
            raise LaunchError(f"{why}: the broker's hook would not hold")
        self._client = launch.folder / CLIENT_NAME
        self._settings = launch.folder / SETTINGS_NAME
        system, defaults = self._system(launch.environ)
        try:
            started = compiled_client(self._client)
            command = hook_command(started, launch.socket, NAME)
            telling = telling_command(started, launch.socket, NAME)
            servers, beside = with_servers(launch, folder, system)
            settings = with_hooks(servers, command, telling)
            write_new(self._settings, json.dumps(settings, indent=1).encode())
        except OSError as error:
            raise LaunchError(f"`{self._settings}` cannot be written: {error.strerror}") from error
        self._pinned = _held(settings)
        self._stamps = [stamp((self._client,)), stamp((self._settings,))]
        asks = {"-i", "--prompt-interactive"} & set(arguments)
        self._headless = not asks and self.prompt(launch.command) is not None
        if _LOOKS & set(arguments):
            self._headless = False
        self._begun_s = time.monotonic()
        variables = {**quiet_shell(launch.environ), **_PINNED, _DEFAULTS: os.fspath(defaults)}
        variables[_SYSTEM] = os.fspath(self._settings)
        return Prepared(launch.command, variables, fleeting=(self._settings,), beside=beside)

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(launch, prepared, front, config_folder(launch.environ))

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        arguments = options(launch.command)
        if _LOOKS & set(arguments) or _verb(arguments):
            return None
        return canary(launch.command[0], bait)

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.again()
        self._begun_s = time.monotonic()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def escaped(self) -> str | None:
        """Return why the hook does not hold any more, or None."""
        now: list[object] = [stamp((self._client,)), stamp((self._settings,))]
        if now[0] != self._stamps[0]:
            return f"the broker's hook in `{self._client.parent}` was changed during the run"
        if now[1] != self._stamps[1]:
            # Qwen Code may bring an older layout of the machine's settings up to date.
            if _held(read_settings(self._settings)[0]) != self._pinned:
                return f"`{self._settings}` was changed during the run"
            self._stamps = now
        why = self._hook.outvoted()
        if why is not None:
            return why
        silent_s = time.monotonic() - self._begun_s
        if self._headless and silent_s > SILENCE_S and not self._hook.started.is_set():
            return f"the agent did not start the broker's hook within {SILENCE_S:.0f} s"
        return None

    def _system(self, environ: Mapping[str, str]) -> tuple[Path, Path]:
        """Return where the machine's system settings and defaults lie without the broker."""
        system = Path(environ.get(_SYSTEM) or self._machine)
        return system, Path(environ.get(_DEFAULTS) or system.parent / "system-defaults.json")


def with_hooks(system: Mapping[str, object], command: str, telling: str) -> dict[str, object]:
    """
    Return system settings with the broker's hooks first, and hooks pinned on.

    Args:
        system: the settings.
        command: asks about a call.
        telling: tells of what has happened, and is not waited for.

    Raises:
        LaunchError: they have hooks of a shape that cannot be added to.
    """
    hook = {"type": "command", "command": command, "timeout": TIMEOUT_S, "shell": "bash"}
    theirs = system.get("hooks", {})
    if not isinstance(theirs, dict):
        raise LaunchError("the `hooks` of the system settings are not an object")
    merged: dict[str, object] = dict(theirs)
    told = {**hook, "command": telling, "async": True}
    ours: list[tuple[str, dict[str, object]]] = [
        (BEFORE, {"matcher": "*", "hooks": [hook]}),
        (STARTS, {"hooks": [hook]}),
        (AFTER, {"matcher": "*", "hooks": [told]}),
        (FAILED, {"matcher": "*", "hooks": [told]}),
        (OVER, {"hooks": [told]}),
    ]
    for event, entry in ours:
        present = merged.get(event, [])
        if not isinstance(present, list):
            raise LaunchError(f"the hooks of `{event}` in the system settings are not a list")
        merged[event] = [entry, *present]
    return {"$version": VERSION, **system, "disableAllHooks": False, "hooks": merged}


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return Qwen Code's own folder."""
    given = environ.get(_HOME)
    if not given:
        return _home(environ) / ".qwen"
    if given == "~" or given.startswith("~/"):
        return _home(environ) / given[2:]
    return Path(os.path.abspath(given))


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/")


def _lines(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _held(settings: Mapping[str, object]) -> object:
    return settings.get("disableAllHooks"), settings.get("hooks")


def _names(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its name, in every spelling that Qwen Code takes for it."""
    for argument in arguments:
        word = re.split(r"[=.]", argument, maxsplit=1)[0]
        if word.startswith("--"):
            yield argument, re.sub(r"(?<=[a-z])([A-Z])", r"-\1", word[2:]).lower()
        elif word.startswith("-"):
            yield from ((argument, _SHORT.get(letter, letter)) for letter in word[1:])


def _positional(arguments: Sequence[str], also: Sequence[str] = ()) -> Iterator[str]:
    """Yield the words that are no options and not their values, and the values of ``also``."""
    taking = False
    words = iter(arguments)
    for word in words:
        if word == "--":
            yield from words
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            taking = name in _LISTS and not equals
            if name in also:
                yield value if equals else next(words, "")
            elif not (taking or equals or name in _SWITCHES):
                next(words, None)
        elif not taking:
            yield word


def _verb(arguments: Sequence[str]) -> str:
    """Return the command that is given to Qwen Code, or an empty text."""
    first = next(_positional(arguments), "")
    return first if first in _OTHERS or first in _HARMLESS else ""
