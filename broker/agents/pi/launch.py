"""
Starts pi with the broker's extension in front of every tool call.

Decided here: which options are added to ``pi …``, and which invocations cannot be held to a
ticket. Not decided here: what the extension is answered (``hook``).

``--no-extensions`` keeps the extensions of the workspace out, which would run in pi's own process
before any call, and the user's with them; those that the person types (``-e``) come after ours,
and what ours has judged is frozen. A workspace's settings can still name packages to install, or
another shell: such a workspace is refused, and watched during the run.

Rules a maintainer keeps: pi knows no ``--``, so every word may be an option; what the person
typed is kept, or refused with a reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Bait, Canary, Launch, Prepared
from broker.agents.hooks import AgentHook
from broker.agents.models import Front, Redirected
from broker.agents.pi.canary import canary
from broker.agents.pi.hook import NAME, PiDialect
from broker.agents.pi.model import folder_of, redirected
from broker.agents.plugin import Plugged
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.home import every_name
from broker.service.server import Hook

EXTENSION_NAME: Final = "broker-pi.mjs"
SILENCE_S: Final = 45.0  # an extension that has not spoken by then is not there

_INSTALLERS: Final = frozenset(("install", "remove", "uninstall", "update"))
_HARMLESS: Final = frozenset(("list", "config"))  # no model is asked
_LOOKS: Final = frozenset(("-h", "--help", "-v", "--version", "--export", "--list-models"))
_CHOOSES: Final = frozenset(("-r", "--resume", "--session"))  # a person may be asked first
# What a workspace's settings may not say: it would run a program of its choice.
_RUNS: Final = ("packages", "npmCommand", "shellPath", "shellCommandPrefix")
_VALUED: Final = frozenset(
    (
        *("--mode", "--provider", "--model", "--api-key", "--system-prompt", "--session", "--fork"),
        *("--append-system-prompt", "--session-dir", "--models", "--tools", "-t", "--thinking"),
        *("--export", "--extension", "-e", "--skill", "--prompt-template", "--theme"),
        "--list-models",
    )
)
_FLAGS: Final = frozenset(
    (
        *("--help", "--version", "--continue", "--resume", "--no-session", "--no-tools"),
        *("--no-builtin-tools", "--no-extensions", "--no-skills", "--no-prompt-templates"),
        *("--no-themes", "--no-context-files", "--verbose", "--offline", "--print"),
    )
)


class PiLaunch:
    """One run of pi."""

    name = NAME
    tested = "0.73.1"
    point = "an extension in its process, before all others"
    trial: tuple[str, ...] = ()
    programs = frozenset(("pi",))

    def __init__(self) -> None:
        self._hook = AgentHook(PiDialect())
        self._plugged = Plugged(self._hook)
        self._settings: tuple[Path, ...] = ()
        self._stamp: object = None

    def check(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """
        Refuse what could not be held to the ticket.

        Raises:
            LaunchError: a command or an option runs what no call would show.
        """
        arguments = command[1:]
        if arguments and arguments[0] in _INSTALLERS:
            raise LaunchError(f"`pi {arguments[0]}` runs what no ticket would hold")
        for option, value in zip(arguments, (*arguments[1:], ""), strict=False):
            if option == "--mode" and value == "rpc":
                raise LaunchError("`--mode rpc` takes commands for a shell, without a call")
            if option in ("--session", "--fork") and (
                "/" in value or "\\" in value or value.endswith(".jsonl")
            ):
                raise LaunchError(
                    f"`{option} {value[:80]}` names a file: it may lead to another folder, whose "
                    "settings nobody looked at; name the session by its id"
                )

    def prompt(self, command: Sequence[str]) -> str | None:
        """
        Return the prompt on the command line.

        >>> PiLaunch().prompt(["pi", "-p", "--model", "x", "@notes.md", "fix the test"])
        'fix the test'
        """
        if len(command) > 1 and command[1] in _INSTALLERS | _HARMLESS:
            return None
        messages = list(_messages(command[1:]))
        return messages[0] if len(messages) == 1 and messages[0].strip() else None

    def own(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return pi's own settings and credentials, by every name they have."""
        folder = folder_of(environ)
        names = ("settings.json", "models.json", "auth.json", "extensions")
        return every_name(folder / name for name in names)

    def unseen(self) -> tuple[str, ...]:
        """Return what the extension does not see."""
        return (
            "files named with `@` on the command line are read without a call",
            "a command that you type yourself with `!` is yours, and no call",
            "extensions that you name with `-e` run inside pi and can do what pi can; all others "
            "are left out",
        )

    def prepare(self, launch: Launch) -> Prepared:
        """
        Put the extension into the session's folder, and name it before everything else.

        Raises:
            LaunchError: it cannot be written, or the workspace's settings run a program.
        """
        arguments = launch.command[1:]
        extension = self._plugged.put(__package__, EXTENSION_NAME, launch.folder)
        self._settings = (launch.cwd / ".pi" / "settings.json",)
        self._stamp = stamp(self._settings)
        why = runs_a_program(self._settings[0])
        if why is not None:
            raise LaunchError(f"`{self._settings[0]}` cannot be held to a ticket: {why}")
        if arguments and arguments[0] in _HARMLESS:
            return Prepared(launch.command)
        if not {*_LOOKS, *_CHOOSES} & set(arguments):
            self._plugged.awaited(SILENCE_S)
        added = ("--no-extensions", "-e", os.fspath(extension))
        return Prepared((launch.command[0], *added, *arguments))

    def through(self, launch: Launch, prepared: Prepared, front: Front) -> Redirected:
        """Point it at us; see ``model``."""
        return redirected(launch, prepared, front)

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        """Return how the canary is started, unless no model is asked; see ``canary``."""
        typed = launch.command[1:]
        added = len(prepared.command) - len(launch.command)
        if not added or _LOOKS & set(typed):
            return None
        return canary(prepared.command[: 1 + added], bait, typed)

    def rehearsed(self) -> None:
        """Forget what the canary did: from now on it is the run."""
        self._hook.again()
        self._plugged.again()

    def hooks(self) -> Mapping[str, Hook]:
        """Return the hook that the session's socket answers."""
        return {NAME: self._hook}

    def escaped(self) -> str | None:
        """Return why the extension does not hold any more, or None."""
        now = stamp(self._settings)
        if now != self._stamp:
            self._stamp = now
            why = runs_a_program(self._settings[0])
            if why is not None:
                return f"`{self._settings[0]}` was changed during the run: {why}"
        return self._plugged.lost()


def runs_a_program(settings: Path) -> str | None:
    """Return why a workspace's settings would run a program of its choice, or None."""
    try:
        found = json.loads(settings.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError):
        return "it cannot be read"
    if not isinstance(found, dict):
        return "it is not a JSON object"
    named = next((key for key in _RUNS if key in found), None)
    return None if named is None else f"its `{named}` would run a program of the workspace's choice"


def _messages(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words that are neither options, their values, nor files; as pi reads them."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        after = words[0] if words else None
        if word in _VALUED:
            words[:1] = []
        elif word.startswith("@") or word in _FLAGS:
            continue
        elif word.startswith("--"):
            # An extension's own option takes the next word, unless that looks like no value.
            if "=" not in word and after is not None and not after.startswith(("-", "@")):
                words[:1] = []
        elif not word.startswith("-"):
            yield word
