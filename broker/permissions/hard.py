"""
The hard layer: what no mode lifts.

Decided here: that a call which is catastrophic, reaches for credentials, writes what controls an
agent, leaves the workspace or goes to a link-local address does not run, whatever a ticket allows
and whoever says yes. Not decided here: which names these are (``places``, ``commands``).

Rules a maintainer keeps: a pure function of the call as it was resolved, so links have been
followed; every reason names what it is about; a call that could not be read does not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.calls import Call, PathSubject
from broker.permissions.commands import catastrophe, link_local
from broker.permissions.places import controls_agents, holds_credentials

_MAX_TEXTS: Final = 64  # command texts that are looked at in one call
_COMMANDS: Final = frozenset(
    ["argv", "cmd", "code", "command", "command_line", "commands", "script"]
)


def hard_refusal(call: Call, arguments: Mapping[str, object]) -> str | None:
    """
    Return why a call must not run in any mode, or None.

    Args:
        call: what the resolver made of the tool and its arguments.
        arguments: the arguments themselves; of a call whose effects cannot be seen, those named
            like a command are looked at as one. What is posted or searched for is no command.

    >>> hard_refusal(Call("shell", opaque=True), {"command": "rm -rf ~"})
    'it removes `~` with everything below it'
    """
    if call.fault is not None:
        return f"it cannot be read: {call.fault.reason}"
    for subject in call.paths:
        why = _path(subject, guessed=call.opaque)
        if why is not None:
            return why
    for url in call.urls:
        if link_local(url.host):
            return f"`{url.host}` is a link-local address"
    if call.opaque:
        named = [value for name, value in arguments.items() if name.casefold() in _COMMANDS]
        texts = list(dict.fromkeys(_texts([*named, call.command or ""])))
        if len(texts) > _MAX_TEXTS:
            return f"it holds more than {_MAX_TEXTS} texts, any of which may be a command"
        for text in texts:
            if (why := catastrophe(text)) is not None:
                return why
    for inner in call.nested:
        if (why := hard_refusal(inner, {"command": inner.command or ""})) is not None:
            return why
    return None


def _path(subject: PathSubject, *, guessed: bool) -> str | None:
    """Return what is wrong with a path; of a tool that nobody knows, paths are only guessed."""
    if subject.own:
        return f"`{subject.spelled}` belongs to the broker"
    if not subject.places and holds_credentials(subject.resolved or subject.spelled):
        return f"`{subject.spelled}` holds credentials"
    if not subject.places and not guessed:
        return f"`{subject.spelled}` lies outside the workspace"
    writes = subject.access == "write"
    for place in subject.places:
        if holds_credentials(place):
            return f"`{subject.spelled}` holds credentials"
        if writes and (subject.inner_git or controls_agents(place)):
            return f"`{subject.spelled}` controls an agent, or runs by itself"
    return None


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list | tuple):
        # A list of words is a command too.
        words = [item for item in value if isinstance(item, str)]
        joined = [" ".join(words)] if len(words) > 1 else []
        return [*joined, *(text for item in value for text in _texts(item))]
    return []
