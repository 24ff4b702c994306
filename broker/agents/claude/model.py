"""
Where Claude Code's model is, and how a run points it at a server of ours.

Decided here: that ``ANTHROPIC_BASE_URL`` says it, which settings win over the environment, and
which settings mean another provider. A key of the environment is replaced by a token where
nobody is there to be asked about it: before a person Claude Code asks whether a key that it has
not seen may be used, and a token is a new one for each run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.claude.settings import truthy, user_settings
from broker.agents.client import write_new
from broker.agents.commandline import options, value_of, without
from broker.agents.models import ANTHROPIC, Front, ModelAddress, Redirected, pointed
from broker.agents.settingsfile import parse_settings, read_settings
from broker.errors import LaunchError

_BASE: Final = "ANTHROPIC_BASE_URL"
_SETTINGS: Final = "--settings"
_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_ELSEWHERE: Final = (
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    *("CLAUDE_CODE_USE_MANTLE", "ANTHROPIC_UNIX_SOCKET"),
)


def redirected(launch: Launch, prepared: Prepared, front: Front) -> Redirected:
    """
    Return Claude Code, pointed at us, or why it is not.

    Raises:
        LaunchError: the settings of the run cannot be written.
    """
    arguments = options(launch.command)
    named = _named(launch, value_of(arguments, _SETTINGS))
    environ = {**launch.environ, **named}
    elsewhere = next((name for name in _ELSEWHERE if truthy(environ.get(name))), None)
    if elsewhere is not None:
        return Redirected(
            prepared, off=f"`{elsewhere}` is set, and its model is another provider's"
        )
    model = ModelAddress("anthropic", environ.get(_BASE) or ANTHROPIC)
    variables = {_BASE: front(model.name)}
    alone = any(word in ("-p", "--print") for word in arguments)
    keys = [name for name in _KEYS if name not in named and (alone or name != _KEYS[0])]
    found = pointed(prepared, [model], variables, launch.environ, keys)
    if _BASE not in named:
        return found
    return Redirected(_in_settings(launch, found.prepared, variables), found.models)


def _named(launch: Launch, typed: str | None) -> dict[str, str]:
    """Return the variables that settings set; they win over the environment."""
    tables = [read_settings(path)[0] for path in user_settings(launch.environ)]
    if typed is not None:
        inline = typed.lstrip().startswith("{")
        tables.append((parse_settings(typed) if inline else read_settings(Path(typed)))[0])
    found: dict[str, str] = {}
    for table in tables:
        variables = table.get("env")
        for name, value in variables.items() if isinstance(variables, dict) else ():
            found[name] = value if isinstance(value, str) else json.dumps(value)
    return found


def _in_settings(launch: Launch, prepared: Prepared, variables: Mapping[str, str]) -> Prepared:
    """Put variables where they win over the person's settings: in those of the command line."""
    typed = value_of(options(prepared.command), _SETTINGS)
    ours = typed is not None and Path(typed).parent == launch.folder
    settings: dict[str, object] = {}
    if typed is not None:
        inline = typed.lstrip().startswith("{")
        settings = (parse_settings(typed) if inline else read_settings(Path(typed)))[0]
    table = settings.get("env")
    settings["env"] = {**(table if isinstance(table, dict) else {}), **variables}
    if not ours or typed is None:
        program, *rest = without(prepared.command, _SETTINGS)
        return replace(prepared, command=(program, _SETTINGS, json.dumps(settings), *rest))
    fresh = Path(typed).with_suffix(".new")
    try:
        write_new(fresh, json.dumps(settings, indent=1).encode())
        os.replace(fresh, typed)
    except OSError as error:
        raise LaunchError(f"`{typed}` cannot be written: {error.strerror}") from error
    return prepared
