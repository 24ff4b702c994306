"""
Starts Gemini CLI with the broker's hooks around every tool call.

Decided here: what is added to ``gemini …``, which invocations cannot be held to a ticket, and
when a run has slipped away. Not decided here: what the hooks answer
(``broker.agents.gemini.answers``), how they get into its settings (``home``), and which settings
of others keep them from running (``settings``).

Gemini CLI runs a call when its hook fails in most ways, so the hook's command ends in exit code 2
and a text, which refuses. A workspace that it trusts may switch hooks off, add hooks that change
a call after it was decided, and set variables that reach a hook's shell: the run does not start
then, and is stopped when such a thing appears. Folder trust and the sandbox are fixed for the
run, because without the one, or within the other, no hook runs.

Rules a maintainer keeps: nothing of the person's is edited; what the person typed is kept, or
refused with a reason, never dropped.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.client import CLIENT_NAME, TIMEOUT_S, compiled_client, hook_command, quiet_shell
from broker.agents.commandline import options, value_of
from broker.agents.gemini.answers import GeminiHook
from broker.agents.gemini.canary import canary
from broker.agents.gemini.home import HOME_NAME, furnish, names_hooks, with_hooks
from broker.agents.gemini.hook import NAME
from broker.agents.gemini.model import redirected
from broker.agents.gemini.settings import (
    FOLDER,
    SETTINGS,
    TRUST,
    Settings,
    brought_along,
    environment_files,
    home_of,
    kept_off,
    machine_settings,
    read_settings,
    trust_list,
    trusts,
    unwelcome_variable,
)
from broker.agents.models import Front, Redirected
from broker.agents.servers import behind_gateway, beside_gateway
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

SILENCE_S: Final = 45.0  # a headless run whose hooks have not started by then has none
PROGRAMS_NAME: Final = "gemini-bin"

_SANDBOX: Final = "GEMINI_SANDBOX"
_SERVERS: Final = "--allowed-mcp-server-names"
# Without dashes and in small letters: it takes `--experimentalAcp` as well.
_FLAGS: Final = {
    "s": "what runs in its sandbox has no hook",
    "sandbox": "what runs in its sandbox has no hook",
    "w": "it works in a folder whose settings are not known yet",
    "worktree": "it works in a folder whose settings are not known yet",
    "acp": "another program says in which folder it works",
    "experimentalacp": "another program says in which folder it works",
}
_VALUED: Final = frozenset(
    (
        *("-m", "--model", "-p", "--prompt", "-i", "--prompt-interactive", "--approval-mode"),
        *("--policy", "--admin-policy", _SERVERS, "--allowed-tools", "-e", "--extensions", "-r"),
        *("--resume", "--session-file", "--session-id", "--delete-session", "-o"),
        *("--include-directories", "--output-format", "--fake-responses", "--record-responses"),
        "--fake-responses-non-strict",
    )
)
_COMMANDS: Final = frozenset(("mcp", "extensions", "extension", "skills", "skill", "hooks"))
_LOOKS: Final = frozenset(
    (
        *("-h", "--help", "-v", "--version", "-l", "--list-extensions", "--list-sessions"),
        "--delete-session",
    )
)
_CLUSTER: Final = re.compile(r"-[A-Za-z][^=.-]")
_OFF: Final = frozenset(("", "0", "false"))


class GeminiLaunch:
    """One run of Gemini CLI."""

    name = NAME
    tested = "0.61.0"
    point = "its `BeforeTool` and `AfterTool` hooks"
    trial = ("--skip-trust",)
    programs = frozenset(("gemini",))

    def __init__(self) -> None:
        self._hook = GeminiHook()
        self._ours: tuple[Path, ...] = ()
        self._ours_stamp = stamp(())
        self._settings: Settings = {}
        self._settings_path = Path()
        self._settings_stamp = stamp(())
        self._workspace = _Workspace(Path(), Path(), ())
        self._workspace_stamp = stamp(())
        self._headless = False
        self._begun_s = 0.0

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: an option, a variable or a settings file keeps the hooks from running.
        """
        for argument in options(command):
            why = _FLAGS.get(_plain(argument))
            if why is not None and not argument.endswith("=false"):
                raise LaunchError(f"`{argument}` cannot be held to a ticket: {why}")
            if _CLUSTER.match(argument):
                raise LaunchError(f"`{argument}`: write short options apart")
        if environ.get(_SANDBOX, "").strip().lower() not in _OFF:
            raise LaunchError(f"`{_SANDBOX}` is set: what runs in its sandbox has no hook")
        for path in _files(environ):
            why = kept_off(read_settings(path))
            if why is not None:
                raise LaunchError(f"`{path}` keeps the broker's hook from running: {why}")

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> GeminiLaunch().prompt(["gemini", "--yolo", "-p", "fix the test"])
        'fix the test'
        """
        before = options(command)
        for option in ("-p", "--prompt", "-i", "--prompt-interactive"):
            text = value_of(before, option)
            if text is not None:
                return text if text.strip() else None
        words = _apart(command)[1]
        text = " ".join(words)
        return text if text.strip() and words[0] not in _COMMANDS else None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the person's settings and credentials, by every name they have."""
        folder = home_of(environ) / FOLDER
        files = [folder / name for name in (SETTINGS, ".env", "oauth_creds.json", "extensions")]
        return every_name((*files, trust_list(environ)))

    def unseen(self) -> tuple[str, ...]:
        """Return what the hook does not see."""
        return (
            "files named with `@` in a prompt are read without a call",
            "MCP servers and hooks of your own settings and extensions are started by the agent "
            "itself, outside of every call",
            "a remote agent makes its calls on another machine: do not name `invoke_agent` in "
            "`tools` where one is set up",
            "settings that you change during the run, and a first sign-in, stay with the run",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Make a home with the hooks in the session's folder, and look at the workspace.

        Raises:
            LaunchError: it cannot be made, the workspace would free the agent, or Gemini CLI
                does not trust the folder and would run no hook in it.
        """
        arguments = options(launch.command)
        if _only_looks(launch.command):
            return Prepared(launch.command)
        self._look_around(launch, arguments)
        real = home_of(launch.environ)
        home, client = launch.folder / HOME_NAME, launch.folder / CLIENT_NAME
        programs = launch.folder / PROGRAMS_NAME
        search = launch.environ.get("PATH", os.defpath)
        bash = shutil.which("bash", path=search)
        if bash is None:
            raise LaunchError("`bash` cannot be found: Gemini CLI starts its hooks with it")
        try:
            command = hook_command(compiled_client(client), launch.socket, NAME)
            if "$" in command:
                raise LaunchError("the session's folder has a `$` in its name: Gemini CLI fills in")
            name = f"broker-{secrets.token_hex(16)}"
            own = dict(read_settings(real / FOLDER / SETTINGS))
            servers = _table(own.get("mcpServers"))
            gateways = behind_gateway(servers, launch)
            if gateways:
                own["mcpServers"] = {**servers, **gateways}
            self._settings = with_hooks(own, name, command, TIMEOUT_S * 1000)
            self._settings_path = furnish(home, real, self._settings)
            programs.mkdir(mode=0o700)
            (programs / "bash").symlink_to(os.path.abspath(bash))
        except OSError as error:
            raise LaunchError(f"`{home}` cannot be made: {error.strerror}") from error
        self._ours = (client, programs / "bash")
        self._ours_stamp = stamp(self._ours)
        self._settings_stamp = stamp((self._settings_path,))
        self._headless = any(a.partition("=")[0] in ("-p", "--prompt") for a in arguments)
        self._begun_s = time.monotonic()
        variables = {
            "GEMINI_CLI_HOME": os.fspath(home),
            TRUST: "true",  # as the person has it already; nothing may change it during the run
            "GEMINI_CLI_TRUSTED_FOLDERS_PATH": os.fspath(trust_list(launch.environ)),
            _SANDBOX: "false",
            **quiet_shell(launch.environ),
            "PATH": f"{programs}{os.pathsep}{search}",
        }
        return Prepared(
            launch.command,
            variables,
            fleeting=(self._settings_path,),
            beside=beside_gateway(servers, gateways),
        )

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(launch, prepared, front, machine_settings(launch.environ))

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        return canary(launch, bait, self._settings) if self._ours else None

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook = GeminiHook()
        self._begun_s = time.monotonic()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def escaped(self) -> str | None:
        """Return why the hook does not hold any more, or None."""
        if not self._ours:
            return None  # no model is asked, and nothing was prepared
        if self._hook.lost is not None:
            return self._hook.lost
        if stamp(self._ours) != self._ours_stamp:
            return f"the broker's hook in `{self._ours[0].parent}` was changed during the run"
        now = stamp((self._settings_path,))
        if now != self._settings_stamp:
            self._settings_stamp = now
            if not names_hooks(self._settings_path, self._settings):
                return f"`{self._settings_path}` was changed during the run"
        now = stamp(self._workspace.files)
        if now != self._workspace_stamp:
            self._workspace_stamp = now
            why = self._workspace.frees()
            if why is not None:
                return f"the workspace was changed during the run: {why}"
        silent_s = time.monotonic() - self._begun_s
        if self._headless and silent_s > SILENCE_S and not self._hook.started.is_set():
            return f"the agent did not start the broker's hook within {SILENCE_S:.0f} s"
        return None

    def _look_around(self, launch: Launch, arguments: Sequence[str]) -> None:
        """Refuse a workspace that would free the agent, or where no hook would run."""
        cwd, real = Path(os.path.realpath(launch.cwd)), home_of(launch.environ)
        self._workspace = _Workspace(cwd, real, _list_of(arguments, _SERVERS))
        # Before it is looked at, so that no change is missed.
        self._workspace_stamp = stamp(self._workspace.files)
        why = self._workspace.frees()
        if why is not None:
            raise LaunchError(f"the workspace cannot be held to a ticket: {why}")
        environ = dict(launch.environ)
        if "--skip-trust" in arguments:
            environ[TRUST] = "true"
        if not trusts(cwd, environ, [read_settings(path) for path in _files(environ)]):
            raise LaunchError(
                f"Gemini CLI does not trust `{cwd}` and would run no hook there: trust the "
                "folder in Gemini CLI, or add `--skip-trust`"
            )


class _Workspace:
    """
    What lies in and above the folder of a run, and could free the agent.

    ``files`` are all that matter; most of them are not there.
    """

    def __init__(self, cwd: Path, home: Path, servers: Sequence[str]) -> None:
        self._cwd = cwd
        self._home = home
        self._servers = servers
        self._settings = cwd / FOLDER / SETTINGS
        self.files = (self._settings, *environment_files(cwd, home))

    def frees(self) -> str | None:
        """Return what frees the agent, or None."""
        if self._cwd == Path(os.path.realpath(self._home)):
            return f"`{self._cwd}` is your home: start it in a folder of the work"
        try:
            why = brought_along(read_settings(self._settings), self._servers)
        except LaunchError as error:
            return str(error)
        if why is not None:
            return f"`{self._settings}`: {why}"
        return unwelcome_variable(self._cwd, self._home)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _plain(argument: str) -> str:
    """Return an option's name without its dashes and its value; empty for a word."""
    name = re.split("[=.]", argument, maxsplit=1)[0]
    return name.replace("-", "").lower() if name.startswith("-") else ""


def _files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the settings files of the machine and the person."""
    return (*machine_settings(environ), home_of(environ) / FOLDER / SETTINGS)


def _only_looks(command: Sequence[str]) -> bool:
    """Return whether no model is asked, and so no tool is called."""
    found, words = _apart(command)
    return bool(_LOOKS & set(found)) or (bool(words) and words[0] in _COMMANDS)


def _apart(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options without their values, and the words that are neither."""
    found: list[str] = []
    words: list[str] = []
    rest = list(command[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            return found, words + rest
        if word.startswith("-") and word != "-":
            found.append(word)
            rest = rest[1:] if word in _VALUED else rest
        else:
            words.append(word)
    return found, words


def _list_of(arguments: Sequence[str], option: str) -> tuple[str, ...]:
    """Return the values of an option that may stand several times, with commas in each."""
    found: list[str] = []
    for at, word in enumerate(arguments):
        if word == option and at + 1 < len(arguments):
            found += arguments[at + 1].split(",")
        elif word.startswith(option + "="):
            found += word[len(option) + 1 :].split(",")
    return tuple(name.strip() for name in found)
