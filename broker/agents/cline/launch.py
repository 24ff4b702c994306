"""
Starts Cline CLI with the broker's plugin in front of every tool call.

Decided here: what is added to ``cline …``, which invocations cannot be held to a ticket, and when
a run has slipped away. Not decided here: what the plugin is answered
(``broker.agents.cline.answers``), and what lies in the folder of a run (``home``).

Cline takes a plugin's refusal for one, tells it to the model and goes on; its hook files can only
end the run. It goes on without a plugin that does not load. So a run with its prompt on the
command line starts with every tool closed, by Cline's own ``--auto-approve false``, and the
plugin opens the calls that were let through. Where a person is asked before calls, or may ask to
be, nothing opens anything. Wherever there is a person to ask, a hook file ends the run if the
plugin never spoke: a question about a call that nobody judged would look like one that was.

Cline reads ``.env`` and ``bunfig.toml`` in the folder that it is started in, which may name
programs and code to run; so it is started in a folder of ours, and told where to work. Its
sessions stay in its own process: a hub of Cline's would outlive the run.

Rules a maintainer keeps: nothing of the person's is edited; what the person typed is kept, or
refused with a reason.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.client import CLIENT_NAME, compiled_client, hook_command, quiet_shell, write_new
from broker.agents.cline.answers import ClineHook
from broker.agents.cline.canary import canary
from broker.agents.cline.home import (
    HOME_NAME,
    PLUGINS,
    auto_approves,
    brought_along,
    data_folder,
    furnish,
    own_files,
    put_net,
    server_settings,
    unwelcome,
    user_folder,
)
from broker.agents.cline.hook import NAME, ClineDialect
from broker.agents.cline.model import redirected
from broker.agents.cline.servers import SERVERS_NAME, Servers, with_gateways
from broker.agents.commandline import options, positional, refuse, value_of, without
from broker.agents.models import Front, Redirected
from broker.agents.plugin import Plugged
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

PLUGIN_NAME: Final = "broker-cline.js"
SILENCE_S: Final = 90.0  # until the plugin has spoken every tool is closed
IMPORT_TIMEOUT_MS: Final = 60_000  # that Cline gives a plugin to load; after that it goes on

_APPROVE: Final = "--auto-approve"
_RUNTIME: Final = "CLINE_JS_RUNTIME_PATH"
_OPENS: Final = "BROKER_CLINE_OPENS"
# Printed where even the hook's client fails: Cline takes nothing else for a refusal.
_FAILED: Final = (
    """echo '{"cancel":true,"errorMessage":"refused: the hook of the broker failed"}'; exit 0"""
)
_FLAGS: Final = {
    "-c": "start it in the folder where it is to work",
    "--cwd": "start it in the folder where it is to work",
    "--config": "set `CLINE_DIR` instead",
    "--data-dir": "set `CLINE_DATA_DIR` instead",
    "--hooks-dir": "its hooks are programs that no call starts",
    "--worktree": "it moves to another folder: start it there",
    "-z": "it would run on in another process",
    "--zen": "it would run on in another process",
    "--acp": "another program gives it its work",
    "--kanban": "it would run in other processes",
    "--update": "it would run another program",
}
_HARMLESS: Final = frozenset(("help", "version"))
# On a terminal these may go on into a talk with the agent, so they are held like one.
_LEADING: Final = frozenset(("auth", "config", "h", "history", "mcp"))
_OTHERS: Final = frozenset(
    (
        *("connect", "dashboard", "doctor", "hook", "hub", "kanban", "plugin", "schedule"),
        *("skill", "update"),
    )
)
_VALUED: Final = frozenset(
    (
        *(_APPROVE, "--thinking", "--compaction", "--id", "-P", "--provider", "-k", "--key"),
        *("-m", "--model", "-s", "--system", "--retries", "-t", "--timeout", "--team-name"),
    )
)
_LOOKS: Final = frozenset(("-h", "--help", "-V", "--version"))
_SCREEN: Final = frozenset(("-i", "--tui"))
_YOLO: Final = frozenset(("-y", "--yolo"))
_CLUSTER: Final = re.compile(r"-[A-Za-z].")


class ClineLaunch:
    """One run of Cline CLI."""

    name = NAME
    tested = "3.0.65"
    point = "a plugin in a process of its own, which opens tools that start closed"
    trial: tuple[str, ...] = ()
    programs = frozenset(("cline",))

    def __init__(self) -> None:
        self._dialect = ClineDialect()
        self._hook = ClineHook(self._dialect)
        self._plugged = Plugged(self._hook)
        self._ours: tuple[Path, ...] = ()
        self._ours_stamp: object = None
        self._places: tuple[Path, ...] = ()
        self._places_stamp: object = None

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: a command, an option, a variable or unreadable settings.
        """
        arguments = options(command)
        refuse(arguments, _FLAGS)
        for argument in arguments:
            if _CLUSTER.match(argument):
                raise LaunchError(f"`{argument}`: write short options apart from all else")
        verb = _verb(arguments)
        if verb in _OTHERS:
            raise LaunchError(f"`cline {verb}` runs what no ticket would hold")
        if environ.get("CLINE_SANDBOX", "").strip() not in ("", "0", "false"):
            raise LaunchError("`CLINE_SANDBOX` is set and moves Cline's folders: unset it")
        auto_approves(environ)

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> ClineLaunch().prompt(["cline", "-m", "x", "fix", "the test"])
        'fix the test'
        """
        if _verb(options(command)):
            return None
        text = " ".join(positional(command[1:], _VALUED))
        return text if text.strip() else None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return Cline's own settings, credentials, hooks and plugins, by every name."""
        return every_name(own_files(environ))

    def unseen(self) -> tuple[str, ...]:
        """Return what the plugin does not see."""
        return (
            "files named with `@` in a prompt are read without a call",
            "MCP servers and hooks of your own are started by the agent itself, outside of every "
            "call",
            "plugins in `~/.cline/plugins` are left out of the run; those of other places of "
            "yours run beside the broker's, and could undo it",
            "what the provider does itself, such as a search of the web, is no call",
            "where a page that is fetched leads on to is not asked",
            "once teammates were asked for, a new conversation in the same run is refused",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Make the folder of the run with the plugin in it, and look at the workspace.

        Raises:
            LaunchError: it cannot be made, or the workspace brings plugins or hooks.
        """
        arguments = options(launch.command)
        if _verb(arguments) in _HARMLESS or _LOOKS & set(arguments):
            return Prepared(launch.command)
        self._look_around(launch)
        runtime = launch.environ.get(_RUNTIME, "").strip() or shutil.which(
            "node", path=launch.environ.get("PATH", os.defpath)
        )
        if not runtime:
            raise LaunchError("Cline runs plugins with `node`, and there is none on the path")
        found = server_settings(launch.environ)
        named = found.get("mcpServers")
        self._dialect.know(named if isinstance(named, dict) else ())
        servers = with_gateways(found, launch)
        alone = self._alone(launch, arguments)
        home = launch.folder / HOME_NAME
        self._furnish(home, launch, servers, with_net=not alone or _asks())
        variables = {
            "CLINE_DIR": os.fspath(home),
            "CLINE_DATA_DIR": os.fspath(data_folder(launch.environ)),
            "CLINE_SESSION_BACKEND_MODE": "local",
            "CLINE_PLUGIN_IMPORT_TIMEOUT_MS": str(IMPORT_TIMEOUT_MS),
            _RUNTIME: os.path.abspath(runtime),
            _OPENS: "1" if alone else "0",
            **quiet_shell(launch.environ),
        }
        added = ["-c", os.path.realpath(launch.cwd)]
        rest = list(launch.command[1:])
        if alone:
            rest = without(rest, _APPROVE)
            added += [_APPROVE, "false"]
            self._plugged.awaited(SILENCE_S)
        fleeting: tuple[Path, ...] = ()
        if servers.settings is not None:
            fleeting = (launch.folder / SERVERS_NAME,)
            variables["CLINE_MCP_SETTINGS_PATH"] = os.fspath(fleeting[0])
        return Prepared(
            (launch.command[0], *added, *rest),
            variables,
            cwd=home,
            fleeting=fleeting,
            beside=servers.beside,
        )

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(launch, prepared, front)

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        if not self._ours:
            return None
        front = (launch.command[0], "-c", os.path.realpath(launch.cwd), _APPROVE, "false")
        return canary(front, bait)

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.forget()
        self._plugged.again()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def escaped(self) -> str | None:
        """Return why the plugin does not hold any more, or None."""
        if not self._ours:
            return None  # no model is asked, and nothing was prepared
        if stamp(self._ours) != self._ours_stamp:
            return f"the broker's files in `{self._ours[0].parent}` were changed during the run"
        now = stamp(self._places)
        if now != self._places_stamp:
            self._places_stamp = now
            why = unwelcome(self._places)
            if why is not None:
                return f"the workspace was changed during the run: {why}"
        return self._plugged.lost()

    def _look_around(self, launch: Launch) -> None:
        """Refuse a workspace that brings what runs outside of every call."""
        cwd = Path(os.path.realpath(launch.cwd))
        if cwd == Path(os.path.realpath(launch.environ.get("HOME") or "/")):
            raise LaunchError(f"`{cwd}` is your home: start it in a folder of the work")
        self._places = brought_along(cwd, Path(os.path.realpath(user_folder(launch.environ))))
        # Before it is looked at, so that no change is missed.
        self._places_stamp = stamp(self._places)
        why = unwelcome(self._places)
        if why is not None:
            raise LaunchError(f"the workspace cannot be held to a ticket: {why}")

    def _alone(self, launch: Launch, arguments: Sequence[str]) -> bool:
        """Return whether nobody is asked, nor could ask to be, before a call."""
        flags = set(arguments)
        if self.prompt(launch.command) is None or flags & (_SCREEN | _YOLO):
            return False
        typed = value_of(arguments, _APPROVE)
        return auto_approves(launch.environ) if typed is None else typed.lower().strip() == "true"

    def _furnish(self, home: Path, launch: Launch, servers: Servers, *, with_net: bool) -> None:
        """Write what the run needs."""
        name = f"zz-broker-{secrets.token_hex(16)}"  # plugins are loaded in order, the last counts
        plugin = home / PLUGINS / name
        client = launch.folder / CLIENT_NAME
        manifest = {
            "name": name,
            "type": "module",
            "cline": {"plugins": [{"paths": [PLUGIN_NAME]}]},
        }
        try:
            furnish(home, user_folder(launch.environ))
            plugin.mkdir(mode=0o700)
            self._plugged.put(__package__, PLUGIN_NAME, plugin)
            write_new(plugin / "package.json", json.dumps(manifest).encode())
            self._ours = (plugin / "package.json", plugin, home / PLUGINS)
            if servers.settings is not None:
                text = json.dumps(servers.settings, indent=1)
                write_new(launch.folder / SERVERS_NAME, text.encode())
            if with_net:
                command = hook_command(compiled_client(client), launch.socket, NAME, failed=_FAILED)
                self._ours = (*self._ours, put_net(home, command), client)
        except OSError as error:
            raise LaunchError(f"`{home}` cannot be made: {error.strerror}") from error
        self._ours_stamp = stamp(self._ours)


def _asks() -> bool:
    """Return whether Cline would ask a person for a tool that is closed, and not just refuse."""
    return os.isatty(0) and os.isatty(1)


def _verb(arguments: Sequence[str]) -> str:
    """Return the command that is given to Cline, or an empty text."""
    first = next(positional(arguments, _VALUED), "")
    return first if first in _HARMLESS | _LEADING | _OTHERS else ""
