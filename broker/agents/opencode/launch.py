"""
Starts opencode with the broker's plugin in front of every tool call.

Decided here: which settings are added to ``opencode …``, and which invocations cannot be held to
a ticket. Not decided here: what the plugin is answered (``hook``).

Everything is given by the environment of this run. The plugin is named in
``OPENCODE_CONFIG_CONTENT``, beside the user's own configuration and after it.
``OPENCODE_DISABLE_PROJECT_CONFIG`` keeps the workspace's configuration out, whose MCP servers and
permissions nobody of ours has seen; its instructions come back as what they are, text. Plugins of
the workspace run in opencode's own process all the same (``workspace``): such a run does not
start, and is stopped when they come later. opencode goes on when a plugin
does not load, so ``OPENCODE_PERMISSION`` closes every tool until our plugin opens them again.

Rules a maintainer keeps: nothing of the user's is edited; what the person set is added to, or
refused with a reason; a command that serves others is refused, because they could run a shell
without a call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.children import Children
from broker.agents.commandline import options, positional, refuse, value_of
from broker.agents.definitions import Listing
from broker.agents.hooks import AgentHook
from broker.agents.models import Front, Redirected
from broker.agents.opencode.canary import canary
from broker.agents.opencode.hook import NAME, OpencodeDialect
from broker.agents.opencode.model import redirected
from broker.agents.opencode.settings import definitions, servers
from broker.agents.opencode.workspace import Workspace
from broker.agents.plugin import Plugged
from broker.agents.servers import behind_gateway, beside_gateway
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

PLUGIN_NAME: Final = "broker-opencode.mjs"
# opencode first installs packages beside the user's configuration, and waits for a network that
# may not be there; until the plugin has spoken it asks no model, and every tool is closed.
SILENCE_S: Final = 180.0
CLOSED: Final = "**"  # fits every tool; as the plugin spells it

_CONTENT: Final = "OPENCODE_CONFIG_CONTENT"
_PERMISSION: Final = "OPENCODE_PERMISSION"
_PURE: Final = "OPENCODE_PURE"
_PROJECT: Final = "OPENCODE_DISABLE_PROJECT_CONFIG"
_INSTRUCTIONS: Final = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")  # the first name found counts

# What only looks, or changes nothing but opencode's own files, and asks no model.
_HARMLESS: Final = frozenset(
    ("auth", "providers", "completion", "db", "export", "import", "models", "session", "stats")
)
_OTHERS: Final = frozenset(
    (
        *("acp", "agent", "attach", "console", "debug", "generate", "github", "mcp", "plugin"),
        *("plug", "pr", "serve", "uninstall", "upgrade", "web"),
    )
)
_FLAGS: Final = {
    "--pure": "it leaves plugins out",
    "--attach": "it runs in another process",
    "--port": "whoever reaches that port could run a shell",
    "--hostname": "whoever reaches that address could run a shell",
    "--mdns": "others would be told where to run a shell",
    "--mdns-domain": "others would be told where to run a shell",
    "--cors": "pages of a browser could run a shell",
}
_LOOKS: Final = frozenset(("-h", "--help", "-v", "--version"))
_VALUED: Final = frozenset(
    (
        *("--command", "-s", "--session", "-m", "--model", "--agent", "--format", "--title"),
        *("--password", "-p", "--username", "-u", "--dir", "--variant", "--log-level", "--prompt"),
        *("-f", "--file", "--replay-limit"),
    )
)


class OpencodeLaunch:
    """One run of opencode."""

    name = NAME
    tested = "1.18.33"
    point = "a plugin in its process, every tool closed without it"
    trial: tuple[str, ...] = ()
    programs = frozenset(("opencode", "opencode.exe"))

    def __init__(self) -> None:
        self._hook = AgentHook(OpencodeDialect(), children=Children(self._listed))
        self._environ: Mapping[str, str] = {}
        self._plugged = Plugged(self._hook)
        self._workspace = Workspace((), Path())

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: a command, an option or a variable keeps the plugin out.
        """
        arguments = options(command)
        refuse(arguments, _FLAGS)
        verb = _verb(arguments)
        if verb in _OTHERS:
            raise LaunchError(f"`opencode {verb}` runs what no ticket would hold")
        if environ.get(_PURE, "").lower() in ("1", "true"):
            raise LaunchError(f"`{_PURE}` is set and leaves plugins out: unset it")

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> OpencodeLaunch().prompt(["opencode", "run", "-m", "a/b", "fix", "the test"])
        'fix the test'
        """
        arguments = options(command)
        if _verb(arguments) == "run" and value_of(arguments, "--command") is None:
            words = list(positional(command[1:], _VALUED))[1:]
            return " ".join(words) if any(word.strip() for word in words) else None
        return value_of(arguments, "--prompt") if _verb(arguments) == "" else None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return opencode's own configuration and credentials, by every name they have."""
        home = Path(environ.get("HOME", "/"))
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / "opencode"
        given = [environ.get(name, "") for name in ("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR")]
        places = [config, home / ".opencode", data / "auth.json", *(Path(p) for p in given if p)]
        return every_name(places)

    def unseen(self) -> tuple[str, ...]:
        """Return what the plugin does not see."""
        return (
            "files named with `@` in a prompt are read without a call",
            "commands of your own may run a shell in their text, without a call",
            "MCP and language servers, formatters and git are started by the agent itself, outside "
            "of every call",
            "where a page that is fetched leads on to is not asked",
            "plugins of your own run inside opencode and can do what it can; those, the settings "
            "and the MCP servers of the workspace are left out",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Put the plugin into the session's folder, and close every tool until it has spoken.

        Raises:
            LaunchError: it cannot be written, a variable of the person's cannot be read, or the
                workspace brings plugins.
        """
        arguments = options(launch.command)
        if not _LOOKS & set(arguments):
            home = Path(launch.environ.get("HOME", "/"))
            self._workspace = Workspace(_worked_in(launch.cwd, arguments), home)
            if (why := self._workspace.brings()) is not None:
                raise LaunchError(f"the workspace cannot be held to a ticket: {why}")
        self._environ = launch.environ
        plugin = self._plugged.put(__package__, PLUGIN_NAME, launch.folder)
        content = _table(launch.environ, _CONTENT)
        plugins = _entries(content, "plugin")
        texts = [*_entries(content, "instructions"), *_instructions(launch.cwd)]
        content |= {"plugin": [*plugins, plugin.as_uri()], "instructions": texts}
        found = servers(launch.environ)
        gateways = behind_gateway(found, launch)
        if gateways:
            mine = content.get("mcp")
            content["mcp"] = {**(mine if isinstance(mine, dict) else {}), **gateways}
        closed = _table(launch.environ, _PERMISSION)
        closed.pop(CLOSED, None)  # the last rule that fits is the one that counts
        closed[CLOSED] = "deny"
        if _verb(arguments) in ("", "run") and not _LOOKS & set(arguments):
            self._plugged.awaited(SILENCE_S)
        variables = {
            _CONTENT: json.dumps(content),
            _PERMISSION: json.dumps(closed),
            _PROJECT: "1",
            "PWD": os.fspath(launch.cwd),  # it works where this says, and not where it was started
        }
        return Prepared(launch.command, variables, beside=beside_gateway(found, gateways))

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(launch, prepared, front)

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        arguments = options(launch.command)
        if _verb(arguments) not in ("", "run") or _LOOKS & set(arguments):
            return None
        return canary(launch.command[0], bait, _CONTENT, prepared.environ[_CONTENT])

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.again()
        self._plugged.again()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def _listed(self, kind: str) -> Listing | None:
        return definitions(self._environ).listed(kind)

    def escaped(self) -> str | None:
        """Return why the plugin does not hold any more, or None."""
        if (why := self._workspace.brings()) is not None:
            return f"the workspace was changed during the run: {why}"
        return self._plugged.lost()


def _verb(arguments: Sequence[str]) -> str:
    """Return the command that is given to opencode, or an empty text."""
    first = next(positional(arguments, _VALUED), "")
    return first if first == "run" or first in _HARMLESS or first in _OTHERS else ""


def _worked_in(cwd: Path, arguments: Sequence[str]) -> list[Path]:
    """Return the folders that opencode may take for the one of the work."""
    given = [value_of(arguments, "--dir")]
    if _verb(arguments) == "":
        given.append(next(positional(arguments, _VALUED), None))  # `opencode FOLDER`
    return [cwd, *(cwd / name for name in given if name)]


def _table(environ: Mapping[str, str], name: str) -> dict[str, object]:
    """Return what the person set in a variable that we add to."""
    text = environ.get(name)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise LaunchError(f"`{name}` is set, and is not one JSON object: it is to be added to")
    return found


def _entries(content: Mapping[str, object], key: str) -> list[object]:
    found = content.get(key, [])
    if not isinstance(found, list):
        raise LaunchError(f"`{_CONTENT}`: its `{key}` is not a list")
    return found


def _instructions(folder: Path) -> list[str]:
    """Return the workspace's files of instructions, up to the top of its repository."""
    above = [folder, *folder.parents]
    top = next((n for n, place in enumerate(above) if (place / ".git").exists()), 0)
    for name in _INSTRUCTIONS:
        found = [place / name for place in above[: top + 1] if (place / name).is_file()]
        if found:
            return [os.fspath(path) for path in found]
    return []
