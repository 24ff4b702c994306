"""
What the agents that are proved to work within the walls need for themselves.

Decided here: which agents these are, and for each its own folders and its model's hosts. Not
decided here: how they are given (``walled``). What an agent reads when it starts again (its
settings, plugins, hooks) is read-only, since a tool within the same walls could write it; what it
keeps of a conversation is writable, where that is a folder or one file: a file of a database has
others beside it, and would be broken without them. All else is private to the run and gone with it.

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
from broker.agents.models import ANTHROPIC, GEMINI, OPENAI
from broker.agents.settingsfile import read_settings
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
_QWEN_READS: Final = (
    *("settings.json", ".env", "QWEN.md", "extensions", "agents", "skills", "commands", "rules"),
    *("trustedFolders.json", "output-language.md", "installation_id"),
)
_GEMINI_READS: Final = (
    *("settings.json", ".env", "GEMINI.md", "extensions", "agents", "skills", "commands"),
    *("trustedFolders.json", "policies", "installation_id"),
)
_OPENCODE_READS: Final = (
    *("config.json", "opencode.json", "opencode.jsonc", "AGENTS.md", "agent", "agents", "command"),
    *("commands", "plugin", "plugins", "skill", "skills", "themes", "tool", "tools", "modes"),
)
_PI_READS: Final = (
    *("settings.json", "models.json", "AGENTS.md", "SYSTEM.md", "prompts", "skills", "themes"),
    *("keybindings.json", "extensions", "tools", "bin"),
)
_COPILOT_READS: Final = (
    *("settings.json", "config.json", "mcp-config.json", "hooks", "agents", "skills", "plugins"),
    *("installed-plugins", "permissions-config.json", "copilot-instructions.md", "pkg"),
)


def needs_of(agent: str, environ: Mapping[str, str]) -> Needs | None:
    """
    Return what an agent needs, or None for one that is not proved to work within walls.

    >>> needs_of("claude-code", {"HOME": "/h"}).hosts[0]
    'api.anthropic.com'
    >>> needs_of("aider", {}) is None
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


def _qwen(environ: Mapping[str, str]) -> Needs | None:
    from broker.agents.qwen.launch import config_folder  # noqa: PLC0415  one agent is started

    folder = config_folder(environ)
    settings = read_settings(folder / "settings.json")[0]
    base = environ.get("OPENAI_BASE_URL") or _part(settings, "security", "auth").get("baseUrl")
    if not isinstance(base, str) or _part(settings, "modelProviders"):
        return None
    return Needs(
        (str(folder),),
        _in(folder, _QWEN_READS),
        _in(folder, ("projects", "history", "todos")),
        tuple(_hosts([base])),
    )


def _gemini(environ: Mapping[str, str]) -> Needs | None:
    from broker.agents.gemini.home import HOME_NAME  # noqa: PLC0415
    from broker.agents.gemini.settings import FOLDER, home_of, read_settings  # noqa: PLC0415

    folder = home_of(environ) / FOLDER
    auth = _part(read_settings(folder / "settings.json"), "security", "auth").get("selectedType")
    if auth != "gemini-api-key" and (auth or not environ.get("GEMINI_API_KEY")):
        return None
    # Its home is one of the run's own, with links to what the person has.
    return Needs(
        (str(folder),),
        _in(folder, _GEMINI_READS),
        _in(folder, ("tmp", "history")),
        tuple(_hosts([environ.get("GOOGLE_GEMINI_BASE_URL") or GEMINI])),
        lent=(f"{HOME_NAME}/{FOLDER}",),
        kept=(f"{HOME_NAME}/{FOLDER}/settings.json",),
    )


def _opencode(environ: Mapping[str, str]) -> Needs | None:
    from broker.agents.opencode.settings import folders, providers  # noqa: PLC0415

    home = Path(environ.get("HOME") or "/")
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / "opencode"
    state = Path(environ.get("XDG_STATE_HOME") or home / ".local/state") / "opencode"
    urls = [options.get("baseURL") for options in providers(environ).values()]
    hosts = _models(environ, urls)
    if not hosts:
        return None
    own = folders(environ)
    return Needs(
        (*map(str, own), str(data), str(state)),
        tuple(place for folder in own for place in _in(folder, _OPENCODE_READS)),
        _in(data, ("auth.json", "storage", "snapshot")),
        hosts,
    )


def _pi(environ: Mapping[str, str]) -> Needs | None:
    from broker.agents.pi.model import folder_of  # noqa: PLC0415

    folder = folder_of(environ)
    providers = _part(read_settings(folder / "models.json")[0], "providers")
    urls = [entry.get("baseUrl") for entry in providers.values() if isinstance(entry, dict)]
    hosts = _models(environ, urls)
    if not hosts:
        return None
    return Needs(
        (str(folder),), _in(folder, _PI_READS), _in(folder, ("auth.json", "sessions")), hosts
    )


def _copilot(environ: Mapping[str, str]) -> Needs | None:
    from broker.agents.copilot.settings import user_folder  # noqa: PLC0415

    base = environ.get("COPILOT_PROVIDER_BASE_URL")
    if not base:
        return None  # GitHub gives its models, at addresses that nobody here has tried
    folder = user_folder(environ)
    return Needs(
        (str(folder),),
        _in(folder, _COPILOT_READS),
        _in(folder, ("session-state",)),
        tuple(_hosts([base])),
    )


def _cline(environ: Mapping[str, str]) -> Needs | None:
    from broker.agents.cline.home import data_folder, user_folder  # noqa: PLC0415

    folder, data = user_folder(environ), data_folder(environ)
    found = read_settings(data / "settings" / "providers.json")[0]
    name = found.get("lastUsedProvider")
    settings = _part(found, "providers", str(name), "settings")
    known = {"anthropic": ANTHROPIC, "openai-native": OPENAI}
    base = settings.get("baseUrl") or known.get(str(name))
    if not isinstance(base, str) or not settings.get("apiKey"):
        return None  # asked by a sign-in
    return Needs(
        (str(folder), str(data)),
        (*_in(folder, ("rules", "skills", "workflows")), *_in(data, ("settings",))),
        _in(data, ("sessions", "db", "tasks", "state")),
        tuple(_hosts([base])),
    )


_AGENTS: Final[Mapping[str, Callable[[Mapping[str, str]], Needs | None]]] = {
    Plain.name: _plain,
    CLAUDE: _claude,
    CODEX: _codex,
    "qwen-code": _qwen,
    "gemini-cli": _gemini,
    "opencode": _opencode,
    "pi": _pi,
    "copilot-cli": _copilot,
    "cline": _cline,
}

# The variables that hold a key for a model's maker, and where that one is asked.
_KEYED: Final = {
    "ANTHROPIC_API_KEY": ANTHROPIC,
    "OPENAI_API_KEY": OPENAI,
    "GEMINI_API_KEY": GEMINI,
    "GOOGLE_GENERATIVE_AI_API_KEY": GEMINI,
}


def _models(environ: Mapping[str, str], given: Iterable[object]) -> tuple[str, ...]:
    """Return the hosts that are configured, and those of the makers that there is a key for."""
    urls = [url for url in given if isinstance(url, str)]
    urls += [url for name, url in _KEYED.items() if environ.get(name)]
    return tuple(dict.fromkeys(_hosts(urls)))


def _in(folder: Path, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(folder / name) for name in names)


def _part(settings: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """Return an object inside settings; an empty one where there is none."""
    for name in names:
        inner = settings.get(name)
        settings = inner if isinstance(inner, dict) else {}
    return settings


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
