"""
What settings and files of Gemini CLI would free it from the broker's hooks.

Decided here: which settings, in whose file, and which variables in a workspace's ``.env``, keep
a hook from running or start a program outside of every call; and whether Gemini CLI trusts a
folder, since it runs no hook in a folder that it does not trust. Not decided here: when this is
looked at (``broker.agents.gemini.launch``).

Rules a maintainer keeps: a file that cannot be read as Gemini CLI reads it refuses; a workspace
names no hook, no program and no variable that the person did not ask for.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.agents.gemini.hook import AFTER, BEFORE, PROMPTED, STARTS
from broker.errors import LaunchError

FOLDER: Final = ".gemini"
SETTINGS: Final = "settings.json"
TRUST: Final = "GEMINI_CLI_TRUST_WORKSPACE"
MAX_SETTINGS_BYTES: Final = 4 * 2**20
EVENTS: Final = (BEFORE, AFTER, STARTS, PROMPTED)

Settings = Mapping[str, object]

# Comments end where the shorter reading of a line has them end, so that nothing is hidden.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_VARIABLE: Final = re.compile(r"(?:export\s+)?([\w.-]+)(?:\s*=|:(?:\s|$))")
_ETC: Final = "/etc/gemini-cli"
_PROTOTYPES: Final = frozenset(("__proto__", "constructor", "prototype"))
# What a workspace's `.env` may set: credentials and models. Anything else could reach the shell
# of a hook, such as `BASH_ENV`, `SHELLOPTS` and `LD_PRELOAD`.
_HARMLESS: Final = frozenset(
    (
        *("GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"),
        *("GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
    )
)


def read_settings(path: Path) -> Settings:
    """
    Return what a settings file says; nothing where there is no file.

    Raises:
        LaunchError: it cannot be read, is no JSON object, or says something twice.
    """
    try:
        if not path.exists():
            return {}
        if not path.is_file() or path.stat().st_size > MAX_SETTINGS_BYTES:
            raise LaunchError(f"`{path}` is not a settings file")
        text = _TOKEN.sub(_blank, path.read_text("utf-8"))
        found = json.loads(text, object_pairs_hook=_once)
    except OSError as error:
        raise LaunchError(f"`{path}` cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"`{path}` cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise LaunchError(f"`{path}` is not a JSON object")
    return found


def kept_off(settings: Settings) -> str | None:
    """
    Return why hooks would not run under settings of the person's or the machine's, or None.

    >>> kept_off({"hooksConfig": {"enabled": False}})
    '`hooksConfig.enabled` is not true'
    """
    config = _part(settings, "hooksConfig")
    if config is None or config.get("enabled", True) is not True:
        return "`hooksConfig.enabled` is not true"
    hooks = _part(settings, "hooks")
    if hooks is None or not all(isinstance(hooks.get(event, []), list) for event in EVENTS):
        return "`hooks` is not an object of lists"
    tools = _part(settings, "tools")
    if tools is None or tools.get("sandbox"):
        return "`tools.sandbox`: what runs in its sandbox has no hook"
    return None


def brought_along(settings: Settings, servers: Iterable[str] = ()) -> str | None:
    """
    Return what settings of a workspace do that none may do, or None.

    Args:
        settings: what they say.
        servers: the MCP servers that the person asked for by name.

    >>> brought_along({"mcp": {"serverCommand": "x"}}), brought_along({"ui": {"theme": "dark"}})
    ('`mcp.serverCommand` runs a program outside of every call', None)
    """
    for key in ("hooks", "hooksConfig"):
        if key in settings:
            return f"`{key}` could switch the broker's hook off"
    if "telemetry" in settings:
        return "`telemetry` writes or sends what is said outside of every call"
    tools = _part(settings, "tools")
    for key in ("sandbox", "discoveryCommand", "callCommand"):
        if tools is None or key in tools:
            return f"`tools.{key}` runs programs outside of every call"
    mcp, named = _part(settings, "mcp"), _part(settings, "mcpServers")
    if mcp is None or "serverCommand" in mcp:
        return "`mcp.serverCommand` runs a program outside of every call"
    unasked = ["?"] if named is None else sorted(named.keys() - set(servers))
    if unasked:
        return (
            f"`mcpServers` starts `{unasked[0]}` outside of every call: name the servers that you "
            "want with `--allowed-mcp-server-names`"
        )
    return None


def environment_files(cwd: Path, home: Path) -> Iterator[Path]:
    """Yield where Gemini CLI looks for variables, up from a folder; the first found is taken."""
    for folder in (cwd, *cwd.parents, home):
        yield folder / FOLDER / ".env"
        yield folder / ".env"


def unwelcome_variable(cwd: Path, home: Path) -> str | None:
    """
    Return which variable of which file reaches the agent although no person set it, or None.

    The person's own file, in the home folder, may set anything.
    """
    path = next((p for p in environment_files(cwd, home) if p.exists()), None)
    own = {os.path.realpath(place / ".env") for place in (home / FOLDER, home)}
    if path is None or os.path.realpath(path) in own:
        return None
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        return f"`{path}` cannot be read: {error.strerror}"
    for line in lines:
        named = _VARIABLE.match(line.strip().lstrip("\ufeff").strip())
        if named is not None and named[1] not in _HARMLESS:
            return f"`{path}` sets `{named[1]}`: set it yourself, or take it out"
    return None


def trusts(cwd: Path, environ: Mapping[str, str], settings: Iterable[Settings]) -> bool:
    """
    Return whether Gemini CLI trusts a folder, and so runs hooks in it.

    Args:
        cwd: the folder.
        environ: the agent's environment.
        settings: those of the machine and the person.

    Raises:
        LaunchError: its list of trusted folders cannot be read.
    """
    if environ.get("GEMINI_RESTRICTED_MODE") == "true" or environ.get(TRUST) == "false":
        return False
    if environ.get(TRUST) == "true":
        return True
    for each in settings:
        trust = _part(_part(each, "security") or {}, "folderTrust") or {}
        if trust.get("enabled") is False:
            return True
    best, level = -1, ""
    for folder, said in read_settings(trust_list(environ)).items():
        place = os.path.dirname(folder) if said == "TRUST_PARENT" else folder
        if Path(os.path.realpath(cwd)).is_relative_to(os.path.realpath(place)):
            if len(folder) > best:
                best, level = len(folder), str(said)
    return level in ("TRUST_FOLDER", "TRUST_PARENT")


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the folder that Gemini CLI takes for the person's home."""
    return Path(os.path.abspath(environ.get("GEMINI_CLI_HOME") or environ.get("HOME") or "/"))


def machine_settings(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the settings files of the machine, on this system."""
    folder = "/Library/Application Support/GeminiCli" if sys.platform == "darwin" else _ETC
    given = environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    system = Path(given) if given else Path(folder, SETTINGS)
    defaults = environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
    return system, Path(defaults) if defaults else system.parent / "system-defaults.json"


def trust_list(environ: Mapping[str, str]) -> Path:
    """Return where the trusted folders are listed."""
    given = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    return Path(given) if given else home_of(environ) / FOLDER / "trustedFolders.json"


def _part(settings: Settings, key: str) -> Settings | None:
    """Return an object inside settings; empty where there is none, None where it is no object."""
    found = settings.get(key, {})
    return found if isinstance(found, dict) else None


def _blank(token: re.Match[str]) -> str:
    return token[0] if token[0].startswith('"') else " "


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    if _PROTOTYPES & found.keys():
        raise ValueError("a key that is not a setting")
    return found
