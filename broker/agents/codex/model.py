"""
Where Codex's model is, and how a run points it at a server of ours.

Decided here: which provider a run asks, by what was typed and what its configuration says, and
that the address is changed by ``-c``, beside the person's own. With an account of ChatGPT the
built-in provider has another address than with a key, so it is looked up which of the two it is.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.agents.adapter import Launch, Prepared
from broker.agents.models import OPENAI, Front, ModelAddress, Redirected, pointed
from broker.agents.settingsfile import plain_text

CHATGPT: Final = "https://chatgpt.com/backend-api/codex"
_BUILT_IN: Final = "openai"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_KEYS: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")


def redirected(
    launch: Launch, prepared: Prepared, front: Front, folder: Path, typed: Sequence[str]
) -> Redirected:
    """
    Return Codex, pointed at us, or why it is not.

    Args:
        launch: what is to be started.
        prepared: how.
        front: our address.
        folder: where Codex keeps its configuration.
        typed: what typed options set, as ``KEY=VALUE``; ``profile=NAME`` for a profile.
    """
    config = _config(folder, typed)
    name = config.get("model_provider", _BUILT_IN)
    if not isinstance(name, str) or not _PLAIN.match(name):
        return Redirected(prepared, off="its `model_provider` has a name of another shape")
    providers = config.get("model_providers")
    table = providers.get(name) if isinstance(providers, dict) else None
    if isinstance(table, dict):
        url, key = table.get("base_url"), table.get("env_key")
        if not isinstance(url, str):
            return Redirected(prepared, off=f"its provider `{name}` has no `base_url`")
        keys = [key] if isinstance(key, str) else []
        setting = f"model_providers.{name}.base_url"
        more = [f"model_providers.{name}.supports_websockets=false"]
    elif name == _BUILT_IN:
        given = config.get("openai_base_url")
        url = given if isinstance(given, str) else _built_in(launch.environ, folder)
        keys, setting, more = list(_KEYS), "openai_base_url", []
    else:
        return Redirected(prepared, off=f"its provider `{name}` is not one that is known")
    settings = [f"{setting}={json.dumps(front(name))}", *more]
    program, *rest = prepared.command
    words = [word for each in settings for word in ("-c", each)]
    pointing = replace(prepared, command=(program, *words, *rest))
    return pointed(pointing, [ModelAddress(name, url)], {}, launch.environ, keys)


def _config(folder: Path, typed: Sequence[str]) -> dict[str, object]:
    """Return the configuration of a run: what was typed, before a profile, before the rest."""
    found = _table(plain_text(folder / "config.toml") or "")
    given = list(_pairs(typed))
    profile = dict(given).get("profile", found.get("profile"))
    profiles = found.get("profiles")
    chosen = profiles.get(profile) if isinstance(profiles, dict) else None
    if isinstance(chosen, dict):
        found |= chosen
    for path, value in given:
        inner = found
        *above, last = path.split(".")
        for step in above:
            below = inner.get(step)
            inner[step] = inner = dict(below) if isinstance(below, dict) else {}
        inner[last] = value
    return found


def _pairs(typed: Sequence[str]) -> Iterator[tuple[str, object]]:
    for setting in typed:
        path, _, text = setting.partition("=")
        parsed = _table(f"value = {text}").get("value", text.strip())
        yield path.replace('"', "").replace(" ", ""), parsed


def _table(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}  # Codex says so itself, or takes it for a text


def _built_in(environ: Mapping[str, str], folder: Path) -> str:
    """Return the address of the built-in provider: with an account it is another one."""
    if environ.get("CODEX_API_KEY"):
        return OPENAI
    try:
        found = json.loads(plain_text(folder / "auth.json") or "{}")
    except (ValueError, RecursionError):
        found = {}
    auth = found if isinstance(found, dict) else {}
    with_account = bool(auth.get("tokens")) and not auth.get("OPENAI_API_KEY")
    return CHATGPT if with_account or auth.get("auth_mode") == "chatgpt" else OPENAI
