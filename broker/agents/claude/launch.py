"""
Starts Claude Code with the broker's hook in front of every tool call.

Decided here: which options are added to ``claude …``, which invocations cannot be held to a
ticket, and when a run has slipped away. Not decided here: what the hook answers
(``broker.agents.claude.hook``).

``--settings FILE`` adds the hook beside the user's own settings, in a file of the session's
folder; ``--setting-sources user`` keeps the workspace's settings out, because a workspace could
switch every hook off, or rewrite a call behind the broker's back. The hook is set to
``onFailure: block`` and its command ends in exit code 2 when anything fails, so that older
versions, which do not know that setting, refuse too. While the agent runs, the user's settings
and the hook's own files are watched: an agent with a shell could write there.

Rules a maintainer keeps: nothing of the user's is edited; what the person typed is kept, or
refused with a reason, never dropped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.children import Children
from broker.agents.claude.canary import canary
from broker.agents.claude.hook import AFTER, BEGUN, FAILED, NAME, OVER, SPAWNS, ClaudeDialect
from broker.agents.claude.model import redirected
from broker.agents.claude.servers import OPTION, configured, typed_values
from broker.agents.claude.settings import (
    managed_settings,
    off_in_environment,
    switched_off,
    switches,
    user_settings,
    workspace_rules,
)
from broker.agents.claude.subagents import definitions
from broker.agents.client import (
    CLIENT_NAME,
    TIMEOUT_S,
    compiled_client,
    hook_command,
    quiet_shell,
    telling_command,
    write_new,
)
from broker.agents.commandline import options, refuse, value_of, without
from broker.agents.definitions import Definitions, Listing
from broker.agents.hooks import AgentHook
from broker.agents.models import Front, Redirected
from broker.agents.servers import behind_gateway, beside_gateway
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

SETTINGS_NAME: Final = "claude-settings.json"
SERVERS_NAME: Final = "claude-servers.json"
SILENCE_S: Final = 45.0  # a headless run whose hooks have not started by then has none

_SOURCES: Final = "--setting-sources"
_SETTINGS: Final = "--settings"
_MEMORY: Final = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"

# What leaves this process, or runs without hooks.
_FLAGS: Final = {
    "--bare": "it skips hooks",
    "--safe-mode": "it skips hooks",
    "--bg": "it runs in another process",
    "--background": "it runs in another process",
    "--cloud": "it runs on another machine",
    "--environment": "it runs on another machine",
    "--teleport": "it goes on with a session of another machine",
    "--desktop": "it runs in another program",
    "--tmux": "it runs in another process",
}
_COMMANDS: Final = frozenset(
    ("agents", "attach", "gateway", "remote-control", "respawn", "ultrareview")
)
_QUIET: Final = frozenset(
    ("auth", "config", "doctor", "install", "mcp", "plugin", "plugins", "setup-token", "update")
)
_NO_SESSION: Final = frozenset(("-v", "--version", "-h", "--help"))


class ClaudeLaunch:
    """One run of Claude Code."""

    name = NAME
    tested = "2.1.332"
    point = "its `PreToolUse` hook, `onFailure: block`"
    trial: tuple[str, ...] = ()
    programs = frozenset(("claude", "claude.exe"))

    def __init__(self, managed: Path | None = None) -> None:
        self._hook = AgentHook(ClaudeDialect(), children=Children(self._listed))
        self._definitions = Definitions(())
        self._managed = managed
        self._user: tuple[Path, ...] = ()
        self._stamp: object = None
        self._ours: tuple[Path, ...] = ()
        self._ours_stamp: object = None
        self._headless = False
        self._begun_s = 0.0

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: an option, a variable or a settings file keeps hooks from running.
        """
        arguments = options(command)
        refuse(arguments, _FLAGS)
        if len(command) > 1 and command[1] in _COMMANDS:
            raise LaunchError(f"`claude {command[1]}` starts agents that no ticket would hold")
        sources = value_of(arguments, _SOURCES)
        if sources is not None and not set(sources.split(",")) <= {"", "user"}:
            raise LaunchError(
                f"`{_SOURCES} {sources}`: leave out project and local settings, because a "
                "workspace could switch the broker's hook off there"
            )
        variable = off_in_environment(environ)
        if variable is not None:
            raise LaunchError(f"`{variable}` is set and keeps hooks from running: unset it")
        files = [(path, False) for path in user_settings(environ)]
        files += [(path, True) for path in managed_settings(self._managed)]
        for path, managed in files:
            why = switched_off(path, managed=managed)
            if why is not None:
                raise LaunchError(f"`{path}` keeps the broker's hook from running: {why}")
        typed_settings(arguments)

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt behind ``-p``.

        >>> ClaudeLaunch().prompt(["claude", "-p", "fix the test"])
        'fix the test'
        """
        arguments = options(command)
        for flag, text in pairwise([*arguments, "-"]):
            if flag in ("-p", "--print") and not text.startswith("-") and text.strip():
                return text
        return None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the user's settings files, by every name they have."""
        return every_name(user_settings(environ))

    def unseen(self) -> tuple[str, ...]:
        """Return what the hook does not see."""
        return (
            "files named with `@` in a prompt are read without a call",
            "MCP and language servers are started by the agent itself, outside of every call",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Write the settings and the hook's client into the session's folder.

        Raises:
            LaunchError: they cannot be written, or the typed settings cannot be read.
        """
        arguments = options(launch.command)
        typed = typed_settings(arguments)
        client = launch.folder / CLIENT_NAME
        settings = launch.folder / SETTINGS_NAME
        try:
            started = compiled_client(client)
            command = hook_command(started, launch.socket, NAME)
            telling = telling_command(started, launch.socket, NAME)
            typed = with_rules(typed, workspace_rules(launch.cwd))
            servers = configured(launch, arguments)
            gateways = behind_gateway(servers, launch)
            if gateways:
                config = json.dumps({"mcpServers": gateways}, indent=1)
                write_new(launch.folder / SERVERS_NAME, config.encode())
            text = json.dumps(with_hooks(typed, command, telling), indent=1)
            write_new(settings, text.encode())
        except OSError as error:
            raise LaunchError(f"`{settings}` cannot be written: {error.strerror}") from error
        self._definitions = definitions(launch.environ, value_of(arguments, "--agents"))
        self._user = user_settings(launch.environ)
        self._stamp = stamp(self._user)
        self._ours = (client, settings)
        self._ours_stamp = stamp(self._ours)
        self._headless = (
            any(a in ("-p", "--print") for a in arguments)
            and not any(a.startswith("--input-format") for a in arguments)
            and not _NO_SESSION & set(arguments)
        )
        self._begun_s = time.monotonic()
        kept = without(launch.command, _SETTINGS)
        added = [_SETTINGS, os.fspath(settings)]
        if gateways:
            values, rest = typed_values(kept[1:])
            kept = [kept[0], *rest]
            added = [OPTION, *values, os.fspath(launch.folder / SERVERS_NAME), *added]
        variables = quiet_shell(launch.environ)
        if value_of(arguments, _SOURCES) is None:
            # Without the workspace's settings its CLAUDE.md is left out too. It is only text,
            # and comes back by way of an added folder.
            added = [*added, "--add-dir", os.fspath(launch.cwd), _SOURCES, "user"]
            variables[_MEMORY] = "1"
        fleeting = (launch.folder / SERVERS_NAME,) if gateways else ()
        return Prepared(
            (kept[0], *added, *kept[1:]),
            variables,
            fleeting=fleeting,
            beside=beside_gateway(servers, gateways),
        )

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``. That may change the settings that are watched."""
        found = redirected(launch, prepared, front)
        self._ours_stamp = stamp(self._ours)
        return found

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        arguments = options(launch.command)
        if _NO_SESSION & set(arguments) or (arguments and arguments[0] in _QUIET):
            return None
        sources = value_of(arguments, _SOURCES)
        return canary(launch, bait, SETTINGS_NAME, "user" if sources is None else sources)

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.again()
        self._begun_s = time.monotonic()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def _listed(self, kind: str) -> Listing | None:
        return self._definitions.listed(kind)

    def escaped(self) -> str | None:
        """Return why the hook does not hold any more, or None."""
        if stamp(self._ours) != self._ours_stamp:
            return f"the broker's hook in `{self._ours[0].parent}` was changed during the run"
        now = stamp(self._user)
        if now != self._stamp:
            self._stamp = now
            for path in self._user:
                why = switched_off(path)
                if why is not None:
                    return f"`{path}` was changed during the run: {why}"
        silent_s = time.monotonic() - self._begun_s
        if self._headless and silent_s > SILENCE_S and not self._hook.started.is_set():
            return f"the agent did not start the broker's hook within {SILENCE_S:.0f} s"
        return None


def with_hooks(typed: Mapping[str, object], command: str, telling: str) -> dict[str, object]:
    """
    Return the settings that the person gave, with the broker's hooks first.

    What is told of a call that has ended is not waited for, but for the calls that start a
    subagent: whose they are must be known before its first call.

    Args:
        typed: the settings that the person gave.
        command: asks about a call.
        telling: tells of what has happened.

    Raises:
        LaunchError: the typed settings have hooks of a shape that cannot be added to.
    """
    hook = {"type": "command", "command": command, "timeout": TIMEOUT_S, "onFailure": "block"}
    told: dict[str, object] = {"type": "command", "command": telling, "timeout": TIMEOUT_S}
    ours: dict[str, list[object]] = {
        "PreToolUse": [{"matcher": "*", "hooks": [hook]}],
        "PreSkillShellCommand": [{"matcher": "*", "hooks": [hook]}],
        "SessionStart": [{"hooks": [{k: v for k, v in hook.items() if k != "onFailure"}]}],
        BEGUN: [{"hooks": [told]}],
        OVER: [{"hooks": [told | {"async": True}]}],
        AFTER: [
            {"matcher": "|".join(SPAWNS), "hooks": [told]},
            {"matcher": f"^(?!(?:{'|'.join(SPAWNS)})$)", "hooks": [told | {"async": True}]},
        ],
        FAILED: [{"matcher": "*", "hooks": [told | {"async": True}]}],
    }
    theirs = typed.get("hooks", {})
    if not isinstance(theirs, dict):
        raise LaunchError(f"`{_SETTINGS}`: its `hooks` are not an object")
    merged: dict[str, object] = dict(theirs)
    for event, entries in ours.items():
        present = merged.get(event, [])
        if not isinstance(present, list):
            raise LaunchError(f"`{_SETTINGS}`: its hooks of `{event}` are not a list")
        merged[event] = [*entries, *present]
    return {**typed, "hooks": merged}


def with_rules(
    typed: Mapping[str, object], rules: Mapping[str, Sequence[str]]
) -> dict[str, object]:
    """
    Return settings with more rules that refuse or ask.

    Raises:
        LaunchError: the typed settings have permissions of a shape that cannot be added to.
    """
    if not rules:
        return dict(typed)
    permissions = typed.get("permissions", {})
    if not isinstance(permissions, dict):
        raise LaunchError(f"`{_SETTINGS}`: its `permissions` are not an object")
    merged: dict[str, object] = dict(permissions)
    for kind, added in rules.items():
        present = merged.get(kind, [])
        if not isinstance(present, list):
            raise LaunchError(f"`{_SETTINGS}`: its permissions to `{kind}` are not a list")
        merged[kind] = [*present, *added]
    return {**typed, "permissions": merged}


def typed_settings(arguments: Sequence[str]) -> dict[str, object]:
    """
    Return the settings that the person gave with ``--settings``, a file or JSON.

    Raises:
        LaunchError: they cannot be read, stand there twice, or switch hooks off.
    """
    given = [a for a in arguments if a == _SETTINGS or a.startswith(_SETTINGS + "=")]
    if len(given) > 1:
        raise LaunchError(f"`{_SETTINGS}` stands there twice: give it once")
    value = value_of(arguments, _SETTINGS)
    if value is None:
        return {}
    try:
        text = value if value.lstrip().startswith("{") else Path(value).read_text("utf-8")
        settings = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise LaunchError(f"`{_SETTINGS} {value[:80]}` cannot be read: {error}") from None
    if not isinstance(settings, dict):
        raise LaunchError(f"`{_SETTINGS} {value[:80]}` is not a JSON object")
    why = next(switches(settings), None)
    if why is not None:
        raise LaunchError(f"`{_SETTINGS}` keeps the broker's hook from running: {why}")
    return settings
