"""
Where Qwen Code's model is, and how a run points it at a server of ours.

Decided here: that what was typed counts before the environment, and that before the settings; and
that the address is changed by an option, which is the first of them. A table of providers in the
settings counts before all of these, and an account of Qwen's asks elsewhere: both are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.commandline import options, value_of, without
from broker.agents.models import Front, ModelAddress, Redirected, pointed
from broker.agents.settingsfile import read_settings

_BASE: Final = "OPENAI_BASE_URL"
_OPTION: Final = "--openai-base-url"
_KEY: Final = "OPENAI_API_KEY"
_OPENAI: Final = "openai"


def redirected(launch: Launch, prepared: Prepared, front: Front, folder: Path) -> Redirected:
    """
    Return Qwen Code, pointed at us, or why it is not.

    Args:
        launch: what is to be started.
        prepared: how.
        front: our address.
        folder: Qwen Code's own folder.

    Raises:
        LaunchError: an option has no value.
    """
    settings = read_settings(folder / "settings.json")[0]
    auth = _table(_table(settings.get("security")).get("auth"))
    arguments = options(launch.command)
    chosen = value_of(arguments, "--auth-type") or auth.get("selectedType") or _OPENAI
    if chosen != _OPENAI:
        return Redirected(prepared, off=f"it asks by `{chosen}`, and not by `{_OPENAI}`")
    if _table(settings.get("modelProviders")):
        return Redirected(prepared, off="its settings have `modelProviders`, which count first")
    url = value_of(arguments, _OPTION) or launch.environ.get(_BASE) or auth.get("baseUrl")
    if not isinstance(url, str) or not url:
        return Redirected(prepared, off=f"no address of its model is set: set `{_BASE}`")
    model = ModelAddress("openai", url)
    program, *rest = without(prepared.command, _OPTION)
    command = (program, _OPTION, front(model.name), *rest)
    variables = {_BASE: front(model.name)}
    return pointed(replace(prepared, command=command), [model], variables, launch.environ, [_KEY])


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
