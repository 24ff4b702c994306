"""
What the agents that are held by a plugin inside their own process share.

Decided here: what our plugins tell the session, how a refusal reaches them, how their files get
into a run, and when the run has lost its plugin. Not decided here: where an agent calls its
plugin (the ``.mjs`` file of its own room), and what its tools' arguments mean (its ``hook``).

A plugin says ``start`` once it is loaded, before any call; then each call, and its ``end``, for
which nothing waits. Its own process could
unload it, so a run whose plugin never speaks is stopped, and so is one whose plugin's files
change. What a plugin cannot ask, it refuses: see ``ask.mjs``.

Rules a maintainer keeps: the plugins stay short enough to be read in a minute, import nothing
but Node's own modules, and decide nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import Final, Protocol

from broker.agents.children import News, key_of
from broker.agents.client import write_new
from broker.agents.hooks import HookCall, Outcome, actor_of, caller_of, text_of
from broker.agents.watch import stamp
from broker.errors import InputError, LaunchError
from broker.service.protocol import HookRefusal, read_object
from broker.sessions.records import wellformed

CALL: Final = "call"
START: Final = "start"
END: Final = "end"
_CLIENT: Final = "ask.mjs"


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a plugin said: a call, or that it is there and which MCP servers there are."""

    call: HookCall
    servers: tuple[str, ...] = ()


def read_spoken(payload: bytes) -> Spoken:
    """
    Read what a plugin wrote.

    >>> read_spoken(b'{"event":"start"}').call.event
    'start'

    Raises:
        InputError: an event that no plugin of ours has, or a field is missing.
    """
    found = read_object(payload)
    event = text_of(found, "event")
    if event == START:
        return Spoken(HookCall(event), _names(found.get("servers", [])))
    if event == END:
        ended, call = found.get("ended"), text_of(found, "call")
        news = News("ended", key_of(ended)) if isinstance(ended, str) else None
        outcome = Outcome(call, found.get("ok") is True, found.get("output"))
        return Spoken(HookCall(event, news=news, ended=outcome))
    if event != CALL:
        raise InputError(f"the broker does not answer the event `{event}`")
    arguments = found.get("arguments")
    if not isinstance(arguments, dict):
        raise InputError("the plugin's call has no `arguments`")
    return Spoken(
        HookCall(
            event,
            text_of(found, "tool"),
            arguments,
            text_of(found, "call"),
            text_of(found, "cwd"),
            None,
            actor_of(found.get("agent"), found.get("kind")),
            _caller(found),
        )
    )


def refused(reason: str) -> HookRefusal:
    """Return a refusal as our plugins read it: the reason, and nothing around it."""
    return HookRefusal(0, wellformed(reason).encode(), b"")


def respelled(arguments: dict[str, object], names: dict[str, str]) -> dict[str, object]:
    """
    Return the arguments of a tool under the names that the same tool has elsewhere.

    >>> respelled({"filePath": "a", "limit": 2}, {"filePath": "path"})
    {'path': 'a', 'limit': 2}

    Raises:
        InputError: an argument would take the place of another.
    """
    for given, known in names.items():
        if given in arguments and known in arguments:
            raise InputError(f"a call has both `{given}` and `{known}`: only one of them is read")
    return {names.get(name, name): value for name, value in arguments.items()}


class Spoke(Protocol):
    """What knows whether the plugin has said that it is there."""

    started: Event


class Plugged:
    """The plugin of one run: its files, and whether it is still there."""

    def __init__(self, hook: Spoke) -> None:
        self._hook = hook
        self._files: tuple[Path, ...] = ()
        self._stamp: object = None
        self._within_s = self._until_s = float("inf")

    def put(self, package: str, name: str, folder: Path) -> Path:
        """
        Copy a plugin into the session's folder, which is closed to tools, and return its place.

        Raises:
            LaunchError: it cannot be written.
        """
        plugin = folder / name
        try:
            write_new(folder / _CLIENT, files("broker.agents").joinpath(_CLIENT).read_bytes())
            write_new(plugin, files(package).joinpath(name).read_bytes())
        except OSError as error:
            raise LaunchError(f"`{plugin}` cannot be written: {error.strerror}") from error
        self._files = (plugin, folder / _CLIENT)
        self._stamp = stamp(self._files)
        return plugin

    def awaited(self, within_s: float) -> None:
        """From now on the plugin has that long to say that it is there."""
        self._within_s = within_s
        self._until_s = time.monotonic() + within_s

    def again(self) -> None:
        """From now on it must speak anew: another process loads it."""
        self._hook.started.clear()
        self._until_s = time.monotonic() + self._within_s

    def lost(self) -> str | None:
        """Return why the plugin does not hold the agent any more, or None."""
        if stamp(self._files) != self._stamp:
            return f"the broker's plugin in `{self._files[0].parent}` was changed during the run"
        if time.monotonic() > self._until_s and not self._hook.started.is_set():
            return f"the agent did not load the broker's plugin within {self._within_s:.0f} s"
        return None


def _caller(found: dict[str, object]) -> News:
    """Return who calls; a subagent without a parent was started by the main agent."""
    agent, parent, task = (found.get(name) for name in ("agent", "parent", "task"))
    above = key_of(parent if isinstance(parent, str) else None)
    told = task if isinstance(task, str) else ""
    return caller_of(agent, found.get("kind"), above, task=told)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise InputError("the plugin's `servers` are not a list of names")
    return tuple(value)
