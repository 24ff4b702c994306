"""
What the agents that are proved to work within the walls need for themselves.

Decided here: which agents these are, and for each its own folders and its model's hosts. Not
decided here: how they are given (``walled``). What an agent reads when it starts again (its
settings, plugins, hooks) is read-only, since a tool within the same walls could write it; what it
keeps of a conversation is writable; all else is private to the run and gone with it.

Rules a maintainer keeps: an agent stands here only when a test runs the real one within the
walls; a way of reaching a model that is not known here gives None, so that ``auto`` leaves the
walls off and says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.agents.adapter import Plain
from broker.agents.claude.hook import NAME as CLAUDE
from broker.agents.claude.settings import config_folder, truthy
from broker.agents.codex.hook import NAME as CODEX
from broker.hosts import UrlError, read_url
from broker.limits import MAX_SETTINGS_BYTES
from broker.sandbox.walled import Needs

_CLAUDE_HOSTS: Final = ("api.anthropic.com", "platform.claude.com", "console.anthropic.com")
_CLAUDE_READS: Final = (
    *("settings.json", "CLAUDE.md", "commands", "agents", "skills", "plugins", "rules"),
    *("output-styles", "hooks", "keybindings.json", "workflows"),
)
_CLAUDE_WRITES: Final = (".credentials.json", "projects", "todos", "file-history", "history.jsonl")
_ELSEWHERE: Final = (
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    "ANTHROPIC_UNIX_SOCKET",
)
_CODEX_HOSTS: Final = ("api.openai.com", "chatgpt.com", "auth.openai.com")
_CODEX_READS: Final = (
    *("config.toml", "AGENTS.md", "prompts", "skills", "rules", "hooks.json", "version.json"),
    "plugins",
)
_CODEX_WRITES: Final = (
    *("auth.json", "sessions", "archived_sessions", "history.jsonl", "installation_id"),
)


def needs_of(agent: str, environ: Mapping[str, str]) -> Needs | None:
    """
    Return what an agent needs, or None for one that is not proved to work within walls.

    >>> needs_of("claude-code", {"HOME": "/h"}).hosts[0]
    'api.anthropic.com'
    >>> needs_of("gemini-cli", {}) is None
    True
    """
    found = _AGENTS.get(agent)
    return None if found is None else found(environ)


def _plain(_: Mapping[str, str]) -> Needs | None:
    return Needs()


def _claude(environ: Mapping[str, str]) -> Needs | None:
    if any(truthy(environ.get(name)) for name in _ELSEWHERE):
        return None
    folder = config_folder(environ)
    base = environ.get("ANTHROPIC_BASE_URL")
    hosts = tuple(_hosts([base])) if base else _CLAUDE_HOSTS
    # Claude Code keeps its state beside its folder, unless the folder is named: then within it.
    beside = folder if environ.get("CLAUDE_CONFIG_DIR") else folder.parent
    state = _text(beside / ".claude.json")
    return Needs(
        (str(folder),),
        tuple(str(folder / name) for name in _CLAUDE_READS),
        tuple(str(folder / name) for name in _CLAUDE_WRITES),
        hosts,
        {"CLAUDE_CONFIG_DIR": str(folder)},
        {} if state is None else {str(folder / ".claude.json"): state},
    )


def _codex(environ: Mapping[str, str]) -> Needs | None:
    given = environ.get("CODEX_HOME")
    folder = Path(given) if given else Path(environ.get("HOME") or "/") / ".codex"
    urls = [url for name in ("OPENAI_BASE_URL",) if (url := environ.get(name))]
    try:
        settings = tomllib.loads(_text(folder / "config.toml") or "")
    except tomllib.TOMLDecodeError:
        return None
    providers = settings.get("model_providers", {})
    for provider in providers.values() if isinstance(providers, dict) else ():
        url = provider.get("base_url") if isinstance(provider, dict) else None
        urls += [url] if isinstance(url, str) else []
    return Needs(
        (str(folder),),
        tuple(str(folder / name) for name in _CODEX_READS),
        tuple(str(folder / name) for name in _CODEX_WRITES),
        (*_CODEX_HOSTS, *_hosts(urls)),
    )


_AGENTS: Final[Mapping[str, Callable[[Mapping[str, str]], Needs | None]]] = {
    Plain.name: _plain,
    CLAUDE: _claude,
    CODEX: _codex,
}


def _hosts(urls: Iterable[str]) -> Iterator[str]:
    for text in urls:
        try:
            url = read_url(text)
        except UrlError:
            continue  # the agent cannot reach it either
        yield f"{url.host}:{url.port}"


def _text(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) <= MAX_SETTINGS_BYTES else None
