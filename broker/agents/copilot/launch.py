"""
Starts GitHub Copilot CLI with the broker's hook in front of every tool call.

Decided here: which options are added to ``copilot …``, which invocations cannot be held to a
ticket, and when a run has slipped away. Not decided here: what the hook answers (``hook``).

The hook is a plugin of this run, in the session's folder, given by ``--plugin-dir`` behind all
others. Copilot runs hooks one after the other, shows each what the hooks before it made of the
call, and lets any refusal stand; so ours sees the call that will run. It refuses a call whose
hook fails, save for one that runs out of time: ours answers well before. Two things could undo
it: settings that disable all hooks, which a trusted repository may bring along, and extensions,
whose hooks run after ours. Both are looked for before the run, and all through it.

Rules a maintainer keeps: nothing of the user's is edited; what the person typed is kept, or
refused with a reason.
"""

from __future__ import annotations

import json
import os
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
from broker.agents.copilot.canary import canary
from broker.agents.copilot.hook import (
    AFTER,
    BEGUN,
    FAILED,
    NAME,
    OVER,
    STARTS,
    CopilotDialect,
    CopilotHook,
    spelled,
)
from broker.agents.copilot.model import redirected
from broker.agents.copilot.settings import (
    configured,
    definitions,
    undoing,
    user_folder,
)
from broker.agents.definitions import Definitions, Listing
from broker.agents.hooks import BEFORE
from broker.agents.models import Front, Redirected
from broker.agents.servers import behind_gateway, beside_gateway
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

PLUGIN_NAME: Final = "copilot-plugin"
SERVERS_NAME: Final = "copilot-servers.json"
SILENCE_S: Final = 45.0  # a headless run whose hooks have not started by then has none

_PLUGIN: Final = "--plugin-dir"
_SERVERS: Final = "--additional-mcp-config"
_PROMPT: Final = ("-p", "--prompt")
_ASKS: Final = ("-i", "--interactive")
_FLAGS: Final = {
    "--acp": "another program gives it its work",
    "--server": "another program gives it its work",
    "--headless": "another program gives it its work",
    "--environment-host": "another machine gives it its work",
    "--connect": "it goes on with a session of another machine",
    "--extension-sdk-path": "extensions could change a call after it was judged",
    "--worktree": "it moves to another folder: start it there",
    "-C": "it moves to another folder: start it there",
}
_HARMLESS: Final = frozenset(
    ("completion", "config", "help", "instruction", "login", "memories", "sessions", "version")
)
_OTHERS: Final = frozenset(
    ("app", "init", "lsp", "mcp", "plugin", "sandbox", "skill", "update", "workflow")
)
_VALUED: Final = frozenset(
    (
        *(*_PROMPT, *_ASKS, _PLUGIN, _SERVERS, "--model", "--reasoning-effort", "--context"),
        *("--auto-tier", "--agent", "-n", "--name", "--session-id", "--log-dir", "--log-level"),
        *("--stream", "--output-format", "--add-dir", "--attachment", "--disable-mcp-server"),
        *("--add-github-mcp-toolset", "--add-github-mcp-tool", "--mcp-github-auth"),
        *("--max-autopilot-continues", "--mode", "--environment-compute-id"),
        *("--dynamic-retrieval", "--enable-mcp-server", "--max-ai-credits"),
        "--usage-output-file",
    )
)
# These take words that may follow, and may not.
_LOOSE: Final = frozenset(
    (
        *("--allow-tool", "--deny-tool", "--available-tools", "--excluded-tools", "--share"),
        *("--secret-env-vars", "--allow-url", "--deny-url", "-r", "--resume", "--bash-env"),
        "--mouse",
    )
)
_LOOKS: Final = frozenset(("-h", "--help", "-v", "--version"))


class CopilotLaunch:
    """One run of GitHub Copilot CLI."""

    name = NAME
    tested = "1.0.102"
    point = "its `PreToolUse` hook, in a plugin of the run"
    trial: tuple[str, ...] = ()
    programs = frozenset(("copilot",))

    def __init__(self) -> None:
        self._dialect = CopilotDialect()
        self._hook = CopilotHook(self._dialect, Children(self._listed))
        self._user = self._workspace = Path("/")
        self._ours: tuple[Path, ...] = ()
        self._stamp: object = None
        self._headless = False
        self._begun_s = 0.0

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: a command or an option keeps the hook from holding.
        """
        arguments = options(command)
        for argument in arguments:
            name = argument.partition("=")[0]
            why = _FLAGS.get(name if name.startswith("--") else name[:2])
            if why is not None:
                raise LaunchError(f"`{argument}` cannot be held to a ticket: {why}")
        verb = _verb(arguments)
        if verb in _OTHERS:
            raise LaunchError(f"`copilot {verb}` runs what no ticket would hold")

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> CopilotLaunch().prompt(["copilot", "--allow-all", "-p", "fix the test"])
        'fix the test'
        """
        found = list(_values(options(command), (*_PROMPT, *_ASKS)))
        return found[0] if len(found) == 1 and found[0].strip() else None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return Copilot's own settings, credentials and plugins, by every name they have."""
        folder = user_folder(environ)
        names = (
            *("settings.json", "config.json", "mcp-config.json", "hooks", "extensions"),
            *("installed-plugins", "permissions-config.json"),
        )
        return every_name(folder / name for name in names)

    def unseen(self) -> tuple[str, ...]:
        """Return what the hook does not see."""
        return (
            "files named with `@` in a prompt are read without a call",
            "MCP and language servers are started by the agent itself, outside of every call",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Write the plugin and the hook's client into the session's folder.

        Raises:
            LaunchError: they cannot be written, or something would undo the hook.
        """
        arguments = options(launch.command)
        self._user, self._workspace = user_folder(launch.environ), launch.cwd
        why = undoing(self._user, self._workspace)
        if why is not None:
            raise LaunchError(f"{why}: the broker's hook would not hold")
        plugin = launch.folder / PLUGIN_NAME
        client = launch.folder / CLIENT_NAME
        self._ours = (client, plugin / "plugin.json", plugin / "hooks.json")
        try:
            plugin.mkdir(mode=0o700)
            started = compiled_client(client)
            command = hook_command(started, launch.socket, NAME)
            telling = telling_command(started, launch.socket, NAME)
            leisure = telling_command(started, launch.socket, NAME, waits=False)
            write_new(self._ours[1], json.dumps(manifest(launch.folder.name), indent=1).encode())
            hooks = hooks_file(command, telling, leisure)
            write_new(self._ours[2], json.dumps(hooks, indent=1).encode())
        except OSError as error:
            raise LaunchError(f"`{plugin}` cannot be written: {error.strerror}") from error
        self._stamp = stamp(self._ours)
        self._begun_s = time.monotonic()
        if _verb(arguments) in _HARMLESS or _LOOKS & set(arguments):
            return Prepared(launch.command)
        self._headless = any(_values(arguments, _PROMPT))
        servers = configured(self._user, launch.cwd, _values(arguments, (_SERVERS,)))
        self._dialect.know(servers)
        at = 1 + len(arguments)
        added = [_PLUGIN, os.fspath(plugin)]
        gateways = behind_gateway(servers, launch)
        if gateways:
            # Behind what was typed: of servers with one name, the last one counts. In a file,
            # since their keys could be read on a command line by every user of the machine.
            file = launch.folder / SERVERS_NAME
            try:
                write_new(file, json.dumps({"mcpServers": gateways}, indent=1).encode())
            except OSError as error:
                raise LaunchError(f"`{file}` cannot be written: {error.strerror}") from error
            added += [_SERVERS, f"@{file}"]
        fleeting = (launch.folder / SERVERS_NAME,) if gateways else ()
        return Prepared(
            (*launch.command[:at], *added, *launch.command[at:]),
            quiet_shell(launch.environ),
            fleeting=fleeting,
            beside=beside_gateway(servers, gateways),
        )

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(launch, prepared, front)

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        arguments = options(launch.command)
        if _verb(arguments) in _HARMLESS or _LOOKS & set(arguments):
            return None
        plugins = (*_values(arguments, (_PLUGIN,)), os.fspath(launch.folder / PLUGIN_NAME))
        return canary(launch.command[0], bait, self._user, plugins)

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.again()
        self._begun_s = time.monotonic()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def _listed(self, kind: str) -> Listing | None:
        return Definitions(definitions(self._user, self._workspace), spelled).listed(kind)

    def escaped(self) -> str | None:
        """Return why the hook does not hold any more, or None."""
        if stamp(self._ours) != self._stamp:
            return f"the broker's hook in `{self._ours[0].parent}` was changed during the run"
        why = undoing(self._user, self._workspace)
        if why is not None:
            return why
        silent_s = time.monotonic() - self._begun_s
        if self._headless and silent_s > SILENCE_S and not self._hook.started.is_set():
            return f"the agent did not start the broker's hook within {SILENCE_S:.0f} s"
        return None


def manifest(session: str) -> dict[str, object]:
    """
    Return our plugin's manifest; no other plugin can know its name, and so stand in for it.

    >>> manifest("01J5")["name"]
    'capability-broker-01j5'
    """
    return {
        "name": f"capability-broker-{session.lower()}",
        "version": "1.0.0",
        "description": "Holds this run to its ticket.",
        "hooks": "hooks.json",
    }


def hooks_file(command: str, telling: str, leisure: str) -> dict[str, object]:
    """
    Return the hooks of our plugin: around every call, at the start, and around subagents.

    Args:
        command: asks about a call.
        telling: tells of what has happened.
        leisure: tells of it, and is not waited for.
    """
    said = {
        **dict.fromkeys((BEFORE, STARTS), command),
        **dict.fromkeys((BEGUN, OVER), telling),
        **dict.fromkeys((AFTER, FAILED), leisure),
    }
    hooks = {
        event: [{"type": "command", "bash": words, "timeoutSec": TIMEOUT_S}]
        for event, words in said.items()
    }
    return {"version": 1, "hooks": hooks}


def _values(arguments: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yield the values of options, in either spelling."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in names:
            yield value if equals else next(words, "")
        elif name in _VALUED and not equals:
            next(words, None)


def _verb(arguments: Sequence[str]) -> str:
    """Return the command that is given to Copilot, or an empty text."""
    words = iter(arguments)
    loose = False
    for word in words:
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            loose = name in _LOOSE and not equals
            if name in _VALUED and not equals:
                next(words, None)
        elif not loose:
            return word if word in _HARMLESS or word in _OTHERS else ""
    return ""
