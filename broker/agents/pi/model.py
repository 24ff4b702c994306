"""
Where pi's models are, and how a run points it at a server of ours.

Decided here: which of its providers are known: those whose address stands in the person's
``models.json``, and three whose address is well known. Their addresses are changed by our own
extension, which every run of pi under a ticket has: pi keeps a provider's models when an extension
names another address for it. Without that extension pi is left alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.models import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    Front,
    ModelAddress,
    Redirected,
    pointed,
)
from broker.agents.settingsfile import read_settings

VARIABLE: Final = "BROKER_PI_MODELS"  # our extension reads it
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": (ANTHROPIC, "ANTHROPIC_API_KEY"),
    "openai": (OPENAI, "OPENAI_API_KEY"),
    "google": (f"{GEMINI}/v1beta", "GEMINI_API_KEY"),
}


def redirected(launch: Launch, prepared: Prepared, front: Front) -> Redirected:
    """Return pi, pointed at us, or why it is not."""
    if prepared.command == launch.command:
        return Redirected(prepared, off="it is pointed at us by an extension, and has none here")
    models = list(_models(launch.environ))
    urls = json.dumps({model.name: front(model.name) for model in models})
    keys = [_KNOWN[m.name][1] for m in models if m.name in _KNOWN]
    return pointed(prepared, models, {VARIABLE: urls}, launch.environ, keys)


def folder_of(environ: Mapping[str, str]) -> Path:
    """Return pi's own folder."""
    home = environ.get("HOME") or "/"
    given = environ.get("PI_CODING_AGENT_DIR")
    if not given:
        return Path(home) / ".pi" / "agent"
    return Path(os.path.abspath(home + given[1:] if given.startswith("~") else given))


def _models(environ: Mapping[str, str]) -> Iterator[ModelAddress]:
    named = read_settings(folder_of(environ) / "models.json")[0].get("providers")
    given = named if isinstance(named, dict) else {}
    for name in dict.fromkeys((*given, *_KNOWN)):
        entry = given.get(name)
        url = entry.get("baseUrl") if isinstance(entry, dict) else None
        if not isinstance(url, str):
            url = _KNOWN.get(name, ("", ""))[0]
        if url and _PLAIN.match(name):
            yield ModelAddress(name, url)
