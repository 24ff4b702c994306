"""
Where opencode's models are, and how a run points it at a server of ours.

Decided here: which of its providers are known: those whose address the person configured, and
three whose address is well known, where the person has a key for them. Each gets the address of
ours in ``OPENCODE_CONFIG_CONTENT``, beside the person's own configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.models import ANTHROPIC, GEMINI, OPENAI, Front, ModelAddress, Redirected, pointed
from broker.agents.opencode.settings import providers
from broker.agents.settingsfile import read_settings

_CONTENT: Final = "OPENCODE_CONFIG_CONTENT"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_FILLED: Final = re.compile(r"\{env:([^}]+)\}")
# The address, and the variables that hold a key for it and nothing else.
_KNOWN: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "anthropic": (f"{ANTHROPIC}/v1", ("ANTHROPIC_API_KEY",)),
    "openai": (OPENAI, ("OPENAI_API_KEY",)),
    "google": (f"{GEMINI}/v1beta", ("GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY")),
}


def redirected(launch: Launch, prepared: Prepared, front: Front) -> Redirected:
    """Return opencode, pointed at us, or why it is not."""
    configured = providers({**launch.environ, **prepared.environ})
    models: list[ModelAddress] = []
    keys: list[str] = []
    for name in dict.fromkeys((*configured, *_KNOWN)):
        if not _PLAIN.match(name):
            continue
        url, names = _address(name, configured.get(name), launch.environ)
        if url:
            models.append(ModelAddress(name, url))
            keys += names
    if not models:
        return Redirected(prepared, off="none of its providers has an address that is known")
    content = json.loads(prepared.environ.get(_CONTENT) or launch.environ.get(_CONTENT) or "{}")
    table = content.setdefault("provider", {})
    for model in models:
        provider = table.setdefault(model.name, {})
        provider.setdefault("options", {})["baseURL"] = front(model.name)
    variables = {_CONTENT: json.dumps(content)}
    return pointed(prepared, models, variables, launch.environ, keys)


def _address(
    name: str, options: Mapping[str, object] | None, environ: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Return where a provider is, if that is known, and the variables with a key for it."""
    given = None if options is None else options.get("baseURL")
    url, names = _KNOWN.get(name, ("", ()))
    keys = tuple(variable for variable in names if environ.get(variable))
    if isinstance(given, str):
        return _FILLED.sub(lambda m: environ.get(m[1], ""), given), keys
    if name == "anthropic" and environ.get("ANTHROPIC_BASE_URL"):
        return environ["ANTHROPIC_BASE_URL"], keys
    # One that the person has no key for is left alone, since naming it would offer its models.
    has_key = bool(keys) or name in read_settings(_auth_file(environ))[0]
    return (url, keys) if has_key or options is not None else ("", ())


def _auth_file(environ: Mapping[str, str]) -> Path:
    data = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or "/") / ".local/share"
    return Path(data) / "opencode" / "auth.json"
