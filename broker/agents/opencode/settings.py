"""
What the person's configuration of opencode says of subagents and of MCP servers.

Decided here: where that stands, in settings or in a file of a subagent's own, and how a table of
tools (``write: false``) is read. Not decided here: what follows (``broker.agents.children``,
``broker.agents.servers``). Rules under ``permission`` are left to opencode, which holds its
subagents to them by itself; what the workspace says is not loaded in a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.agents.definitions import Definitions, Listing, head_lines
from broker.agents.settingsfile import Found, parse_settings, plain_text, read_settings
from broker.errors import InputError, LaunchError

_SWITCH: Final = re.compile(r"""[ \t]+["']?([\w*-]+)["']?[ \t]*:[ \t]*(true|false)[ \t]*(?:#.*)?""")
_TABLE: Final = re.compile(r"tools[ \t]*:[ \t]*(.*)")
_CHANGES: Final = ("edit", "write", "apply_patch")  # one switch of opencode's turns them all off
_FILES: Final = ("config.json", "opencode.json", "opencode.jsonc")


def folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of the person's own configuration."""
    home = Path(environ.get("HOME", "/"))
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    given = environ.get("OPENCODE_CONFIG_DIR")
    return (own, home / ".opencode", *((Path(given),) if given else ()))


def definitions(environ: Mapping[str, str]) -> Definitions:
    """
    Return the definitions of a run, those in settings as they are now.

    Raises:
        LaunchError: settings cannot be read.
    """
    more: dict[str, Listing] = {}
    for place, (settings, why) in _settings(environ):
        if why is not None:
            raise LaunchError(f"`{place}` {why}")
        agents = settings.get("agent")
        for kind, said in agents.items() if isinstance(agents, dict) else ():
            table = said.get("tools") if isinstance(said, dict) else None
            if isinstance(table, dict):
                more[kind] = listing(table).both(more.get(kind, Listing()))
    places = [folder / name for folder in folders(environ) for name in ("agent", "agents")]
    return Definitions(places, more=more, deep=True, read=definition)


def servers(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the MCP servers that the person configured and left on, by name."""
    found: dict[str, object] = {}
    for _, (settings, _why) in _settings(environ):
        named = settings.get("mcp")
        for name, entry in named.items() if isinstance(named, dict) else ():
            before = found.get(name)
            if isinstance(entry, dict):
                found[name] = {**(before if isinstance(before, dict) else {}), **entry}
    return {n: e for n, e in found.items() if isinstance(e, dict) and e.get("enabled") is not False}


def providers(environ: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Return the options of the providers that the person configured, by the providers' names."""
    found: dict[str, dict[str, object]] = {}
    for _, (settings, _why) in _settings(environ):
        named = settings.get("provider")
        for name, entry in named.items() if isinstance(named, dict) else ():
            options = entry.get("options") if isinstance(entry, dict) else None
            found.setdefault(name, {}).update(options if isinstance(options, dict) else {})
    return found


def _settings(environ: Mapping[str, str]) -> Iterator[tuple[str, Found]]:
    """Yield the person's settings in the order in which later ones win."""
    own, *more = folders(environ)
    files = [own / name for name in _FILES]
    files += [Path(given) for given in (environ.get("OPENCODE_CONFIG"),) if given]
    files += [folder / name for folder in more for name in _FILES]
    yield from ((str(path), read_settings(path)) for path in files)
    yield "OPENCODE_CONFIG_CONTENT", parse_settings(environ.get("OPENCODE_CONFIG_CONTENT") or "{}")


def definition(path: Path, suffix: str) -> tuple[str, Listing]:
    """
    Return the name of a definition's subagent, which is its file's, and what its table says.

    Raises:
        InputError: it cannot be read, or not in one way only.
    """
    text = plain_text(path)
    if text is None:
        raise InputError("cannot be read, or is too long")
    return path.name.removesuffix(suffix), listing(dict(_switches(head_lines(text))))


def listing(table: Mapping[str, object]) -> Listing:
    """
    Return what a table of switches says of tools.

    >>> listing({"*": False, "read": True}), listing({"write": False})
    (Listing(names=('read',), without=()), Listing(names=None, without=('edit', 'write', ...)))
    """
    on = [name for name, value in table.items() if value is not False and name != "*"]
    off = [name for name, value in table.items() if value is False and name != "*"]
    if any(name in (*_CHANGES, "patch") for name in off):
        off = [*_CHANGES, *(name for name in off if name not in _CHANGES)]
    off = [name for name in off if "*" not in name]
    return Listing(tuple(on) if table.get("*") is False else None, tuple(off))


def _switches(lines: Sequence[str]) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    inside = seen = False
    for line in lines:
        table = _TABLE.fullmatch(line)
        if table is not None:
            if seen or table[1].partition("#")[0].strip():
                raise InputError("has a table of tools that may be read in two ways")
            inside = seen = True
        elif inside and line.strip() and line[0] not in " \t":
            inside = False
        elif inside and line.strip() and not line.strip().startswith("#"):
            switch = _SWITCH.fullmatch(line)
            if switch is None:
                raise InputError(f"has a line that may be read in two ways: `{line[:60]}`")
            found.append((switch[1], switch[2] == "true"))
    return found
