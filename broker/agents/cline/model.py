"""
Where Cline CLI's model is, and how a run points it at a server of ours.

Decided here: that the provider of a run stands in a file beside its key, so that a run gets a copy
of that file with another address, which goes when the run is over. A provider that Cline signs in
to renews what it has signed in with in that same file, so such a one is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.client import write_new
from broker.agents.cline.home import data_folder
from broker.agents.commandline import options, value_of
from broker.agents.models import ANTHROPIC, OPENAI, Front, ModelAddress, Redirected, pointed
from broker.agents.settingsfile import read_settings
from broker.errors import LaunchError

PROVIDERS_NAME: Final = "cline-providers.json"
_VARIABLE: Final = "CLINE_PROVIDER_SETTINGS_PATH"
_KNOWN: Final[Mapping[str, str]] = {"anthropic": ANTHROPIC, "openai-native": OPENAI}


def redirected(launch: Launch, prepared: Prepared, front: Front) -> Redirected:
    """
    Return Cline CLI, pointed at us, or why it is not.

    Raises:
        LaunchError: the copy cannot be written, or an option has no value.
    """
    arguments = options(launch.command)
    given = launch.environ.get(_VARIABLE, "").strip()
    path = Path(given) if given else data_folder(launch.environ) / "settings" / "providers.json"
    found = read_settings(path)[0]
    typed = value_of(arguments, "-P") or value_of(arguments, "--provider")
    name = typed or found.get("lastUsedProvider")
    providers = found.get("providers")
    entry = providers.get(name) if isinstance(providers, dict) else None
    row = entry if isinstance(entry, dict) else {}
    settings = row.get("settings")
    if not isinstance(settings, dict) or not isinstance(name, str):
        return Redirected(prepared, off="which provider it asks is not set")
    url = settings.get("baseUrl") or _KNOWN.get(name)
    if not isinstance(url, str) or not settings.get("apiKey"):
        return Redirected(prepared, off=f"its provider `{name}` is asked by a sign-in")
    model = ModelAddress("provider", url)
    pointing = {**settings, "baseUrl": front(model.name)}
    copy = {**found, "providers": {name: {**row, "settings": pointing}}}
    place = launch.folder / PROVIDERS_NAME
    try:
        write_new(place, json.dumps(copy).encode())
    except OSError as error:
        raise LaunchError(f"`{place}` cannot be written: {error.strerror}") from error
    kept = replace(prepared, fleeting=(*prepared.fleeting, place))
    return pointed(kept, [model], {_VARIABLE: str(place)}, launch.environ)
