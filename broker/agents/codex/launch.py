"""
Starts Codex with the broker's hook in front of every tool call.

Decided here: which settings are added to ``codex …``, and which invocations cannot be held to a
ticket. Not decided here: what the hook answers (``hook``), how Codex is asked about it
(``trust``).

The hooks are given by ``-c``, beside the user's own, and are trusted by their hashes: nothing of
the user's is edited, and no hook of a workspace becomes trusted with them. Before the run Codex
is asked whether they would run. The work stays in the process that is started: its background
service is switched off, since it would run the calls elsewhere.

Rules a maintainer keeps: what the person typed is kept, or refused with a reason; a setting that
touches hooks is refused, whatever it says.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.client import (
    CLIENT_NAME,
    TIMEOUT_S,
    compiled_client,
    hook_command,
    quiet_shell,
    telling_command,
)
from broker.agents.codex.canary import canary
from broker.agents.codex.hook import AFTER, BEGUN, NAME, OVER, SPAWNS, STARTS, CodexDialect
from broker.agents.codex.model import redirected
from broker.agents.codex.servers import gateway_settings
from broker.agents.codex.trust import Hooked, listed
from broker.agents.commandline import options, positional, refuse
from broker.agents.hooks import BEFORE, AgentHook
from broker.agents.models import Front, Redirected
from broker.agents.settingsfile import plain_text
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

SILENCE_S: Final = 45.0  # a headless run whose hooks have not started by then has none

_HEADLESS: Final = frozenset(("exec", "e", "review"))
_SESSIONS: Final = _HEADLESS | {"resume", "fork"}
# What only looks, or changes nothing but Codex's own files, and asks no model.
_HARMLESS: Final = frozenset(
    (
        "archive",
        "completion",
        "delete",
        "doctor",
        "features",
        "help",
        "login",
        "logout",
        "unarchive",
    )
)
_COMMANDS: Final = _SESSIONS | _HARMLESS
_OTHERS: Final = frozenset(
    (
        *("agents", "app-server", "apply", "a", "cloud", "debug", "exec-server", "mcp"),
        *("migrate-nfs-db", "migrate-rollouts", "plugin", "queue", "remote-control", "sandbox"),
        "update",
    )
)
_FLAGS: Final = {
    "--dangerously-bypass-hook-trust": "it would trust the hooks of the workspace too",
    "--remote": "it runs in another process",
    "--ignore-user-config": "it may leave hooks out",
}
_SETS: Final = frozenset(("-c", "--config", "--enable", "--disable", "-p", "--profile"))
_VALUED: Final = _SETS | {
    *("-i", "--image", "-m", "--model", "--local-provider", "-s", "--sandbox", "-a"),
    *("--ask-for-approval", "-C", "--cd", "--add-dir", "--color", "--output-schema", "-o"),
    *("--output-last-message", "--remote-auth-token-env"),
}
_WITHIN_EXEC: Final = frozenset(("resume", "fork", "review", "help"))
_PINNED: Final = ("features.hooks=true", "features.daemon_auto_start=false")
# What each event's hooks do, and for which tools.
_EVENTS: Final = {
    BEFORE: (("asks", ""),),
    STARTS: (("asks", ""),),
    BEGUN: (("tells", ""),),
    OVER: (("tells", ""),),
    # Whom a call started must be known before that one calls; how a call ended need not.
    AFTER: (("tells", f".*{SPAWNS}"), ("tells at leisure", "")),
}
# The keys of settings that are ours, at any depth.
_OURS: Final = ("hooks", "features.hooks", "features.codex_hooks", "features.daemon_auto_start")


class CodexLaunch:
    """One run of Codex."""

    name = NAME
    tested = "0.171.0"
    point = "its `PreToolUse` hook, trusted by its hash"
    trial: tuple[str, ...] = ()
    programs = frozenset(("codex", "codex.exe"))

    def __init__(self) -> None:
        self._hook = AgentHook(CodexDialect())
        self._ours: tuple[Path, ...] = ()
        self._stamp: object = None
        self._headless = False
        self._begun_s = 0.0

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: a command, an option or a setting keeps the hooks from running.
        """
        arguments = options(command)
        refuse(arguments, _FLAGS)
        verb = _verb(arguments)
        if verb in _OTHERS:
            raise LaunchError(f"`codex {verb}` runs what no ticket would hold")
        for setting in _settings(arguments):
            _check_setting(setting)

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> CodexLaunch().prompt(["codex", "exec", "-m", "gpt-5.5", "fix the test"])
        'fix the test'
        """
        before = options(command)
        words = list(positional(command[1:], _VALUED))
        verb = _verb(before)
        if verb:
            words.pop(0)
        if verb not in ("", "exec", "e") or (words and words[0] in _WITHIN_EXEC and verb):
            return None
        if len(words) != 1 or words[0] == "-" or not words[0].strip():
            return None
        return words[0]

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return Codex's own configuration and credentials, by every name they have."""
        folder = _folder(environ)
        names = ("config.toml", "hooks.json", "auth.json", "managed_config.toml")
        return every_name(folder / name for name in names)

    def unseen(self) -> tuple[str, ...]:
        """Return what the hook does not see."""
        return (
            "what is typed into a command that still runs (`write_stdin`): name the shell in "
            "`tools` only where you would leave it alone",
            "files named with `@` in a prompt are read without a call",
            "MCP servers are started by the agent itself, outside of every call",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Put the hook's client into the session's folder, and have its hooks trusted.

        Raises:
            LaunchError: it cannot be written, or Codex would not run the hooks.
        """
        client = launch.folder / CLIENT_NAME
        try:
            started = compiled_client(client)
            commands = {
                "asks": hook_command(started, launch.socket, NAME),
                "tells": telling_command(started, launch.socket, NAME),
                "tells at leisure": telling_command(started, launch.socket, NAME, waits=False),
            }
        except OSError as error:
            raise LaunchError(f"`{client}` cannot be written: {error.strerror}") from error
        self._ours = (client,)
        self._stamp = stamp(self._ours)
        arguments = options(launch.command)
        verb = _verb(arguments)
        self._headless = verb in _HEADLESS
        self._begun_s = time.monotonic()
        if verb in _HARMLESS or _looks_only(arguments):
            self._headless = False
            return Prepared(launch.command)
        ours = [word for setting in (*_hooks(commands), *_PINNED) for word in ("-c", setting)]
        typed = list(_typed_settings(arguments))
        trusted = self._trusted(launch, [*typed, *ours], commands)
        servers, beside = gateway_settings(
            _program(launch), _folder(launch.environ) / "config.toml", launch, typed
        )
        ours += [word for setting in (trusted, *servers) for word in ("-c", setting)]
        return Prepared(
            (launch.command[0], *ours, *launch.command[1:]),
            quiet_shell(launch.environ),
            keys=_keys(launch.environ),
            beside=beside,
        )

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(
            launch, prepared, front, _folder(launch.environ), _chosen(options(launch.command))
        )

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        added = len(prepared.command) - len(launch.command)
        if not added:
            return None
        typed = _typed_settings(options(launch.command))
        return canary((*prepared.command[: 1 + added], *typed), bait, _folder(launch.environ))

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.again()
        self._begun_s = time.monotonic()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def escaped(self) -> str | None:
        """Return why the hook does not hold any more, or None."""
        if stamp(self._ours) != self._stamp:
            return f"the broker's hook in `{self._ours[0].parent}` was changed during the run"
        silent_s = time.monotonic() - self._begun_s
        if self._headless and silent_s > SILENCE_S and not self._hook.started.is_set():
            return f"the agent did not start the broker's hook within {SILENCE_S:.0f} s"
        return None

    def _trusted(self, launch: Launch, settings: Sequence[str], commands: Mapping[str, str]) -> str:
        """Return the setting that makes our hooks trusted, once Codex says that they would run."""
        program = _program(launch)
        found = _standing(listed(program, settings, launch.environ, launch.cwd), commands)
        hashes = (f"{json.dumps(h.key)}={{trusted_hash={json.dumps(h.digest)}}}" for h in found)
        trust = f"hooks.state={{{','.join(hashes)}}}"
        again = listed(program, [*settings, "-c", trust], launch.environ, launch.cwd)
        if not all(hook.runs for hook in _standing(again, commands)):
            raise LaunchError(
                "Codex does not run the broker's hook: a setting of the machine or of its "
                "administrator may allow managed hooks only"
            )
        return trust


def _hooks(commands: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings that put a command in front of every call, and tell of what happened."""
    for event, hooks in _EVENTS.items():
        said = (
            f"{{{f'matcher={json.dumps(matcher)},' if matcher else ''}"
            f'hooks=[{{type="command",command={json.dumps(commands[does])},timeout={TIMEOUT_S}}}]}}'
            for does, matcher in hooks
        )
        yield f"hooks.{event}=[{','.join(said)}]"


def _standing(found: Sequence[Hooked], commands: Mapping[str, str]) -> list[Hooked]:
    """Return our hooks; each must be there, at its event and with its command."""
    ours = [hook for hook in found if hook.command in commands.values()]
    meant = [
        (f"{event[0].lower()}{event[1:]}", commands[does])
        for event, hooks in _EVENTS.items()
        for does, _ in hooks
    ]
    if sorted((hook.event, hook.command) for hook in ours) != sorted(meant):
        raise LaunchError("Codex does not see the broker's hook: this version cannot be held")
    return ours


def _keys(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that the person's configuration names for a provider's key."""
    try:
        found = tomllib.loads(plain_text(_folder(environ) / "config.toml") or "")
    except tomllib.TOMLDecodeError:
        return ()  # Codex says so itself
    providers = found.get("model_providers")
    tables = providers.values() if isinstance(providers, dict) else ()
    names = (table.get("env_key") for table in tables if isinstance(table, dict))
    return tuple(name for name in names if isinstance(name, str))


def _program(launch: Launch) -> str:
    program = shutil.which(launch.command[0], path=launch.environ.get("PATH", os.defpath))
    if program is None:
        raise LaunchError(f"`{launch.command[0]}` cannot be found")
    return program


def _folder(environ: Mapping[str, str]) -> Path:
    """Return where Codex keeps its configuration."""
    given = environ.get("CODEX_HOME")
    return Path(given) if given else Path(environ.get("HOME", "/")) / ".codex"


def _verb(arguments: Sequence[str]) -> str:
    """Return the command that is given to Codex, or an empty text."""
    first = next(positional(arguments, _VALUED), "")
    return first if first in _COMMANDS or first in _OTHERS else ""


def _looks_only(arguments: Sequence[str]) -> bool:
    return bool({"-h", "--help", "-V", "--version"} & set(arguments))


def _typed_settings(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the typed options that set configuration, as they stand."""
    for at, word in enumerate(arguments):
        name, equals, _ = word.partition("=")
        if name in _SETS and equals and name.startswith("--"):
            yield word
        elif word in _SETS and at + 1 < len(arguments):
            yield from (word, arguments[at + 1])
        elif word[:2] in _SETS and len(word) > 2 and not word.startswith("--"):
            yield word


def _settings(arguments: Sequence[str]) -> Iterator[str]:
    """Yield what typed options set, as ``KEY=VALUE``."""
    words = iter(_typed_settings(arguments))
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.startswith("--")):
            name, value = (word, next(words)) if word in _SETS else (word[:2], word[2:])
        if name in ("--enable", "--disable"):
            yield f"features.{value}={str(name == '--enable').lower()}"
        elif name in ("-c", "--config"):
            yield value


def _chosen(arguments: Sequence[str]) -> list[str]:
    """Return what typed options set, a profile too, as ``KEY=VALUE``."""
    words = list(_typed_settings(arguments))
    profiles = [f"profile={b}" for a, b in pairwise(words) if a in ("-p", "--profile")]
    return [*profiles, *_settings(arguments)]


def _check_setting(setting: str) -> None:
    """Refuse a setting that touches hooks or the process that runs the calls."""
    key = "".join(c for c in setting.partition("=")[0] if c not in "\"' \t")
    for ours in _OURS:
        if key == ours or key.startswith(f"{ours}.") or ours.startswith(f"{key}."):
            raise LaunchError(
                f"`{setting[:80]}` sets what the broker must be sure of: leave it out"
            )
