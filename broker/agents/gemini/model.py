"""
Where Gemini CLI's model is, and how a run points it at a server of ours.

Decided here: that only a key asks the public address, which ``GOOGLE_GEMINI_BASE_URL`` names; an
account of Google's, and Vertex, are asked elsewhere and left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.gemini.settings import FOLDER, SETTINGS, Settings, home_of, read_settings
from broker.agents.models import GEMINI, Front, ModelAddress, Redirected, pointed
from broker.agents.settingsfile import plain_text

_BASE: Final = "GOOGLE_GEMINI_BASE_URL"
_KEY: Final = "GEMINI_API_KEY"
_BY_KEY: Final = "gemini-api-key"
_SAID: Final = re.compile(rf"^\s*(?:export\s+)?{_BASE}\s*[=:]", re.MULTILINE)


def redirected(
    launch: Launch, prepared: Prepared, front: Front, machine: Sequence[Path]
) -> Redirected:
    """
    Return Gemini CLI, pointed at us, or why it is not.

    Args:
        launch: what is to be started.
        prepared: how.
        front: our address.
        machine: the settings files of the machine, which count before the person's.

    Raises:
        LaunchError: settings cannot be read.
    """
    home = home_of(launch.environ)
    chosen = _chosen(
        launch.environ, [read_settings(path) for path in (*machine, home / FOLDER / SETTINGS)]
    )
    if chosen != _BY_KEY:
        return Redirected(prepared, off=f"it asks by `{chosen}`, and not by a key for Gemini")
    for path in (home / FOLDER / ".env", home / ".env"):
        if _BASE not in launch.environ and _SAID.search(plain_text(path) or ""):
            return Redirected(prepared, off=f"`{path}` sets `{_BASE}`: export it instead")
    model = ModelAddress("gemini", launch.environ.get(_BASE) or GEMINI)
    return pointed(prepared, [model], {_BASE: front(model.name)}, launch.environ, [_KEY])


def _chosen(environ: Mapping[str, str], settings: Sequence[Settings]) -> str:
    """Return the way to ask that is chosen by settings, else by the environment."""
    for each in settings:
        security = each.get("security")
        auth = security.get("auth") if isinstance(security, dict) else None
        chosen = auth.get("selectedType") if isinstance(auth, dict) else None
        chosen = chosen or each.get("selectedAuthType")
        if isinstance(chosen, str) and chosen:
            return chosen
    if environ.get("GOOGLE_GENAI_USE_GCA") == "true":
        return "oauth-personal"
    if environ.get("GOOGLE_GENAI_USE_VERTEXAI") == "true":
        return "vertex-ai"
    return _BY_KEY if environ.get(_KEY) else "an account"
