"""
What is known of tools: one TOML file per agent or MCP server, read when a session opens.

Decided here: which files are read, which of them wins, and which tools a group such as
``reads`` holds. Not decided here: how a file is written (``broker.catalogs.reader``) and what
a role means for a call (``broker.resolve``).

Rules a maintainer keeps: a person's own file may say otherwise than a shipped one; a file of
the workspace may only add tools, and cannot vouch for them, because a repository is not the
person: such a tool stays one whose effects are not seen, in no group, and its arguments are
judged on top (ADR-0007).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from broker.catalogs.entry import EFFECTS, ROLES, Argument, ToolEntry
from broker.catalogs.reader import read_catalog
from broker.errors import CatalogError
from broker.limits import MAX_CATALOG_BYTES

__all__ = [
    "EFFECTS",
    "ROLES",
    "Argument",
    "Catalogs",
    "ToolEntry",
    "load_catalogs",
]

_PLAIN: Final = re.compile(r"mcp__(?!_)(?:(?!__).)+__(?!_)(?:(?!__).)+")
_GROUPS: Final = {"reads": ("read", "none"), "writes": ("write",), "egress": ("egress",)}
_MAX_FILES: Final = 256  # catalog files in one folder


class Catalogs:
    """
    The entries of all catalogs, looked up by the tool's name and its server.

    >>> catalogs = load_catalogs()
    >>> catalogs.lookup("Read").arguments["file_path"].role
    'path-read'
    >>> catalogs.lookup("Read", server="elsewhere") is None
    True
    """

    def __init__(self, entries: Iterable[ToolEntry], sources: Iterable[str] = ()) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self.sources = tuple(sources)

    def lookup(self, tool: str, server: str | None = None) -> ToolEntry | None:
        """
        Return what is known of a tool.

        Args:
            tool: the name as the call spells it.
            server: the MCP server that answers the call, when it is known. A name alone never
                finds another server's tool, nor one that is built in.
        """
        if server is None:
            entry = self._entries.get(tool)
            # `mcp__a__b__c` may be `c` of server `a__b`, of which nothing is known.
            told = entry is None or entry.server is None or _PLAIN.fullmatch(tool)
            return entry if told else None
        full = tool if tool.startswith("mcp__") else f"mcp__{server}__{tool}"
        entry = self._entries.get(full)
        return entry if entry is not None and entry.server == server else None

    def group(self, name: str) -> frozenset[str]:
        """
        Return the tools of a group: ``reads`` holds those that only read, or touch nothing,
        ``writes`` those that change local files, ``egress`` those that reach the network.

        Raises:
            CatalogError: there is no such group.
        """
        groups = self.groups()
        if name not in groups:
            raise CatalogError(f"no such group `{name}`; one of {', '.join(groups)}")
        return groups[name]

    def groups(self) -> Mapping[str, frozenset[str]]:
        """Return every group, for ``@NAME`` in a scope's ``tools``."""
        return MappingProxyType({name: self._with(effects) for name, effects in _GROUPS.items()})

    def _with(self, effects: tuple[str, ...]) -> frozenset[str]:
        entries = self._entries.values()
        return frozenset(e.name for e in entries if e.vouched and e.effect in effects)

    def known(self, tool: str) -> ToolEntry | None:
        """Return what is known of a tool by its whole name, as a scope spells it."""
        return self._entries.get(tool)

    def tools(self) -> tuple[ToolEntry, ...]:
        """Return every entry, by name."""
        return tuple(sorted(self._entries.values(), key=lambda entry: entry.name))


def load_catalogs(workspace: Path | str | None = None, config: Path | None = None) -> Catalogs:
    """
    Read the shipped catalogs, the person's own, and the workspace's.

    Args:
        workspace: its ``.broker/catalogs`` may add tools that no other catalog knows.
        config: the person's configuration folder; its ``catalogs`` may redefine tools.

    Raises:
        CatalogError: a file is not understood, or says again what another one says; the
            message names the file and the line.
    """
    known: dict[str, ToolEntry] = {}
    sources: list[str] = []
    shipped = [(f.name, f.read_bytes()) for f in files(__name__).iterdir() if _is_toml(f.name)]
    for name, data in sorted(shipped):
        _add(known, read_catalog(data, name), ())
        sources.append(name)
    own: dict[str, ToolEntry] = {}
    for path in _toml_files(config, "catalogs"):
        _add(own, read_catalog(_read(path), str(path)), ())
        sources.append(str(path))
    known |= own
    there = None if workspace is None else Path(workspace)
    for path in _toml_files(there, ".broker", "catalogs"):
        entries = read_catalog(_read(path), str(path), vouched=False)
        _add(known, entries, ("a file of the workspace cannot redefine it",))
        sources.append(str(path))
    return Catalogs(known.values(), sources)


def _add(known: dict[str, ToolEntry], entries: Iterable[ToolEntry], more: tuple[str, ...]) -> None:
    for entry in entries:
        before = known.get(entry.name)
        if before is not None:
            reason = f"`{entry.name}` is already described by {before.source}:{before.line}"
            raise CatalogError("; ".join((f"{entry.source}:{entry.line}: {reason}", *more)))
        known[entry.name] = entry


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _toml_files(folder: Path | None, *below: str) -> list[Path]:
    if folder is None:
        return []
    place = folder.joinpath(*below)
    try:
        found = sorted(p for p in place.iterdir() if _is_toml(p.name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CatalogError(f"{place}:1: cannot be listed: {error.strerror}") from None
    if len(found) > _MAX_FILES:
        raise CatalogError(f"{place}:1: more than {_MAX_FILES} files")
    return found


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device would never end
            raise CatalogError(f"{path}:1: not a file")
        with path.open("rb") as stream:
            return stream.read(MAX_CATALOG_BYTES + 1)
    except OSError as error:
        raise CatalogError(f"{path}:1: cannot be read: {error.strerror}") from None
